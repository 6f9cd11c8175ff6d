"""The host's side of the network of sandboxes: the rules, and the connections made by them."""
