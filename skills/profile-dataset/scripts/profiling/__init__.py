"""Profiles a table row by row, in bounded memory: what its columns hold and what is odd."""
