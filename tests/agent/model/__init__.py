"""The model behind the Messages API: strictness, waits, bounds, prices, prefixes."""
