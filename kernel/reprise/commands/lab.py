"""`reprise lab`: JupyterLab with the Reprise kernel and the server extension."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

from reprise.client.specs import kernel_path
from reprise.commands.terminal import Terminal
from reprise.errors import UnavailableError

#: Everything after `reprise lab` is JupyterLab's, options too.
PASS_ON = True

#: The wheel's own setting enables it too; this holds for an installation in place as well.
ENABLE = "--ServerApp.jpserver_extensions=reprise_server=True"

#: No script of an output runs in the page (docs/browser.md), unless the person says otherwise.
POLICY = "--Reprise.page_policy"

EXAMPLES = """\
  reprise lab
  reprise lab ~/notebooks --no-browser --port 9999     what follows goes to jupyter lab as it is
  reprise lab --Reprise.page_policy=False              scripts in live outputs may run in the page
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "jupyter", nargs="*", metavar="...", help="a folder and options, as for `jupyter lab`"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:  # noqa: ARG001 - JupyterLab talks
    if find_spec("jupyterlab") is None:
        raise UnavailableError(
            "JupyterLab is not installed in this environment. "
            f"Install it with: {sys.executable} -m pip install 'jupyter-reprise[lab]'"
        )
    said = any(word.partition("=")[0] == POLICY for word in args.jupyter)
    policy = [] if said else [f"{POLICY}=True"]
    with kernel_path() as folder:
        paths = [str(folder), *filter(None, [os.environ.get("JUPYTER_PATH")])]
        child = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", ENABLE, *policy, *args.jupyter],
            env={**os.environ, "JUPYTER_PATH": os.pathsep.join(paths)},
        )

        def pass_on(number: int, _: object) -> None:
            child.send_signal(number)

        # Ctrl-C reaches both of us; JupyterLab asks whether it is meant, so it decides the end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, pass_on)
        code = child.wait()
    # The shell's form for a process that a signal ended.
    return 128 - code if code < 0 else code
