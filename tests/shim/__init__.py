"""The OCI runtime shim: what it edits, what it leaves alone, and whether its limits hold."""
