"""Sandboxes: the backend contract, the frames spoken with the guest, and the backends."""
