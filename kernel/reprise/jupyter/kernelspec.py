"""Kernelspecs: ours for Jupyter, wrappers around other kernels, and what runs inside for each.

Reads kernelspecs with `jupyter_core` alone, and imports even that only when a kernelspec is read:
a kernel's start must not pay for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from reprise.errors import UnavailableError, UsageError
from reprise.log.model import Json
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.prefixes import installation_prefixes, own_prefixes

#: Our kernelspec. Jupyter's name for "the Python that Jupyter runs on": what it runs inside.
NAME: Final = "reprise"
NATIVE: Final = "python3"
PREFIX: Final = f"{NAME}-"

SPEC_BYTES: Final = 1 << 20
_RESOURCES: Final = Path(__file__).parent / "resources"
#: As jupyter_client.kernelspec checks them.
_VALID: Final = re.compile(r"[a-z0-9._-]+", re.IGNORECASE)
#: jupyter_client.manager starts these with the Python it runs on.
_OWN_PYTHON: Final = ("python", "python3", f"python3.{sys.version_info[1]}")


@dataclass(frozen=True)
class Wrapped:
    """A kernelspec of ours around another one. `there`: whether what it wraps is installed."""

    name: str
    wraps: str
    display_name: str
    path: Path
    there: bool


def find_all() -> dict[str, Path]:
    """The folders of all installed kernelspecs by name, searched as Jupyter does."""
    found: dict[str, Path] = {}
    # Imported here: the start of the usual kernel, which asks for no kernelspec, need not pay.
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415

    for folder in (*jupyter_path("kernels"), str(Path.home() / ".ipython" / "kernels")):
        try:
            inside = sorted(Path(folder).iterdir())
        except OSError:
            continue
        for path in inside:
            if _VALID.fullmatch(path.name) and (path / "kernel.json").is_file():
                found.setdefault(path.name.lower(), path)
    return found


def _own_python() -> str:
    """This Python by one name, however it was called: its path is part of the environment."""
    named = Path(sys.prefix, "bin", "python3")
    try:
        return str(named) if named.samefile(sys.executable) else sys.executable
    except OSError:
        return sys.executable


def language_kernel(name: str = NATIVE, environ: Mapping[str, str] = os.environ) -> LanguageKernel:
    """The kernel that runs inside: ipykernel on this Python, or an installed kernelspec.

    name: a kernelspec's name, or the path of its folder; `python3` is always this Python's
      own ipykernel, whatever kernelspec of that name is found first.
    environ: for the ${VARIABLE} references of a kernelspec's env.
    Raises UsageError for an unknown or unusable kernelspec, UnavailableError when its program
    is not there.
    """
    if name == NATIVE:
        return LanguageKernel(
            NATIVE,
            "python",
            (_own_python(), "-m", "ipykernel_launcher", "-f", "{connection_file}"),
            own_prefixes(),
        )
    folder, spec = _read_named(name)
    if _wraps(spec) is not None:
        raise UsageError(
            f"The kernelspec {name} is Reprise's own. Name the language kernel itself, such as"
            f" {_wraps(spec)}."
        )
    argv = _argv(name, folder, spec)
    own = argv[0] == sys.executable
    mode: Literal["signal", "message"] = (
        "message" if spec.get("interrupt_mode") == "message" else "signal"
    )
    prefixes = own_prefixes() if own else installation_prefixes(Path(argv[0]), argv[1:])
    if not any(folder.is_relative_to(prefix) for prefix in prefixes):
        prefixes = (*prefixes, folder)
    return LanguageKernel(
        folder.name.lower(),
        str(spec.get("language", "")).lower(),
        argv,
        prefixes,
        mode,
        _env(spec, environ),
        str(folder),
    )


def write_kernelspec(
    folder: Path,
    *,
    kernel: str | None = None,
    display_name: str | None = None,
    language: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    logos: Path | None = None,
) -> Path:
    """Write a kernelspec of ours, started by this very Python, into `folder` (replacing it).

    kernel: the language kernel, when it is not this Python's ipykernel.
    logos: a folder whose logo files it gets instead of ours.
    Raises UnavailableError when the folder cannot be written.
    """
    spec = json.loads((_RESOURCES / "kernel.json").read_bytes())
    spec["argv"][0] = sys.executable
    if kernel is not None:
        spec["argv"] += ["--kernel", kernel]
    if display_name is not None:
        spec["display_name"] = display_name
    if language is not None:
        spec["language"] = language
    if metadata is not None:
        # The router offers encryption whatever runs inside.
        spec["metadata"] = {**metadata, "supported_encryption": ["curve"]}
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps(spec, indent=2) + "\n", "utf-8")
        pictures = sorted((logos or _RESOURCES).glob("logo-*")) or _RESOURCES.glob("logo-*")
        for picture in pictures:
            if picture.suffix in (".png", ".svg") and picture.is_file():
                shutil.copyfile(picture, folder / picture.name)
    except OSError as error:
        raise UnavailableError(
            f"The kernelspec could not be written to {folder}: {error}. Name a folder you may"
            " write with --prefix, or install for yourself with --user."
        ) from error
    return folder


def install(*, user: bool = False, prefix: Path | None = None) -> Path:
    """Install the `reprise` kernelspec: for this user, in a prefix, or in this Python's own."""
    return write_kernelspec(_kernels_dir(user, prefix) / NAME)


def add(name: str, *, user: bool = False, prefix: Path | None = None) -> Path:
    """Install `reprise-NAME`: the language kernel NAME under Reprise.

    It keeps NAME's language, metadata and logos. NAME's env is not copied: it is meant for the
    language kernel (a PYTHONPATH could break the router) and read anew at each start.
    Raises UsageError for an unknown NAME, one that is ours, or one that cannot run inside.
    """
    folder, spec = _read_named(name)
    known = folder.name.lower()
    if _wraps(spec) is not None:
        raise UsageError(f"The kernelspec {name} is Reprise's own already. Nothing was changed.")
    kernel = known
    if known == NATIVE:
        if _argv(name, folder, spec)[0] == sys.executable:
            raise UsageError(
                f"{NATIVE} runs on this very Python, which the kernelspec `{NAME}` does already."
                f" Nothing was changed. Choose Python 3 (Reprise), or run `reprise kernelspec"
                " install` where Jupyter does not offer it."
            )
        kernel = str(folder)  # by its name it would be our own Python
    language_kernel(kernel)  # refuses what could not start
    metadata = spec.get("metadata")
    title = str(spec.get("display_name") or name)
    return write_kernelspec(
        _kernels_dir(user, prefix) / f"{PREFIX}{known}",
        kernel=kernel,
        display_name=f"{title} (Reprise)",
        language=str(spec.get("language", "")),
        metadata=metadata if isinstance(metadata, dict) else {},
        logos=folder,
    )


def remove(name: str) -> Path:
    """Remove the wrapper of a language kernel, named with or without `reprise-`.

    Raises UsageError when there is none (or what has that name is not ours), UnavailableError
    when it may not be removed.
    """
    for each in wrapped():
        if name in (each.name, each.wraps) or f"{PREFIX}{name}" == each.name:
            try:
                shutil.rmtree(each.path)
            except OSError as error:
                raise UnavailableError(f"{each.path} could not be removed: {error}.") from error
            return each.path
    names = ", ".join(each.name for each in wrapped()) or "none"
    raise UsageError(
        f"There is no wrapped kernelspec {name}. Nothing was changed. Wrapped ones: {names}."
    )


def wrapped() -> list[Wrapped]:
    """The kernelspecs of ours that wrap another one."""
    specs = find_all()
    found = []
    for name, path in specs.items():
        try:
            spec = _read(path)
        except UsageError:
            continue  # not written by us
        wraps = _wraps(spec)
        if wraps is not None and name != NAME:
            there = (Path(wraps) / "kernel.json").is_file() if "/" in wraps else wraps in specs
            title = str(spec.get("display_name", name))
            found.append(Wrapped(name, wraps, title, path, there))
    return sorted(found, key=lambda each: each.name)


def _kernels_dir(user: bool, prefix: Path | None) -> Path:
    if user and prefix is not None:
        raise UsageError("Choose either this user's folder or a prefix, not both.")
    if user:
        from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415

        return Path(jupyter_data_dir()) / "kernels"
    return (prefix or Path(sys.prefix)).absolute() / "share" / "jupyter" / "kernels"


def _read_named(name: str) -> tuple[Path, dict[str, Json]]:
    if "/" in name:
        folder = Path(name).absolute()
        if not (folder / "kernel.json").is_file():
            raise UsageError(f"{folder} holds no kernel.json. Name a kernelspec or its folder.")
        return folder, _read(folder)
    known = find_all()
    if name.lower() in known:
        folder = known[name.lower()]
        return folder, _read(folder)
    names = ", ".join(sorted(each for each in known if not each.startswith(NAME))) or "none"
    raise UsageError(
        f"No kernelspec is named {name!r}. Installed: {names}. `jupyter kernelspec list` shows"
        " where Jupyter looks."
    )


def _read(folder: Path) -> dict[str, Json]:
    path = folder / "kernel.json"
    spec: Json
    try:
        with path.open("rb") as file:
            spec = json.loads(file.read(SPEC_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Install that kernel again.") from error
    if isinstance(spec, dict):
        argv = spec.get("argv")
        if isinstance(argv, list) and argv and all(isinstance(each, str) for each in argv):
            return spec
    raise UsageError(f"{path} names no program to start (argv). Install that kernel again.")


def _argv(name: str, folder: Path, spec: Mapping[str, Json]) -> tuple[str, ...]:
    metadata = spec.get("metadata")
    provisioner = metadata.get("kernel_provisioner") if isinstance(metadata, dict) else None
    if isinstance(provisioner, dict):
        provisioned = provisioner.get("provisioner_name", "local-provisioner")
        if provisioned != "local-provisioner":
            raise UsageError(
                f"The kernel {name} is not started on this machine (its provisioner is"
                f" {provisioned}), so it cannot run in a sandbox here."
            )
    program, *rest = spec["argv"]
    if program in _OWN_PYTHON:
        return (sys.executable, *rest)
    program = program.replace("{resource_dir}", str(folder))
    found = shutil.which(program)
    if found is None:
        raise UnavailableError(
            f"The kernel {name} starts {program}, which is not there (or may not be run). Install"
            f" it, or mend {folder / 'kernel.json'}."
        )
    return (str(Path(found).absolute()), *rest)


def _env(spec: Mapping[str, Json], environ: Mapping[str, str]) -> dict[str, str]:
    env = spec.get("env")
    if not isinstance(env, dict):
        return {}
    from string import Template  # noqa: PLC0415

    return {str(key): Template(str(value)).safe_substitute(environ) for key, value in env.items()}


def _wraps(spec: Mapping[str, Json]) -> str | None:
    """The language kernel that a kernelspec of ours runs; None for others."""
    argv = spec["argv"]
    if "reprise.jupyter" not in argv:
        return None
    if "--kernel" in argv[:-1]:
        return str(argv[argv.index("--kernel") + 1])
    return NATIVE
