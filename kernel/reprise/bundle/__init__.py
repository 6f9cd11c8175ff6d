"""A session as one file: written, checked to the last byte, and read into another log."""
