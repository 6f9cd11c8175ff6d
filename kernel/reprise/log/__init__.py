"""The log: what a step is (`model`), where it is kept (`postgres`), by which server (`embedded`)."""
