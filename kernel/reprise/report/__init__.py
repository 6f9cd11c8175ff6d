"""Pages that show what Reprise found out."""
