"""The demonstration: a real pandas notebook with its data, and what runs it and kills it."""
