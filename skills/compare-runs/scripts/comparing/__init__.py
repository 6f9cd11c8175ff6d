"""Compares what two runs of a notebook showed: numbers by tolerance, all else exactly."""
