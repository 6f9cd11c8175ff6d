"""The agent in the notebook: its every act a step in the same history."""
