"""What skills take: tokens of the catalog, the search, reading and checking, mounting.

    python benchmarks/skills.py [--skills N] [--rounds N] [--json]

Tokens are estimated, and counted by the API too where ANTHROPIC_API_KEY is set. The catalog is a
real one, in an embedded Postgres that commits durably; its skills are made up of the words that
public ones are made of. A mount is a step of a live session in bubblewrap, from the request to both
its idle and its reply, two durable commits included. Exits 1 when a target of docs/benchmarks.md is
missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beside import REPRISE, Bench, Running, bench, machine
from commands import file_entry, step

from reprise.log.connect import open_connection
from reprise.log.embedded import Server
from reprise.log.postgres import Log
from reprise.skills.catalog import Catalog
from reprise.skills.check import check
from reprise.skills.contract import Origin, Skill
from reprise.skills.counting import Counter, has_key
from reprise.skills.disclosure import Disclosure
from reprise.skills.folder import read_folder, tree_of_files, write_folder
from reprise.skills.read import read_skill
from reprise.skills.tokens import Tokens

#: The most that each may take.
TOKENS, SEARCH_MS, MOUNT_MS = 2_000, 20.0, 50.0
SIZES = (10, 100, 1_000)
MOUNTED_FILES, MOUNTED_FILE = 200, 2 << 10
CHECKED = 200

VERBS = "profile clean join plot model fit explain review convert extract summarise forecast audit "
VERBS += "label align segment annotate simulate optimise deploy test document translate schedule"
THINGS = (
    "datasets spreadsheets genomes proteins images notebooks pipelines forecasts invoices maps "
)
THINGS += "graphs tables reports slides models logs sensors surveys contracts molecules spectra "
THINGS += (
    "papers citations queries dashboards embeddings corpora transcripts audio videos satellites"
)
TOOLS = (
    "pandas polars duckdb numpy scipy sklearn pytorch xarray geopandas rdkit scanpy spacy opencv "
)
TOOLS += "matplotlib plotly latex pandoc ffmpeg postgres spark dask openpyxl pypdf networkx"
KINDS = (
    "csv parquet xlsx pdf docx pptx json fasta vcf dicom tiff geojson wav mp4 html ipynb tex sql"
)
TEMPLATE = (
    "{verb} {things} with {tool}, from {kind} files to checked results. Use it when {kind} data is "
    "new, when {things} do not add up, or when somebody asks to {other} {more}. Handles missing "
    "values, large inputs and {tool} versions {low} to {high}."
)

#: A notebook of the kind that the choice is made for.
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": "# Rental prices\n\nClean the data, fit a model."},
        {
            "cell_type": "code",
            "source": "import pandas as pd\nimport matplotlib.pyplot as plt\n"
            "from sklearn.linear_model import Ridge\nrentals = pd.read_csv('data/rentals.csv')",
        },
    ]
}


@dataclass(frozen=True)
class Measure:
    """One figure. times: of each round, in the unit; target: what the median should not pass."""

    name: str
    unit: str
    values: Sequence[float]
    target: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        return sorted(self.values)[min(len(self.values) - 1, int(len(self.values) * 0.95))]

    @property
    def met(self) -> bool:
        return self.target is None or self.median <= self.target

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 3),
            "p95": round(self.p95, 3),
            "count": len(self.values),
            "target": self.target,
        }

    def __str__(self) -> str:
        target = "" if self.target is None else f"  (at most {self.target:,.0f})"
        return (
            f"{self.name:52} {self.median:10,.2f} {self.unit:7} p95 {self.p95:10,.2f}"
            f"  of {len(self.values):,}{target}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--skills", type=int, default=10_000, help="that are searched")
    parser.add_argument("--rounds", type=int, default=40, help="of each mount")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measures = list(reading())
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as name:
        home = Path(name)
        try:
            measures += asyncio.run(catalog(home, options.skills))
        finally:
            asyncio.run(Server(home).stop())
    with bench("bubblewrap") as made:
        made.start(REPRISE).__exit__()
        measures += mounting(made, options.rounds)
        about = machine(made.home)
    if options.json:
        print(json.dumps({**about, "measures": [each.to_json() for each in measures]}, indent=1))
    else:
        for each in measures:
            print(each)
        print(", ".join(f"{key} {value}" for key, value in about.items()))
    return 0 if all(each.met for each in measures) else 1


# -- skills ----------------------------------------------------------------------------------------


def skills(count: int) -> Iterator[Skill]:
    """Made-up skills, the same each time: a SKILL.md of 1 to 6 kB and up to five files."""
    chance = random.Random(6)
    verbs, things, tools, kinds = (each.split() for each in (VERBS, THINGS, TOOLS, KINDS))
    for number in range(count):
        verb, thing = chance.choice(verbs), chance.choice(things)
        tool, kind = chance.choice(tools), chance.choice(kinds)
        name = f"{verb}-{thing}-{tool}-{number}"
        description = TEMPLATE.format(
            verb=f"{verb.capitalize()}s",
            things=thing,
            tool=tool,
            kind=kind,
            other=chance.choice(verbs),
            more=chance.choice(things),
            low=chance.randint(1, 3),
            high=chance.randint(4, 9),
        )
        lines = [f"# {verb.capitalize()} {thing}", ""]
        for part in range(chance.randint(8, 40)):
            words = chance.choices(verbs + things + tools + kinds, k=chance.randint(8, 20))
            lines.append(f"{part + 1}. {' '.join(words)}.")
        front = f"---\nname: {name}\ndescription: {description}\nlicense: MIT\n---\n\n"
        files = [("SKILL.md", 0o644, (front + "\n".join(lines) + "\n").encode())]
        for at in range(chance.randint(0, 5)):
            code = f"#!/usr/bin/env python3\nprint({number}, {at})\n" * chance.randint(5, 60)
            files.append((f"scripts/part_{at}.py", 0o755, code.encode()))
        yield read_skill(tree_of_files(files), folder=name)


def reading() -> Iterator[Measure]:
    """Folders read into trees and skills, and checked strictly."""
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as name:
        folders = []
        for skill in skills(CHECKED):
            folders.append(Path(name, skill.name))
            write_folder(skill.tree, folders[-1])
        trees = []

        def read(folder: Path) -> None:
            trees.append(read_folder(folder))
            read_skill(trees[-1], folder=folder.name)

        yield Measure("a skill's folder read", "ms", [timed(read, folder) for folder in folders])
        strict = [timed(check, tree) for tree in trees]
        yield Measure("a skill checked strictly", "ms", strict)


def timed(do: Callable[..., object], *given: object) -> float:
    began = time.perf_counter()
    do(*given)
    return (time.perf_counter() - began) * 1e3


# -- the catalog -----------------------------------------------------------------------------------


async def catalog(home: Path, count: int) -> list[Measure]:
    log = await Log.connect(home=home)
    found: list[Measure] = []
    try:
        known = Catalog(log)
        added: list[float] = []
        for number, skill in enumerate(skills(count), 1):
            began = time.perf_counter()
            version = await known.add(skill, Origin("folder", "/made-up"))
            added.append((time.perf_counter() - began) * 1e3)
            if number <= max(SIZES):
                await known.trust(version.digest)
            if number in SIZES:
                found += await told(log, number)
        found.append(Measure("a skill added", "ms", added))
        await analysed(log)
        found.append(await repeated(f"{count:,} skills listed", 5, known.list))
        view = await Disclosure.begin(log, NOTEBOOK)
        found.append(
            await repeated(
                f"a conversation's choice of {count:,} skills",
                5,
                lambda: Disclosure.begin(log, NOTEBOOK),
            )
        )
        chance = random.Random(7)
        asked = [question(chance) for _ in range(300)]
        times = []
        for text in asked:
            began = time.perf_counter()
            await known.search(text)
            times.append((time.perf_counter() - began) * 1e3)
        found.append(Measure(f"a search in {count:,} skills", "ms", times, SEARCH_MS))
        found.append(
            await repeated("a search as a model sees it", 40, lambda: view.search(question(chance)))
        )
    finally:
        await log.close()
    return found


async def analysed(log: Log) -> None:
    """What autovacuum does by itself within a minute or two: plans know how many rows there are."""
    if log._server is None:
        raise SystemExit("this needs the embedded server")
    owner = await open_connection(log._server.owner_dsn)
    await owner.execute("ANALYZE")
    await owner.close()


async def told(log: Log, count: int) -> list[Measure]:
    """What the catalog takes of a model's context."""
    view = await Disclosure.begin(log, NOTEBOOK)
    name = f"tokens of the catalog, {count:,} skills"
    found = [Measure(f"{name} (estimated)", "tokens", [view.choice.tokens], TOKENS)]
    if has_key():
        async with Counter() as counter:
            counted: Tokens = (await counter.count([view.catalog()]))[0]
        found.append(Measure(f"{name} (counted)", "tokens", [counted.number], TOKENS))
    found.append(Measure("  of which are named", "skills", [len(view.choice.listed)]))
    return found


def question(chance: random.Random) -> str:
    """One to three words, common and rare ones, some of them beginnings."""
    words = [chance.choice(each.split()) for each in (VERBS, THINGS, TOOLS, KINDS)]
    chance.shuffle(words)
    words = words[: chance.randint(1, 3)]
    if chance.random() < 0.3:
        words[-1] = words[-1][:4]
    return " ".join(words)


async def repeated(name: str, times: int, do: Callable[[], Any]) -> Measure:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await do()
        took.append((time.perf_counter() - began) * 1e3)
    return Measure(name, "ms", took)


# -- mounts ----------------------------------------------------------------------------------------


def mounting(made: Bench, rounds: int) -> list[Measure]:
    """A skill of 200 files: other bytes each time, the same once more, and copied on the host."""
    scratch = made.folder / "beside"
    scratch.mkdir()
    with made.start(REPRISE) as ours:
        for _ in range(5):
            mount(ours, contents())
        fresh, known, copies = [], [], []
        for _ in range(rounds):
            files = contents()
            fresh.append(mount(ours, files))
            known.append(mount(ours, files))
            copies.append(copied(scratch, files))
    name = f"mount of a skill of {MOUNTED_FILES} files"
    return [
        Measure(f"{name}, never seen before", "ms", fresh, MOUNT_MS),
        Measure(f"{name}, seen before", "ms", known, MOUNT_MS),
        Measure("  the same copied from folder to folder", "ms", copies),
    ]


def contents() -> dict[str, bytes]:
    return {
        f"part-{number // 20}/file-{number}.txt": os.urandom(MOUNTED_FILE)
        for number in range(MOUNTED_FILES)
    }


def mount(running: Running, files: dict[str, bytes]) -> float:
    entries = [file_entry(name, data) for name, data in files.items()]
    payload = {"target": "/skills/measured", "entries": entries}
    return step(running, "mount", payload, list(files.values()))


def copied(scratch: Path, files: dict[str, bytes]) -> float:
    source, target = scratch / "skill", scratch / "copy"
    for name, data in files.items():
        at = source / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data)
    took = timed(shutil.copytree, source, target)
    shutil.rmtree(source)
    shutil.rmtree(target)
    return took


if __name__ == "__main__":
    sys.exit(main())
