"""What the agent can do: one module for each family of tools, all on one session (`place.py`)."""
