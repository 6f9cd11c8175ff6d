"""Commands of the agent, found by entry points (reprise/cli.py)."""
