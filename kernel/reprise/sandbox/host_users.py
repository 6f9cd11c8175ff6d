"""Users of this machine that sandboxes live under when root starts them."""

from __future__ import annotations

import secrets

#: Beyond every range that systemd documents (uids and gids on systemd systems), so no account,
#: container or file has them, and two sandboxes can neither signal nor trace each other nor share
#: a process limit.
_UIDS = range(0x7000_0000, 0x7FFE_0000, 2)


def private_user() -> int:
    """A user for one sandbox. The next number is its own as well."""
    return _UIDS[secrets.randbelow(len(_UIDS))]
