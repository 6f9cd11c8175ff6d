"""A Python environment of the session's own inside the workspace, on top of the read-only one.

Made by hand (`python -m venv` runs pip's installer for seconds): a pyvenv.cfg, a symlink to the
interpreter, and a .pth file that adds the site-packages of the environment below. `pip install`
then writes here, needs no network for a local wheel, and what it wrote is part of the files.
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import glob
import os
import re

#: Where it lies in the workspace.
FOLDER = ".reprise/venv"


def make(interpreter: str, workspace: str, env: dict[str, str]) -> str:
    """Make it if it is not there, put it first in PATH, and return its interpreter."""
    root = os.path.join(workspace, FOLDER)
    for path, kind, content in skeleton(interpreter):
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.lexists(target):
            continue
        if kind == "link":
            os.symlink(content, target)
        else:
            with open(target, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(content)
    env["VIRTUAL_ENV"] = root
    folders = [os.path.join(root, "bin"), os.path.dirname(interpreter)]
    env["PATH"] = ":".join([*folders, env.get("PATH", "/usr/bin:/bin")])
    return os.path.join(root, "bin", "python")


def skeleton(interpreter: str) -> list[tuple[str, str, str]]:
    """Its files as (path beneath it, "file" or "link", text or target).

    They follow from the interpreter alone, so they are the same each time: `tree` leaves them
    out while they are unchanged.
    """
    prefix = os.path.dirname(os.path.dirname(interpreter))
    config = _read_config(os.path.join(prefix, "pyvenv.cfg"))
    base_bin = config.get("home") or os.path.dirname(os.path.realpath(interpreter))
    base = os.path.dirname(base_bin)
    version = _version(interpreter, config, prefix)
    packages = _site_packages(prefix, version)
    if not config or config.get("include-system-site-packages") == "true":
        packages += [p for p in _site_packages(base, version) if p not in packages]
    executable = os.path.join(base_bin, f"python{version}")
    if not os.path.exists(executable):
        executable = os.path.realpath(interpreter)
    # addsitedir, not bare paths: the .pth files in there (editable installs) count too.
    lines = [f"import site; site.addsitedir({path!r})\n" for path in packages]
    return [
        (
            "pyvenv.cfg",
            "file",
            f"home = {base_bin}\ninclude-system-site-packages = false\nversion = {version}\n",
        ),
        ("bin/python", "link", executable),
        ("bin/python3", "link", "python"),
        (f"bin/python{version}", "link", "python"),
        (f"lib/python{version}/site-packages/reprise.pth", "file", "".join(lines)),
    ]


def _read_config(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            pairs = [line.split("=", 1) for line in file if "=" in line]
    except OSError:
        return {}
    return {key.strip().lower(): value.strip() for key, value in pairs}


def _version(interpreter: str, config: dict[str, str], prefix: str) -> str:
    """Major.minor of the interpreter, without running it."""
    found = re.match(r"3\.\d+", config.get("version") or config.get("version_info") or "")
    if found is None:
        found = re.search(r"(?<=python)3\.\d+$", os.path.realpath(interpreter))
    if found is None:
        for path in sorted(glob.glob(os.path.join(prefix, "lib", "python3.*"))):
            found = re.search(r"3\.\d+$", path)
            if found:
                break
    if found is None:
        raise OSError(f"no Python version can be told from {interpreter}")
    return found[0]


def _site_packages(prefix: str, version: str) -> list[str]:
    """Folders with packages below a prefix, Debian's among them, in the order Python uses."""
    candidates = [
        f"{prefix}/local/lib/python{version}/dist-packages",
        f"{prefix}/lib/python{version}/site-packages",
        f"{prefix}/lib64/python{version}/site-packages",
        f"{prefix}/lib/python3/dist-packages",
        f"{prefix}/lib/python{version}/dist-packages",
    ]
    found: list[str] = []
    for path in candidates:
        if os.path.isdir(path) and os.path.realpath(path) not in map(os.path.realpath, found):
            found.append(path)
    return found
