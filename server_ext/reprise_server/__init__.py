"""Reprise's Jupyter Server extension: ties a notebook to its session."""
