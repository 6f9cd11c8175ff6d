"""Agent Skills: folders with a SKILL.md, read, checked, kept in a governed catalog, and moved."""
