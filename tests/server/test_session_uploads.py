"""Files of a workspace brought in, made, moved, copied and removed over REST: whole, once, as steps."""

from __future__ import annotations

import http.client
import json
import os
import time
import uuid
from typing import Any

import httpx
import pytest

from tests.fixtures.histories import done, with_log
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer, Serve


@pytest.fixture(scope="module")
def server(serve: Serve, database: Database) -> JupyterServer:
    return serve(dsn=database.dsn, home=database.home, env={"REPRISE_BACKEND": "bubblewrap"})


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client("alice")


@pytest.fixture
def session(database: Database) -> str:
    return str(with_log(database, lambda log: log.begin(kernel="python3")))


@pytest.fixture(scope="module")
def live(database: Database) -> str:
    """A session whose kernel is kept from ending by what each test asks of it."""
    return str(with_log(database, lambda log: log.begin(kernel="python3")))


def put(client: httpx.Client, session: str, path: str, data: bytes, **more: Any) -> httpx.Response:
    return client.put(
        f"sessions/{session}/files/content",
        params={"path": path, **more},
        content=data,
        headers={"Content-Type": "application/octet-stream"},
    )


def change(client: httpx.Client, session: str, **asked: Any) -> httpx.Response:
    return client.post(f"sessions/{session}/file-changes", json=asked)


def step(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """What came of it."""
    assert answer.status_code in (200, 202), answer.text
    job = done(client, answer)
    assert job["summary"]["outcome"] == "ok", job
    found: dict[str, Any] = job["summary"]
    return found


def shell(client: httpx.Client, session: str, text: str) -> str:
    asked = {"kind": "command", "shell": text}
    job = done(client, client.post(f"sessions/{session}/run", json=asked))
    return str(client.get(f"jobs/{job['id']}/result").json()["stdout"])


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def folder(client: httpx.Client, session: str, path: str = "", **more: Any) -> dict[str, Any]:
    """A page, of the kernel that holds the session by then."""
    deadline = time.monotonic() + 60
    while True:
        answer = client.get(f"sessions/{session}/files/folder", params={"path": path, **more})
        if answer.status_code != 409 or time.monotonic() > deadline:
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found


def test_a_file_comes_in_whole_as_a_step_and_is_replaced_only_when_asked(
    client: httpx.Client, database: Database, live: str
) -> None:
    data = os.urandom(3 << 20)
    told = step(client, put(client, live, "data/räum e.bin", data))
    assert (told["files"], told["bytes"]) == (1, len(data))
    record = database.read(uuid.UUID(live)).steps[told["seq"]]
    assert record.step.new.kind == "upload"
    assert record.step.new.actor.kind == "user"
    assert (
        client.get(f"sessions/{live}/files/content", params={"path": "data/räum e.bin"}).content
        == data
    )
    again = put(client, live, "data/räum e.bin", b"other")
    assert refused(again) == (409, "exists")
    assert "Nothing was changed" in again.json()["error"]["message"]
    step(client, put(client, live, "data/räum e.bin", b"", replace=True))
    # A folder may hold more than whoever drops a file on its name can know.
    over = put(client, live, "data", b"a file", replace=True)
    assert refused(over) == (400, "usage")
    assert "is a folder" in over.json()["error"]["message"]
    assert shell(client, live, "stat -c %s data/*") == "0\n"


def test_a_folder_is_made_moved_copied_and_removed_in_one_step(
    client: httpx.Client, database: Database, live: str
) -> None:
    shell(
        client,
        live,
        "mkdir -p old/deep && echo one > old/deep/a && echo two > old/b && chmod +x old/b"
        " && ln -s b old/link && echo gone > gone",
    )
    told = step(
        client,
        change(
            client,
            live,
            make=["empty"],
            remove=["gone"],
            move=[{"from": "old", "to": "new/place"}],
            copy=[{"from": "old/b", "to": "copied"}],
        ),
    )
    found = shell(
        client, live, "find . -path ./.reprise -prune -o -path ./data -prune -o -print | sort"
    )
    assert found.split() == [
        ".",
        "./copied",
        "./empty",
        "./new",
        "./new/place",
        "./new/place/b",
        "./new/place/deep",
        "./new/place/deep/a",
        "./new/place/link",
    ]
    assert shell(client, live, "cat new/place/deep/a copied new/place/link; test -x copied") == (
        "one\ntwo\ntwo\n"
    )
    payload = database.read(uuid.UUID(live)).steps[told["seq"]].step.payload
    assert sorted(payload["removed"]) == ["gone", "old"]
    # A folder in the way goes as a whole, and is not merged.
    shell(client, live, "mkdir target && echo stays > target/not")
    taken = change(client, live, move=[{"from": "new/place", "to": "target"}])
    assert refused(taken) == (409, "exists")
    step(client, change(client, live, move=[{"from": "new/place", "to": "target"}], replace=True))
    assert shell(client, live, "ls target") == "b\ndeep\nlink\n"
    shell(client, live, "rm -r target new copied empty")


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"make": ["../out"]}, (400, "usage")),
        ({"make": ["/etc/x"]}, (400, "usage")),
        ({"make": ["."]}, (400, "usage")),
        ({"make": ["a\x00b"]}, (400, "bad-json")),
        ({"remove": [".reprise"]}, (400, "usage")),
        ({"remove": ["not-there"]}, (404, "file-not-found")),
        ({"move": [{"from": "not/there", "to": "x"}]}, (404, "file-not-found")),
        ({"copy": [{"from": "data", "to": "data/inside"}]}, (400, "usage")),
        ({"make": ["twice"], "copy": [{"from": "data", "to": "twice"}]}, (400, "usage")),
        ({}, (400, "invalid-request")),
        ({"replace": True}, (400, "usage")),
        ({"make": ["x" * 300]}, (400, "usage")),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    client: httpx.Client, database: Database, live: str, asked: dict[str, Any], wanted: Any
) -> None:
    shell(client, live, "mkdir -p data")
    before = len(database.read(uuid.UUID(live)).steps)
    answer = change(client, live, **asked)
    assert refused(answer) == wanted, answer.text
    assert len(database.read(uuid.UUID(live)).steps) == before


def test_no_link_leads_a_file_out_of_the_workspace(client: httpx.Client, live: str) -> None:
    shell(client, live, "ln -sfn /etc out && ln -sfn data in && mkdir -p data")
    listed = {each["name"]: each for each in folder(client, live)["entries"]}
    assert (listed["out"]["leads"], listed["in"]["leads"]) == (None, "dir")
    for asked in (
        put(client, live, "out/passwd", b"mine"),
        change(client, live, copy=[{"from": "out/passwd", "to": "taken"}]),
    ):
        assert refused(asked) == (400, "usage")
        assert "leads out of the workspace" in asked.json()["error"]["message"]
    missing = client.get(f"sessions/{live}/files/folder", params={"path": "out"})
    assert refused(missing) == (404, "folder-not-found")
    step(client, put(client, live, "in/through.txt", b"within"))
    assert shell(client, live, "cat data/through.txt") == "within"


def test_one_folder_of_many_files_is_listed_in_pages(client: httpx.Client, live: str) -> None:
    shell(
        client,
        live,
        'mkdir -p many && cd many && python3 -c "'
        "import os\nfor n in range(10_000): open(f'f{n:05}', 'w').close()\n"
        "os.mkdir('a'); open(b'\\xff', 'w').close()\"",
    )
    shell(client, live, "mkdir -p many/a/b && touch many/a/b/c")
    names: list[str] = []
    after: str | None = None
    pages = 0
    while True:
        page = folder(client, live, "many", limit=2000, **({"after": after} if after else {}))
        assert page["total"] == 10_002
        names += [each["name"] for each in page["entries"]]
        pages += 1
        if (after := page["next"]) is None:
            break
    assert pages == 6
    assert names == ["a", *(f"f{n:05}" for n in range(10_000)), "\udcff"]
    first = folder(client, live, "many", limit=2)["entries"]
    assert [(each["path"], each["type"], each["size"]) for each in first] == [
        ("many/a", "dir", None),
        ("many/f00000", "file", 0),
    ]
    assert first[0]["modified"][:2] == "20"
    began = time.monotonic()
    folder(client, live, "many", limit=200)
    assert time.monotonic() - began < 5, "one folder alone is read"
    page = folder(client, live)
    assert ".reprise" not in {each["name"] for each in page["entries"]}
    assert page["total"] == len(page["entries"])
    page = folder(client, live, all=True)
    assert ".reprise" in {each["name"] for each in page["entries"]}
    shell(client, live, "rm -r many")


def test_a_replay_has_the_same_files(client: httpx.Client, session: str) -> None:
    step(client, put(client, session, "a", b"first"))
    step(client, change(client, session, move=[{"from": "a", "to": "b/c"}], make=["d"]))
    built = done(client, client.post(f"sessions/{session}/workspaces", json={"at": 1}))
    assert built["state"] == "done"
    page = client.get(f"sessions/{session}/files/folder", params={"at": 1}).json()
    assert [(each["name"], each["type"]) for each in page["entries"]] == [
        ("b", "dir"),
        ("d", "dir"),
    ]
    read = client.get(f"sessions/{session}/files/content", params={"at": 1, "path": "b/c"})
    assert read.content == b"first"


def test_too_much_is_refused_before_it_comes(
    client: httpx.Client, server: JupyterServer, session: str
) -> None:
    address = httpx.URL(server.url)
    line = http.client.HTTPConnection(address.host, address.port, timeout=60)
    line.putrequest("PUT", f"{address.path}reprise/api/sessions/{session}/files/content?path=x")
    line.putheader("Authorization", "token alice-token")
    line.putheader("Content-Type", "application/octet-stream")
    line.putheader("Content-Length", str((256 << 20) + 1))
    line.endheaders(b"the first of it")
    with line.getresponse() as answer:
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == "too-large"
    line.close()
    wrong = client.put(
        f"sessions/{session}/files/content",
        params={"path": "x"},
        headers={"Content-Type": "text/html"},
        content=b"<p>",
    )
    assert refused(wrong) == (415, "content-type")
    none = put(client, session, "x", b"1", start=False)
    assert refused(none) == (409, "no-kernel")


def test_files_wait_their_turn_behind_a_cell(client: httpx.Client, session: str) -> None:
    cell = {"kind": "cell", "code": "import time; time.sleep(1.5); open('w', 'w').write('cell')"}
    running = client.post(f"sessions/{session}/run", json=cell)
    step(client, put(client, session, "w2", b"upload"))
    done(client, running)
    assert shell(client, session, "cat w w2") == "cellupload"
