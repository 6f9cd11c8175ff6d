"""A real lab for the browser tests: `reprise lab` on an embedded Postgres of its own, beside a scripted model.

    python serve.py [--backend bubblewrap] [--collaboration] [--policy FILE] [-- options of jupyter lab]

prints one line of JSON, `{url, token, control, folder, home, database}`, when the lab answers, and stays until its
standard input ends: so whoever started it need not be there to stop it. Everything it keeps lies in a folder of its
own, which goes with it.

`control` is an address on this machine by which tests steer what is outside of the page:

    POST /script  {words, steps}     what the model answers in a turn whose words hold `words` (docs/scripted-model.md);
                                     a step may have `hold: NAME` with `after: N`: after N events its stream stands
                                     still until it is let go
    POST /go      {hold}             lets it go
    POST /server  {do: stop|start|restart|kill}   the Jupyter server, on the same port, with the same token
    POST /token   {}                 the server comes back with another token: who had the old one is signed out
    POST /sandbox {session}          kills the sandbox of a session with SIGKILL; {killed: [pid, …]}
    GET  /model                      what the model was asked: {requests: [{said, answers, tools}]}
    POST /run     {argv}             a command line of Reprise on this lab's home: {code, out, err}
    POST /git     {name, files}      with --git: a Git repository of that name with these files; {url, commit}
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "kernel"), str(PROJECT / "server_ext"), str(PROJECT)]

import jupyterlab
import psutil
import psycopg
from psycopg import sql

from reprise.log import schema
from reprise.log.embedded import Server
from reprise_server.agent.scripted import (
    Asked,
    Break,
    Hold,
    Reply,
    ScriptedModel,
    Step,
    by_answers,
    says,
)
from reprise_server.agent.scripted.reading import read_script
from tests.fixtures.git_server import GitServer, serve_git

PATIENCE = 120.0
BUILT = PROJECT / "server_ext" / "reprise_server" / "labextension"


#: A server that knows the one person who has its token.
PERSON = """
from jupyter_server.auth import IdentityProvider, User

class Person(IdentityProvider):
    def generate_anonymous_user(self, handler):
        return User(username={person!r}, name={person!r})

c.ServerApp.identity_provider_class = Person
"""


async def logins(home: Path, people: list[str]) -> Server:
    """The embedded Postgres of this home with a login for each person; the last is admin of the organisation."""
    server = Server(home)
    await server.ensure_answering(None)
    await schema.migrate(server.owner_dsn, kernel_may_log_in=True)
    with psycopg.connect(server.owner_dsn, autocommit=True) as operator:
        for name in people:
            operator.execute(
                sql.SQL("CREATE ROLE {} LOGIN IN ROLE reprise_kernel").format(sql.Identifier(name))
            )
        operator.execute(
            "SELECT reprise.appoint_for_skills(%s, 'organisation', 'admin')", [people[-1]]
        )
    return server


@dataclass
class Model:
    """What the model answers to whom, by words that a person said."""

    scripts: dict[str, list[Step]] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def script(self, words: str, steps: list[dict[str, Any]]) -> None:
        read: list[Step] = []
        for each in steps:
            hold, after = each.pop("hold", None), each.pop("after", 1)
            (step,) = read_script(json.dumps([each]))
            if hold is not None:
                assert isinstance(step, Reply)
                self.holds[hold] = Hold()
                step = replace(step, broken=Break(after, "hold", hold=self.holds[hold]))
            read.append(step)
        self.scripts[words] = read

    def answer(self, asked: Asked) -> Step:
        self.asked.append({"said": asked.said, "answers": asked.answers, "tools": asked.tools})
        messages = asked.messages
        # The turn's own words: of several scripts in one conversation, the one said last.
        for number in range(len(messages) - 1, -1, -1):
            if messages[number]["role"] != "user":
                continue
            text = json.dumps(messages[number]["content"], ensure_ascii=False)
            for words, steps in self.scripts.items():
                if words in text:
                    before = sum(each["role"] == "assistant" for each in messages[:number])
                    return by_answers(steps)(_Since(asked, before))
        return says("There is no script for these words.")


class _Since(Asked):
    """A request as the script of its turn sees it: answers before the turn do not count."""

    def __init__(self, asked: Asked, before: int) -> None:
        super().__init__(asked.number, asked.path, asked.headers, asked.body)
        object.__setattr__(self, "_before", before)

    @property
    def answers(self) -> int:
        return super().answers - int(getattr(self, "_before"))  # noqa: B009


class Lab:
    """The Jupyter server, which can go and come back."""

    def __init__(self, folder: Path, options: argparse.Namespace, model: ScriptedModel) -> None:
        self.folder = folder
        self.token = "t"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        for name in (
            "notebooks",
            "runtime",
            "home",
            "config/labconfig",
            "extensions/@jupyter-reprise",
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "extensions" / "@jupyter-reprise" / "lab").symlink_to(BUILT)
        together = options.collaboration
        extensions = {
            "jupyter_server_ydoc": together,
            "jupyter_server_fileid": together,
            "jupyter_lsp": False,
        }
        (folder / "config" / "jupyter_server_config.json").write_text(
            json.dumps({"ServerApp": {"jpserver_extensions": extensions}})
        )
        absent = (
            []
            if together
            else ["@jupyter/collaboration-extension", "@jupyter/docprovider-extension"]
        )
        (folder / "config" / "labconfig" / "page_config.json").write_text(
            json.dumps(
                {
                    "disabledExtensions": dict.fromkeys(
                        [*absent, "@jupyterlab/apputils-extension:announcements"], True
                    )
                }
            )
        )
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REPRISE_", "ANTHROPIC_", "JUPYTER"))
        }
        self.environ = {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "kernel"), str(PROJECT / "server_ext")]),
            "REPRISE_HOME": str(folder / "home"),
            "REPRISE_BACKEND": options.backend,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": model.key,
            "JUPYTER_PREFER_ENV_PATH": "0",
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        }
        if options.no_key:
            del self.environ["ANTHROPIC_API_KEY"]
        if options.person:
            (folder / "config" / "jupyter_server_config.py").write_text(
                PERSON.format(person=options.person)
            )
            self.environ["REPRISE_DSN"] = f"{options.dsn} user={options.person}"
        if options.git:
            self.environ["GIT_SSL_CAINFO"] = str(folder / "server.pem")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        galata = Path(jupyterlab.__file__).parent / "galata"
        paths = (self.folder / "extensions", galata)
        with (self.folder / "log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "reprise.cli", "lab", "--no-browser", "--allow-root"),
                    *(f"--IdentityProvider.token={self.token}", f"--port={self.port}"),
                    *(
                        "--ServerApp.port_retries=0",
                        f"--ServerApp.root_dir={self.folder / 'notebooks'}",
                    ),
                    *("--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"),
                    *(f"--LabServerApp.extra_labextensions_path={each}" for each in paths),
                    *(
                        f"--RepriseApi.rates={action}=100000/min"
                        for action in ("read", "write", "execute")
                    ),
                    *self._options.jupyter,
                ],
                cwd=self.folder,
                env=self.environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            request = urllib.request.Request(
                f"{self.url}/api/status", headers={"Authorization": f"token {self.token}"}
            )
            try:
                urllib.request.urlopen(request, timeout=10).close()
            except OSError:
                said = (self.folder / "log").read_text()[-4000:]
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the lab did not start:\n{said}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is None:
            return
        try:
            server = psutil.Process(self._process.pid)
            children = server.children(recursive=False)
        except psutil.NoSuchProcess:
            children = []
        if number == signal.SIGKILL:
            for each in children:
                each.kill()
            self._process.kill()
        else:
            self._process.send_signal(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None

    def kill_sandbox(self, session: str) -> list[int]:
        """SIGKILL, as the machine does it that has no memory left. Empty: every session."""
        killed = []
        for path in (self.folder / "runtime").glob(".kernel-*.reprise.json"):
            held = json.loads(path.read_text())
            if session in ("", held["session"]) and held["sandbox_pid"] is not None:
                os.kill(held["sandbox_pid"], signal.SIGKILL)
                killed.append(int(held["sandbox_pid"]))
        return killed


class Control(BaseHTTPRequestHandler):
    """Answers tests. Loopback only, and as short-lived as they."""

    lab: Lab
    model: Model
    git: GitServer | None = None

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests say what they do."""

    def do_GET(self) -> None:
        self._answer({"requests": self.model.asked})

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        try:
            found = getattr(self, f"_{self.path.strip('/')}")(**said)
        except Exception as error:  # noqa: BLE001 - told to the test that asked
            self._answer({"error": repr(error)}, 500)
        else:
            self._answer(found or {})

    def _answer(self, value: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _script(self, words: str, steps: list[dict[str, Any]]) -> None:
        self.model.script(words, steps)

    def _go(self, hold: str) -> None:
        self.model.holds[hold].go.set()

    def _server(self, do: str) -> None:
        if do in ("stop", "restart", "kill"):
            self.lab.stop(signal.SIGKILL if do == "kill" else signal.SIGTERM)
        if do in ("start", "restart"):
            self.lab.start()

    def _token(self) -> dict[str, Any]:
        self.lab.stop()
        self.lab.token += "t"
        self.lab.start()
        return {"token": self.lab.token}

    def _sandbox(self, session: str = "") -> dict[str, Any]:
        return {"killed": self.lab.kill_sandbox(session)}

    def _git(self, name: str, files: dict[str, str]) -> dict[str, Any]:
        assert self.git is not None, "this lab was started without --git"
        folder = self.git.root / name
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        who = ("-c", "user.name=Anna", "-c", "user.email=anna@example.org")
        for argv in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "Skills")):
            subprocess.run(["git", *argv], cwd=folder, check=True)
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True)
        return {"url": self.git.url(f"{name}/.git"), "commit": commit.strip()}

    def _run(self, argv: list[str]) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "reprise.cli", *argv],
            env=self.lab.environ,
            cwd=self.lab.folder / "notebooks",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--collaboration", action="store_true")
    parser.add_argument("--no-key", action="store_true", help="the server has no model key")
    parser.add_argument(
        "--people",
        default="",
        help="logins of the database, the last one admin of the organisation",
    )
    parser.add_argument("--person", default="", help="whose lab it is: one of the logins")
    parser.add_argument(
        "--dsn", default="", help="the database of another lab's people, as that one printed it"
    )
    parser.add_argument("--git", action="store_true", help="with a Git server, over https")
    parser.add_argument("--keep", action="store_true", help="leave the folder there")
    parser.add_argument("jupyter", nargs="*", help="options of jupyter lab, behind --")
    options = parser.parse_args()
    if not BUILT.is_dir():
        raise SystemExit("build the lab extension first: jlpm build, in labextension/")
    folder = Path(tempfile.mkdtemp(prefix="reprise-lab-"))
    model = Model()
    try:
        with contextlib.ExitStack() as opened:
            served = opened.enter_context(ScriptedModel(model.answer))
            if options.git:
                Control.git = opened.enter_context(serve_git(folder))
            postgres = None
            if options.people:
                postgres = asyncio.run(logins(folder / "home", options.people.split(",")))
                options.dsn = postgres.kernel_dsn.rpartition(" user=")[0]
            lab = Lab(folder, options, served)
            Control.lab, Control.model = lab, model
            control = ThreadingHTTPServer(("127.0.0.1", 0), Control)
            threading.Thread(target=control.serve_forever, daemon=True).start()
            try:
                lab.start()
                where = {
                    "url": lab.url,
                    "token": lab.token,
                    "control": f"http://127.0.0.1:{control.server_port}",
                    "folder": str(folder / "notebooks"),
                    "home": str(folder / "home"),
                    "log": str(folder / "log"),
                    "dsn": options.dsn,
                }
                print(json.dumps(where), flush=True)
                sys.stdin.buffer.read()
            finally:
                control.shutdown()
                try:
                    lab.stop()
                finally:
                    if postgres is not None:
                        postgres.release()
                    asyncio.run(Server(folder / "home").stop())
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
