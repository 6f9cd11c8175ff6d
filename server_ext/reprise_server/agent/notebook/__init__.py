"""The notebook that the agent works in, wherever it is live: a room, a page, or the file."""
