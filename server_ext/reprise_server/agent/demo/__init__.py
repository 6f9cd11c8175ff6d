"""The agent's demonstration: a folder, a skill and a script of a model, told from end to end."""
