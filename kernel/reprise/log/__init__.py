"""The log: what a step is (`model`), where it is kept (`postgres`), which server (`embedded`)."""
