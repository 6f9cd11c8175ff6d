"""Environments: digests, named settings, mounts; and where state is kept."""
