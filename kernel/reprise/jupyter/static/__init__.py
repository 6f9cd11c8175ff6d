"""Static output: what a session shows once something untrusted has acted (docs/browser.md)."""
