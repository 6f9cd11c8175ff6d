"""Replay: the planner, the executor that brings a sandbox to a state, and verify."""
