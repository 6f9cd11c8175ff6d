"""Random histories on real kernels beside a plain model of what their state must be."""
