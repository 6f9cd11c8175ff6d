"""Says where the differences of a verify report come from, what inherits and what mends them."""
