"""`reprise env create`, `remove` and `lock`: environments with packages of their own."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.environments.create import (
    Created,
    check_free,
    from_environment,
    from_lock,
    from_requirements,
    kept_wheels,
    on_image,
)
from reprise.environments.files import size_of
from reprise.environments.image import look_into
from reprise.environments.resolve import Wanted
from reprise.errors import UsageError
from reprise.quantities import amount
from reprise.sandbox.built import SHOWN, built_folder, built_lock
from reprise.sandbox.named import check_image, load, remove
from reprise.settings import ENVIRONMENT
from reprise.workspace.replaced import replacing

_CREATE = """\
examples:
  reprise env create stats --requirements requirements.txt
  reprise env create stats --pyproject pyproject.toml --extra plots --group dev
  reprise env lock stats > stats.lock       what it was built of, pinned and hashed
  reprise env create stats --lock stats.lock          the same on another machine
  reprise env create more --from stats                the same packages under another name
  reprise env create old --image example.org/science/python@sha256:…

Packages are resolved once, locked with their hashes, and built into a folder that all sandboxes
share, read-only. ipykernel, pyzmq and pip are added where nothing asks for them. Only wheels are
taken. The index is the one that uv or pip are configured with here.
"""


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "create",
        help="make an environment from requirements, a lock or an image",
        epilog=_CREATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("name", metavar="NAME", help="how it is called (REPRISE_ENVIRONMENT=NAME)")
    of = act.add_mutually_exclusive_group(required=True)
    of.add_argument(
        "--requirements",
        type=Path,
        metavar="FILE",
        action="append",
        help="a requirements file; more than one is allowed",
    )
    of.add_argument("--pyproject", type=Path, metavar="FILE", help="the dependencies of a project")
    of.add_argument("--lock", type=Path, metavar="FILE", help="a lock of `reprise env lock`")
    of.add_argument("--image", metavar="REF", help="an image with ipykernel in it, NAME@sha256:…")
    of.add_argument("--from", dest="other", metavar="NAME", help="what another one stands on")
    act.add_argument(
        "--extra", action="append", default=[], metavar="NAME", help="an extra of the project"
    )
    act.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="a dependency group of it"
    )
    act.add_argument(
        "--python", metavar="PYTHON", help="a path or a version (default: the Python of Reprise)"
    )
    act.add_argument(
        "--find-links",
        type=Path,
        metavar="DIR",
        action="append",
        default=[],
        help="a folder of wheels that no index has; those that are used are kept",
    )
    act.add_argument(
        "--replace", action="store_true", help="let an environment of that name stand on this"
    )
    act.add_argument("--json", action="store_true", help="the result as JSON")
    act.set_defaults(act=_create)

    act = acts.add_parser("remove", help="take an environment away")
    act.add_argument("name", metavar="NAME")
    act.add_argument("--json", action="store_true", help="the result as JSON")
    act.set_defaults(act=_remove)

    act = acts.add_parser("lock", parents=[common], help="print what it was built of")
    act.add_argument("name", metavar="NAME", nargs="?")
    act.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it to a file")
    act.add_argument(
        "--wheels", type=Path, metavar="DIR", help="copy the wheels there that no index has"
    )
    act.set_defaults(act=_lock)


def _create(args: argparse.Namespace, terminal: Terminal) -> int:
    if (args.extra or args.group) and args.pyproject is None:
        raise UsageError("--extra and --group name parts of a project: give --pyproject FILE.")
    if (args.python or args.find_links) and (args.image or args.other):
        raise UsageError("--python and --find-links are for what is built; nothing is built here.")
    created = _made(args, terminal)
    terminal.status("")
    report(created, args.json, terminal)
    return 0


def _made(args: argparse.Namespace, terminal: Terminal) -> Created:
    if args.other is not None:
        return from_environment(args.name, args.other, replaces=args.replace)
    if args.image is not None:
        check_free(args.name, replaces=args.replace)
        look_into(check_image(args.image), terminal.status)
        return on_image(args.name, args.image, replaces=args.replace)
    if args.lock is not None:
        return from_lock(
            args.name,
            args.lock,
            python=args.python,
            find_links=args.find_links,
            replaces=args.replace,
            told=terminal.status,
        )
    return from_requirements(
        args.name,
        Wanted(
            tuple(args.requirements or ()), args.pyproject, tuple(args.extra), tuple(args.group)
        ),
        python=args.python,
        find_links=args.find_links,
        replaces=args.replace,
        told=terminal.status,
    )


def report(created: Created, as_json: bool, terminal: Terminal, **more: list[str]) -> None:
    """Say what was made. more: what else stands in the JSON."""
    environment, built, lock = created.environment, created.built, created.lock
    packages = {} if lock is None else {pin.name: pin.version for pin in lock.pins}
    if as_json:
        terminal.json(
            {
                "environment": environment.name,
                "built": environment.packages,
                "image": environment.image,
                "new": built is not None and built.new,
                "packages": packages,
                "added": list(created.added),
                **more,
            }
        )
        return
    if created.added:
        terminal.line(f"Added, since a kernel needs them: {', '.join(created.added)}.")
    if built is not None:
        what = "Built" if built.new else "Was built before:"
        terminal.line(
            f"{what} {built.digest[:SHOWN]}: {len(packages)} packages, "
            f"{amount(size_of(built.folder))}, in {built.folder}."
        )
    terminal.line(
        f"The environment {environment.name} is there. Kernels started with "
        f"{ENVIRONMENT}={environment.name} run in it."
    )


def _remove(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = remove(args.name)
    if args.json:
        terminal.json({"environment": environment.name, "built": environment.packages})
        return 0
    terminal.line(f"The environment {environment.name} is removed.")
    if environment.packages is not None:
        terminal.line(
            f"What it was built into ({environment.packages[:SHOWN]}) stays for sessions and other "
            "environments that name it; `reprise gc` frees it when none does."
        )
    return 0


def _lock(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = load(args.name or args.environment)
    text = None if environment.packages is None else built_lock(environment.packages)
    if environment.packages is None:
        on = f"the image {environment.image}" if environment.image else "this machine's own prefix"
        raise UsageError(
            f"The environment {environment.name} stands on {on} and has no lock. "
            "`reprise env create NAME --requirements FILE` makes one that has."
        )
    if text is None:
        raise UsageError(
            f"The lock of {environment.name} cannot be read in "
            f"{built_folder(environment.packages)}. `reprise env check {environment.name}` says "
            "what is left."
        )
    wheels = [path for folder in kept_wheels(environment) for path in sorted(folder.iterdir())]
    if args.wheels is not None:
        args.wheels.mkdir(parents=True, exist_ok=True)
        for path in wheels:
            shutil.copyfile(path, args.wheels / path.name)
    elif wheels:
        terminal.warn(
            f"{len(wheels)} of its wheels are in no index ({', '.join(p.name for p in wheels)}). "
            "--wheels DIR copies them; `reprise env create` takes them there with --find-links DIR."
        )
    if args.json:
        terminal.json(
            {
                "environment": environment.name,
                "built": environment.packages,
                "lock": text,
                "wheels": [path.name for path in wheels],
            }
        )
    elif args.output is None:
        terminal.piece(text)
    else:
        with replacing(args.output) as file:
            file.write(text.encode())
    return 0
