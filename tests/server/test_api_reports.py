"""A verify report over REST in parts: what one has to look at first, both sides, a page to keep."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import httpx
import pytest

from reprise.replay.difference import Comparison, Difference
from reprise.replay.report import Compared, FileDifference, Report, StateReport, StepReport
from reprise.replay.shown import Image, Piece
from reprise.workspace.manifest import Entry
from reprise_server.api import verify_report
from reprise_server.api.verify_report import VerifyReport
from tests.fixtures.agent_server import refused
from tests.fixtures.histories import Part, begun, cell, done, text, with_log, written
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer, Serve

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def server(serve: Serve, database: Database) -> JupyterServer:
    return serve(dsn=database.dsn, home=database.home, env={"REPRISE_BACKEND": "bubblewrap"})


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client("alice")


def step(seq: int, verdict: Any, **more: Any) -> StepReport:
    return StepReport(seq, "cell", "ok", verdict, source=f"print({seq})\nmore", **more)


def report(*steps: StepReport, states: tuple[StateReport, ...] = ()) -> VerifyReport:
    whole = Report(uuid.uuid4(), steps, 1.0, states)
    return VerifyReport(whole, notebook="/home/a/churn.ipynb", kernel="python3")


def test_what_one_has_to_look_at_comes_first_and_pages_join_without_a_gap() -> None:
    verdicts = ["same", "volatile", "different", "skipped", "could not run"] * 40
    made = report(*(step(seq, verdict) for seq, verdict in enumerate(verdicts)))
    rows: list[Any] = []
    while True:
        more, found = made.rows([], len(rows), 30)
        rows += more
        if not more:
            break
    assert found == len(rows) == len({row["seq"] for row in rows}) == 200
    order = [row["verdict"] for row in rows]
    assert order == sorted(order, key=verify_report.ORDER.index)
    assert [row["seq"] for row in rows[:40]] == [seq for seq in range(200) if seq % 5 == 2]
    chosen, found = made.rows(["could not run", "different"], 75, 10)
    assert (len(chosen), found) == (5, 80)
    assert {row["verdict"] for row in chosen} == {"could not run"}
    assert rows[0]["title"] == "print(2)"
    made.close()


def test_images_stand_side_by_side_until_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = Piece("image", "a plot", Image("image/png", PNG))
    shown = {"recorded": (piece,), "replayed": (piece,)}
    monkeypatch.setattr(verify_report, "IMAGE_BYTES", len(PNG) * 2)
    made = report(step(0, "same", recorded=(piece,)), step(1, "different", **shown))
    found: Any = made.step(1)
    for side in ("recorded", "replayed"):
        (image,) = [each["image"] for each in found[side]]
        assert base64.b64decode(image["data"]) == PNG
    # What differs had the room; the rest says how large it is, and is left out.
    image = made.step(0)["recorded"][0]["image"]  # type: ignore[index,call-overload]
    assert image == {"mime": "image/png", "data": None, "bytes": len(PNG)}
    assert made.step(2) is None
    made.close()


def test_volatile_parts_are_marked_and_many_files_are_counted() -> None:
    entry = Entry("a.csv", "file", 0o644, 3, "0" * 64)
    files = [
        FileDifference(f"{number}.csv", "content", entry, entry, volatile=number % 2 == 0)
        for number in range(verify_report.LISTED + 100)
    ]
    state = StateReport(
        0,
        "second replay",
        Compared(3, tuple(files), {f"n{n}": "too large" for n in range(700)}),
        Compared(why="no Python"),
    )
    volatile = Difference("stdout", "timing", "1 s", "2 s", "-1 s\n+2 s", volatile=True)
    made = report(
        step(0, "volatile", comparison=Comparison("volatile", (volatile,), 7)), states=(state,)
    )
    said: Any = made.step(0)
    assert said["differences"][0]["volatile"]
    assert said["differences"][0]["kind"] == "timing"
    assert said["omitted"] == 7
    found: Any = made.state(0)
    assert (found["files"]["different_total"], len(found["files"]["different"])) == (600, 500)
    assert not any(each["volatile"] for each in found["files"]["different"][:300])
    assert (found["files"]["not_compared_total"], len(found["files"]["not_compared"])) == (700, 500)
    assert found["variables"]["why_not"] == "no Python"
    head: Any = made.head
    assert head["states"][0]["files"] == {
        "same": 3,
        "volatile": 300,
        "different": 300,
        "not_compared": 700,
        "why_not": None,
    }
    made.close()


def test_a_page_of_very_many_steps_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_report, "PAGE_STEPS", 1)
    made = report(step(0, "same"))
    assert made.page_size > 0
    made.close()
    made = report(step(0, "same"), step(1, "same"))
    assert made.page_size == 0
    size = made.size
    assert size > 0
    made.close()
    assert made.page_piece(0, 10) == b""
    assert made.rows([], 0, 1) == ([None], 2)


def test_a_report_is_read_in_parts_and_kept_as_a_page(
    client: httpx.Client, database: Database
) -> None:
    async def write(log: Any) -> uuid.UUID:
        return await written(
            log,
            [
                Part(cell("print('as ever')"), [text("as ever\n")]),
                Part(cell("print('<script>now</script>')"), [text("<script>then</script>\n")]),
            ],
        )

    session = with_log(database, write)
    asked = {"replays": "once"}
    job = done(client, client.post(f"sessions/{session}/verify", json=asked))
    head = client.get(f"jobs/{job['id']}/report").json()
    assert head["counts"]["different"] == 1
    assert head["sentence"] == job["summary"]["sentence"]
    rows = client.get(f"jobs/{job['id']}/report/steps").json()
    assert [(row["seq"], row["verdict"]) for row in rows["steps"]] == [
        (1, "different"),
        (0, "same"),
    ]
    assert (rows["found"], rows["total"]) == (2, 2)
    query = {"verdict": "same", "limit": 1}
    rows = client.get(f"jobs/{job['id']}/report/steps", params=query).json()
    assert ([row["seq"] for row in rows["steps"]], rows["found"]) == ([0], 1)
    one = client.get(f"jobs/{job['id']}/report/steps/1").json()
    assert [each["text"] for each in one["recorded"]] == ["<script>then</script>\n"]
    assert [each["text"] for each in one["replayed"]] == ["<script>now</script>\n"]
    refused(client.get(f"jobs/{job['id']}/report/steps/2"), 404, "step-not-found")
    for state in head["states"]:
        found = client.get(f"jobs/{job['id']}/report/states/{state['number']}").json()
        assert found["against"] == state["against"]
    number = len(head["states"])
    refused(client.get(f"jobs/{job['id']}/report/states/{number}"), 404, "state-not-found")
    page = client.get(f"jobs/{job['id']}/report/page")
    assert page.headers["Content-Type"] == "application/octet-stream"
    assert page.headers["Content-Disposition"].startswith("attachment")
    assert len(page.content) == head["page_bytes"]
    assert b"&lt;script&gt;then" in page.content
    assert b"<script>then" not in page.content
    # With the job its report goes.
    assert client.delete(f"jobs/{job['id']}").status_code == 204
    refused(client.get(f"jobs/{job['id']}/report"), 404, "job-not-found")


def test_other_jobs_have_no_report(client: httpx.Client, database: Database) -> None:
    session = with_log(database, lambda log: log.begin(kernel="python3"))
    job = done(client, client.post(f"sessions/{session}/check"))
    refused(client.get(f"jobs/{job['id']}/report"), 404, "no-report")
    job = begun(client.post(f"sessions/{session}/verify"))
    answer = client.get(f"jobs/{job['id']}/report")
    if answer.status_code != 200:  # it may have ended by now
        refused(answer, 409, "no-result")
