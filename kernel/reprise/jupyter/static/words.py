"""Allowlists are long: written as a text, read as a set."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
