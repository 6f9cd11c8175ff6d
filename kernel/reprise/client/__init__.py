"""Talks to a kernel from Python: attaches to the one that holds a session, or starts one."""
