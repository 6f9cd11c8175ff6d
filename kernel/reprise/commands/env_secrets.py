"""`reprise env record` and `secret`: what the proxy keeps of answers, and adds to requests."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from reprise.commands.env_network import FROM_WHEN
from reprise.commands.terminal import Terminal
from reprise.egress.policy import rule
from reprise.errors import UsageError
from reprise.sandbox.named import NamedEnvironment
from reprise.sandbox.named_network import network_record, network_secret, network_secret_remove
from reprise.sandbox.network import HostSecret, split_place

_SECRETS = """\
examples:
  reprise env secret api.example.org --from env:API_KEY
                       requests get the header "Authorization: Bearer …"
  reprise env secret api.example.org:8443 --header X-Api-Key --prefix "" --from file:/run/key
  reprise env secret api.example.org --remove

The environment names where the credential is read, on this machine and for each request; it is
never stored. Code in sandboxes sends its requests without it.
"""


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "record", parents=[common], help="record what hosts answer, so that replays need none"
    )
    act.add_argument("state", choices=["on", "off"])
    act.set_defaults(act=_record)
    act = acts.add_parser(
        "secret",
        parents=[common],
        help="add a credential to requests to a host; sandboxes never see it",
        epilog=_SECRETS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("host", metavar="HOST[:PORT]", help="exactly this host")
    act.add_argument("--header", metavar="NAME", help="default: Authorization")
    act.add_argument("--prefix", metavar="TEXT", help='before it, default: "Bearer "')
    act.add_argument("--from", dest="source", metavar="SOURCE", help="env:NAME or file:/PATH")
    act.add_argument("--remove", action="store_true", help="add it no longer")
    act.set_defaults(act=_secret)


def _record(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = network_record(args.environment, args.state == "on")
    if args.json:
        terminal.json(_as_json(environment))
        return 0
    if not environment.network.record:
        terminal.line(f"{environment.name} no longer records what hosts answer. {FROM_WHEN}")
        return 0
    terminal.line(f"{environment.name} records what hosts answer. {FROM_WHEN}")
    if not environment.network.open:
        terminal.line("It may not reach any host yet (`reprise env allow HOST`).")
    return 0


def _secret(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.remove:
        return _remove(args, terminal)
    if args.source is None:
        raise UsageError("Say where the credential is: --from env:NAME or --from file:/PATH.")
    secret = HostSecret(
        args.host.lower(),
        args.header or "Authorization",
        "Bearer " if args.prefix is None else args.prefix,
        args.source,
    )
    environment = network_secret(args.environment, secret)
    if args.json:
        terminal.json(_as_json(environment))
        return 0
    terminal.line(
        f"Requests of {environment.name} to {secret.host} get {secret.header} from {secret.source}."
        f" {FROM_WHEN}"
    )
    if (missing := _missing(secret)) is not None:
        terminal.warn(missing)
    if not _is_allowed(environment, secret):
        terminal.warn(
            f"{secret.host} is not allowed yet: reprise env allow {secret.host}"
            + ("" if args.environment == "default" else f" --environment {args.environment}")
        )
    return 0


def _remove(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.source is not None or args.prefix is not None:
        raise UsageError("--remove takes a host, and --header for one of several; nothing else.")
    gone = network_secret_remove(args.environment, args.host, args.header)
    if args.json:
        terminal.json(
            {"environment": args.environment, "removed": [each.to_json() for each in gone]}
        )
        return 0
    named = ", ".join(each.header for each in gone)
    terminal.line(f"Requests of {args.environment} to {args.host} no longer get {named}.")
    terminal.line("Kernels that run keep what they have; restart them to take it away there.")
    return 0


def _missing(secret: HostSecret) -> str | None:
    """Why it cannot be read here and now; a kernel may run elsewhere, so this is no error."""
    kind, _, name = secret.source.partition(":")
    if kind == "env" and name not in os.environ:
        return f"{name} is not set in this shell; it must be where the kernel is started."
    if kind == "file" and not Path(name).is_file():
        return f"There is no file {name} yet."
    return None


def _is_allowed(environment: NamedEnvironment, secret: HostSecret) -> bool:
    place = rule(secret.host)
    port = split_place(secret.host)[1] or 443
    return place is not None and any(
        found.fits(place.host, port)
        for each in (*environment.network.allow, *environment.network.private)
        if (found := rule(each)) is not None
    )


def _as_json(environment: NamedEnvironment) -> dict[str, Any]:
    return {"environment": environment.name, "network": environment.network.to_json()}
