"""The Model Context Protocol both ways: servers' tools for our agent, sessions for other agents."""
