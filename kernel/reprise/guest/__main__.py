"""Starts the guest: `python -I -S …/reprise/guest/__main__.py FD`, FD being its end of the stream.

Run by path because reprise need not be installed in the interpreter that runs it: what it
imports lies beside it.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rsplit("/", 3)[0])
    from reprise.guest.main import main

    sys.exit(main(sys.argv[1:]))
