"""Starts the guest by path, because reprise need not be installed in the interpreter that runs it.

    python -I -S …/reprise/guest/__main__.py FD             its end of the stream, inherited
    python -I -S …/reprise/guest/__main__.py --dial PATH    a socket to dial, with REPRISE_TOKEN
    python -I -S …/reprise/guest/__main__.py --rooted PATH  as root: be its parent (`rooted`)

What it imports lies beside it.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rsplit("/", 3)[0])
    from reprise.guest.main import main

    sys.exit(main(sys.argv[1:]))
