"""The guest: runs inside the sandbox, starts the language kernel and serves the host.

Imported by nobody on the host. It may use the standard library, pyzmq and
`reprise.sandbox.frames` (copied in beside it) and nothing else.
"""
