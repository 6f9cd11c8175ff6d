"""Who asks, as Jupyter knows them: by name, or as somebody who has the server's token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider

#: Jupyter's default makes such a name for each browser, and for each request with a token.
_GENERATED: Final = re.compile(r"[0-9a-f]{32}")

#: These know no people: a token or a password, which are everybody's who has them.
_ANONYMOUS: Final = (IdentityProvider, PasswordIdentityProvider)


@dataclass(frozen=True)
class Person:
    """name: None where Jupyter cannot tell people apart."""

    name: str | None

    @property
    def anonymous(self) -> bool:
        return self.name is None

    @property
    def key(self) -> str:
        """By which requests are counted. All who are anonymous are one."""
        return "" if self.name is None else self.name

    def __str__(self) -> str:
        return "anonymous" if self.name is None else self.name


def person_of(provider: Any, user: Any) -> Person:
    """provider: the server's identity provider. user: whom it found."""
    name = str(user.username)
    if type(provider) in _ANONYMOUS or _GENERATED.fullmatch(name):
        return Person(None)
    return Person(name)
