"""`python -m reprise.jupyter -f CONNECTION_FILE`: what the kernelspec starts."""

from __future__ import annotations

import sys

from reprise.jupyter.begin import main

sys.exit(main())
