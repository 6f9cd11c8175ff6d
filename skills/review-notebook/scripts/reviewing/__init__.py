"""Reads a notebook without running it: what leaks, what hides, what will not come out again."""
