"""Reprise: a Jupyter kernel whose state can always be played again.

This file stays empty of imports: it is also loaded inside sandboxes, where only the
standard library and pyzmq are promised.
"""

__version__ = "0.1.0"
