"""Told when a notebook is live somewhere else than it was a moment ago."""

from __future__ import annotations


class Elsewhere(Exception):
    """A page opened the notebook, or the last one closed it, before it was changed; it was not."""
