"""The router kernel that speaks Jupyter's protocol, and its kernelspec."""
