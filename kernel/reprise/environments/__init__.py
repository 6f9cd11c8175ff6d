"""Named environments made from requirements: resolved, locked, built, checked and collected."""
