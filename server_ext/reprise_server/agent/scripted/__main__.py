"""Serves a script from a file, for trials: `python -m reprise_server.agent.scripted FILE`."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from reprise.errors import RepriseError, UsageError
from reprise_server.agent.scripted.reading import read_script
from reprise_server.agent.scripted.replies import by_answers
from reprise_server.agent.scripted.server import KEY, ScriptedModel


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reprise_server.agent.scripted",
        description="A scripted model at an address of this machine (docs/scripted-model.md).",
    )
    parser.add_argument("script", type=Path, help="a JSON file: a list of answers")
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    args = parser.parse_args()
    try:
        text = args.script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"The script cannot be read: {problem}.") from problem
    with ScriptedModel(by_answers(read_script(text)), port=args.port) as model:
        print(f"ANTHROPIC_BASE_URL={model.url} ANTHROPIC_API_KEY={KEY}", flush=True)  # noqa: T201
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except RepriseError as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201
        sys.exit(problem.exit_code)
