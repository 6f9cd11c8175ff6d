"""Static output, value in, value out."""
