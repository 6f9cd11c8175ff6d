"""`reprise log --network`: what each step asked of the network, and what became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from reprise.commands.opened import took, when
from reprise.commands.terminal import Colour, Terminal
from reprise.log.as_json import network_json
from reprise.log.reader import Reader
from reprise.log.store import NetworkRow, Verdict
from reprise.quantities import amount

_COLOURS: dict[Verdict, Colour] = {
    "allowed": "green",
    "served": "green",
    "refused": "red",
    "failed": "yellow",
}


@dataclass
class _Sum:
    """What all rows come to. times: of each verdict."""

    up: int = 0
    down: int = 0
    times: dict[str, int] = field(default_factory=dict)

    def add(self, row: NetworkRow) -> None:
        self.up += row.bytes_up
        self.down += row.bytes_down
        self.times[row.verdict] = self.times.get(row.verdict, 0) + 1 + _again(row)


def _again(row: NetworkRow) -> int:
    """How often the same was refused once more, on a row that counts."""
    times = row.detail.get("times")
    return times - 1 if isinstance(times, int) else 0


async def network(reader: Reader, start: int, as_json: bool, terminal: Terminal) -> None:
    """Rows are written as they are read, so a long log needs no memory."""
    if as_json:
        await _as_json(reader, start, terminal)
    else:
        await _as_table(reader, start, terminal)


async def _as_table(reader: Reader, start: int, terminal: Terminal) -> None:
    terminal.line(f"session {reader.session}")
    terminal.line(
        terminal.paint(
            f"{'step':>8}  {'asked':19}  {'verdict':8}  {'up':>9}  {'down':>9}  {'took':>10}  host",
            "bold",
        )
    )
    total = _Sum()
    async for row in reader.network(start):
        total.add(row)
        verdict = terminal.paint(f"{row.verdict:8}", _COLOURS[row.verdict])
        step = "between" if row.seq is None else f"{row.seq}{'*' if row.replay else ' '}"
        terminal.line(
            f"{step:>8}  {when(row.at)}  {verdict}  {amount(row.bytes_up):>9}  "
            f"{amount(row.bytes_down):>9}  {took(row.duration_us):>10}  {_what(row)}"
        )
        if row.reason:
            terminal.line(f"{'':>8}  {terminal.paint(_line(row.reason), 'dim')}")
    if not total.times:
        terminal.line("nothing was asked of the network")
        return
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(total.times.items()))
    terminal.line(f"{counts}; {amount(total.up)} up, {amount(total.down)} down")
    terminal.line(terminal.paint("* asked again by a replay of that step", "dim"))


def _what(row: NetworkRow) -> str:
    """Host and port as asked, or the request where the proxy reads requests."""
    host = f"[{row.host}]" if ":" in row.host else row.host
    where = f"{host}:{row.port}" if row.port else host
    method, url, status = (row.detail.get(name) for name in ("method", "url", "status"))
    if isinstance(url, str):
        where = f"{method} {url}" + ("" if status is None else f" → {status}")
    if row.address is not None and row.address != row.host:
        where += f"  ({row.address})"
    if row.detail.get("continued"):
        where += "  (goes on)"
    if again := _again(row):
        where += f"  ({again + 1:,} times more)"
    return _line(where)


def _line(text: str) -> str:
    """Text of strangers as one line that does nothing to a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text[:500])


async def _as_json(reader: Reader, start: int, terminal: Terminal) -> None:
    total = _Sum()
    terminal.piece(f'{{\n  "session": {json.dumps(str(reader.session))},\n  "network": [')
    between = "\n    "
    async for row in reader.network(start):
        total.add(row)
        terminal.piece(between + json.dumps(network_json(row), allow_nan=False))
        between = ",\n    "
    sums = {"bytes_up": total.up, "bytes_down": total.down, "verdicts": total.times}
    terminal.piece(f'\n  ],\n  "total": {json.dumps(sums)}\n}}\n')
