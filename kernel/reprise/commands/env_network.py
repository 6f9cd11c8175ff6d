"""`reprise env allow`, `deny` and `network`: which hosts sandboxes may reach, and how much."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.egress.addresses import TOLD, kind_of, parse
from reprise.egress.package_index import package_index
from reprise.egress.policy import rule
from reprise.errors import UsageError
from reprise.quantities import amount
from reprise.sandbox.named import NamedEnvironment
from reprise.sandbox.named_network import network_allow, network_deny, network_limits
from reprise.sandbox.network import PACKAGE_INDEX

_PLACES = """\
places:
  example.org          ports 80 and 443
  example.org:8443     one port
  *.example.org        its subdomains, not itself
  192.0.2.7, [2001:db8::7]:8080
                       an address
  package-index        whatever index pip and uv are configured with on this machine
"""

#: Running kernels keep the rules they began with: their environment is part of their history.
FROM_WHEN = "Kernels that start from now on have it; restart a running one to have it there."


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "allow",
        parents=[common],
        help="let sandboxes reach a host",
        epilog=_PLACES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("places", nargs="+", metavar="HOST[:PORT]", help="or package-index; see below")
    act.add_argument(
        "--private",
        action="store_true",
        help="also where it leads to a private, link-local or loopback address",
    )
    act.set_defaults(act=_allow)
    act = acts.add_parser("deny", parents=[common], help="let sandboxes reach a host no longer")
    act.add_argument("places", nargs="+", metavar="HOST[:PORT]", help="as it was allowed")
    act.set_defaults(act=_deny)
    act = acts.add_parser("network", parents=[common], help="limits of what sandboxes ask")
    act.add_argument("--connections", metavar="N", help="open at once")
    act.add_argument("--rate", metavar="N", help="new connections a minute")
    act.add_argument("--bytes", metavar="SIZE", help="of one step, both ways; or none, default")
    act.set_defaults(act=_network)


def _allow(args: argparse.Namespace, terminal: Terminal) -> int:
    for each in args.places:
        must_be_dialled(each, args.private)
    environment = network_allow(args.environment, args.places, private=args.private)
    index = package_index() if PACKAGE_INDEX in args.places else None
    if args.json:
        said = _as_json(environment)
        if index is not None:
            said["package_index"] = {"places": list(index.places), "said": list(index.said)}
        terminal.json(said)
        return 0
    terminal.line(f"{environment.name} may reach {', '.join(args.places)}. {FROM_WHEN}")
    if index is not None:
        terminal.line(f"Here, {PACKAGE_INDEX} is {', '.join(index.places) or 'nothing'}.")
        for sentence in index.said:
            terminal.warn(sentence)
    return 0


def must_be_dialled(place: str, private: bool) -> None:
    """Refuse an address that is never dialled under such a rule, rather than every connection."""
    found = None if place == PACKAGE_INDEX else rule(place)
    address = None if found is None else parse(found.host)
    if found is None or address is None or private:
        return
    kind = kind_of(address)
    if kind != "public":
        raise UsageError(
            f"{place} is {TOLD[kind]}, which is refused unless it is allowed with --private. "
            "Nothing was changed."
        )


def _deny(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = network_deny(args.environment, args.places)
    if args.json:
        terminal.json(_as_json(environment))
        return 0
    terminal.line(f"{environment.name} may no longer reach {', '.join(args.places)}.")
    terminal.line("Kernels that run keep what they have; restart them to take it away there.")
    return 0


def _network(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = network_limits(
        args.environment, connections=args.connections, rate=args.rate, size=args.bytes
    )
    if args.json:
        terminal.json(_as_json(environment))
        return 0
    rules = environment.network
    terminal.table(
        ["limit", "value", "of what"],
        [
            ["connections", f"{rules.connections or 'none'}", "open at once"],
            ["rate", f"{rules.rate or 'none'}", "new connections a minute"],
            ["bytes", amount(rules.bytes) if rules.bytes else "none", "of one step, both ways"],
        ],
    )
    return 0


def _as_json(environment: NamedEnvironment) -> dict[str, Any]:
    rules = environment.network
    return {
        "environment": environment.name,
        "network": rules.to_json(),
        "limits": {"connections": rules.connections, "rate": rules.rate, "bytes": rules.bytes},
    }
