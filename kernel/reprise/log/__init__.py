"""The log: what a step is (`model`), where it is kept (`postgres`, `blobs`) and by which server (`embedded`)."""
