"""The commands of `reprise`, one module each; `reprise.cli` lists and runs them."""
