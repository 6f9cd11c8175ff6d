"""Real public notebooks, each run with and without kills; see run.py."""
