"""MCP servers as an operator configures them, read strictly (pure).

c.RepriseAgent.mcp_servers = {
    "time": {"command": ["mcp-server-time"]},
    "tickets": {
        "url": "https://tickets.example.org/mcp",
        "headers": {"Authorization": {"variable": "TICKETS_AUTHORIZATION"}},
        "tools": ["search_tickets"],
    },
}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from reprise.errors import UsageError

#: No underscore: `mcp__SERVER__TOOL` is read one way only.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: RFC 9110, 5.6.2: a token.
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
#: What the protocol itself says in headers, and what frames a request.
_OURS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length"}
    | {"content-type", "host", "mcp-protocol-version", "mcp-session-id", "origin"}
    | {"transfer-encoding"}
)
_MOST_SERVERS: Final = 16
_MOST_WORDS: Final = 64
_MOST_NAMED: Final = 64
_LONGEST: Final = 8_192
#: Seconds that a call may take unless configured, and at most.
TIMEOUT_S: Final = 60.0
LONGEST_TIMEOUT_S: Final = 3_600.0
#: Of variables' names.
_SECRET: Final = re.compile(r"AUTH|CREDENTIAL|DSN|KEY|PASS|PRIVATE|SECRET|TOKEN", re.IGNORECASE)
#: A shorter value is a word that may stand anywhere; hiding it would garble text and hide nothing.
_SHORTEST_SECRET: Final = 6


@dataclass(frozen=True)
class ConfiguredServer:
    """One server.

    command: words of the program that speaks on its stdin and stdout; empty where there is a url.
    env: what it gets on top of a few variables that hold no secret (stdio.py).
    url: of a server that speaks streamable HTTP.  headers: sent with each request to it.
    timeout_s: of one call.  tools: those offered, by the server's own names; None: all.
    secrets: values that are hidden wherever they are repeated.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = TIMEOUT_S
    tools: frozenset[str] | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def host(self) -> str | None:
        """The host that calls go to; None of a program on this machine."""
        return urlsplit(self.url).hostname if self.url else None

    def hide(self, text: str) -> str:
        """The text without its secrets: the server may repeat them in an answer or an error."""
        for value in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(value, "[hidden]")
        return text

    def hidden_in(self, value: Any) -> Any:
        """The same of each text and key in a JSON value."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hidden_in(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.hidden_in(each) for each in value]
        return value


def configured_servers(
    given: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[ConfiguredServer, ...]:
    """The servers of `RepriseAgent.mcp_servers`, by name. environ: where `{"variable": NAME}` is
    looked up. Raises UsageError, which names the server and what to mend, never a value."""
    if not isinstance(given, Mapping):
        raise UsageError("RepriseAgent.mcp_servers must be {NAME: {command or url, …}}.")
    if len(given) > _MOST_SERVERS:
        raise UsageError(f"RepriseAgent.mcp_servers has {len(given)}; at most {_MOST_SERVERS}.")
    names = sorted(given, key=str)
    return tuple(_server(name, given[name], environ) for name in names)


def _server(name: object, given: object, environ: Mapping[str, str]) -> ConfiguredServer:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"RepriseAgent.mcp_servers: {name!r} is no name for a server. Use at most 24 of a-z, "
            "0-9 and inner hyphens."
        )

    def wrong(what: str) -> UsageError:
        return UsageError(f"RepriseAgent.mcp_servers[{name!r}]: {what}")

    if not isinstance(given, Mapping):
        raise wrong("must be a dictionary with `command` or `url`.")
    if unknown := sorted(
        str(key)
        for key in given
        if key not in ("command", "env", "url", "headers", "timeout", "tools")
    ):
        raise wrong(
            f"knows no {unknown[0]!r}: `command` and `env`, or `url` and `headers`; `timeout`, "
            "`tools`."
        )
    if ("command" in given) == ("url" in given):
        raise wrong("give either `command` (a program to start) or `url`.")
    if "headers" in given and "url" not in given:
        raise wrong("`headers` belong to a `url`.")
    if "env" in given and "command" not in given:
        raise wrong("`env` belongs to a `command`.")
    try:
        env = _values(given.get("env", {}), _VARIABLE, "env", environ)
        headers = _headers(given.get("headers", {}), environ)
        return ConfiguredServer(
            name,
            command=_command(given["command"]) if "command" in given else (),
            env=env,
            url=_url(given["url"]) if "url" in given else "",
            headers=headers,
            timeout_s=_timeout(given.get("timeout", TIMEOUT_S)),
            tools=_tools(given.get("tools")),
            secrets=_secrets(given.get("env", {}), env, headers),
        )
    except _Wrong as error:
        raise wrong(str(error)) from None


class _Wrong(Exception):
    """What is wrong with one server's settings."""


def _text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value


def _command(given: object) -> tuple[str, ...]:
    words = given if isinstance(given, list | tuple) else []
    if not 0 < len(words) <= _MOST_WORDS or not words[0] or not all(map(_text, words)):
        raise _Wrong('`command` must be a list of words, such as ["mcp-server-time"].')
    return tuple(words)


def _url(given: object) -> str:
    if not isinstance(given, str) or not _text(given):
        raise _Wrong("`url` must be a text.")
    try:
        split = urlsplit(given)
        split.port  # noqa: B018  (raises on what is no port)
    except ValueError:
        raise _Wrong("`url` is no URL.") from None
    if split.scheme not in ("http", "https") or not split.hostname:
        raise _Wrong("`url` must begin with https:// (or http://) and name a host.")
    if split.username is not None or split.password is not None:
        raise _Wrong("`url` holds a user or a password: put it into `headers`.")
    if re.search(r"[\x00-\x20\x7f]", given):
        raise _Wrong("`url` holds a blank or a control character.")
    return given


def _headers(given: object, environ: Mapping[str, str]) -> dict[str, str]:
    values = _values(given, _HEADER, "headers", environ)
    for name, value in values.items():
        if name.lower() in _OURS:
            raise _Wrong(f"`headers`: {name} is set by the protocol.")
        if not re.fullmatch(r"[\x20-\x7e\t]*", value):
            raise _Wrong(f"`headers`: the value of {name} holds a character that no header may.")
    return values


def _values(
    given: object, names: re.Pattern[str], what: str, environ: Mapping[str, str]
) -> dict[str, str]:
    if not isinstance(given, Mapping) or len(given) > _MOST_NAMED:
        raise _Wrong(f"`{what}` must be a dictionary of at most {_MOST_NAMED} texts.")
    found = {}
    for name, said in given.items():
        value = said
        if not isinstance(name, str) or not names.fullmatch(name):
            raise _Wrong(f"`{what}`: {name!r} is no name.")
        if isinstance(said, Mapping) and set(said) == {"variable"}:
            variable = said["variable"]
            if not isinstance(variable, str) or variable not in environ:
                raise _Wrong(f"`{what}`: {name} comes from the variable {variable!r}: not set.")
            value = environ[variable]
        if not _text(value):
            raise _Wrong(f'`{what}`: {name} must be a text or {{"variable": NAME}}.')
        found[name] = value
    return found


def _secrets(
    given: Mapping[str, Any], env: Mapping[str, str], headers: Mapping[str, str]
) -> frozenset[str]:
    """Every header's value, also without its scheme; of variables those that came from elsewhere,
    or whose name says so: "READONLY" is a word that answers are full of."""
    found = {*headers.values(), *(value.rpartition(" ")[2] for value in headers.values())}
    found |= {
        value
        for name, value in env.items()
        if isinstance(given[name], Mapping) or _SECRET.search(name)
    }
    return frozenset(value for value in found if len(value) >= _SHORTEST_SECRET)


def _timeout(given: object) -> float:
    number = given if isinstance(given, int | float) and not isinstance(given, bool) else 0
    if not 0 < number <= LONGEST_TIMEOUT_S:
        raise _Wrong(f"`timeout` is in seconds, more than 0 and at most {LONGEST_TIMEOUT_S:.0f}.")
    return float(number)


def _tools(given: object) -> frozenset[str] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple | set | frozenset) or not all(map(_text, given)):
        raise _Wrong("`tools` must be a list of the server's own names of tools.")
    return frozenset(given)
