"""Makes a report of a notebook: figures, tables and words, nothing that acts or loads."""
