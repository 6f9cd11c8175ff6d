"""Replies become results, outputs are merged, and a repeated output is shown once (no kernel)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.client.failures import Refused, refusal
from reprise.client.requests import command_payload, place, request
from reprise.client.results import (
    Output,
    StepFailed,
    cell_result,
    command_result,
    merged,
)
from reprise.client.running import ShownOnce
from reprise.errors import LeaseHeld, RepriseError, UsageError


def stream(text: str, name: str = "stdout") -> Output:
    return Output("stream", {"name": name, "text": text})


def shown(data: str) -> Output:
    return Output("display_data", {"data": {"text/plain": data}})


OUTPUTS = st.lists(
    st.one_of(
        st.builds(
            stream, st.text("ab\n", min_size=1, max_size=6), st.sampled_from(["stdout", "stderr"])
        ),
        st.builds(shown, st.text("xy", min_size=1, max_size=3)),
    ),
    max_size=12,
)


def cut_anew(outputs: list[Output], sizes: list[int]) -> list[Output]:
    """The same outputs with their streams cut at other places."""
    found = []
    for output in merged(outputs):
        if output.stream is None:
            found.append(output)
            continue
        text = output.text
        while text:
            size = sizes.pop() if sizes else len(text)
            found.append(stream(text[:size], output.stream))
            text = text[size:]
    return found


def plain(outputs: list[Output]) -> list[tuple[str, str | None, str]]:
    return [(each.type, each.stream, each.text) for each in merged(outputs)]


@given(OUTPUTS, st.integers(0, 12), st.lists(st.integers(1, 5), max_size=30))
def test_what_a_repeated_answer_brings_again_is_shown_once(
    outputs: list[Output], broken_after: int, sizes: list[int]
) -> None:
    seen: list[Output] = []
    show = ShownOnce(seen.append)
    for output in outputs[:broken_after]:
        show(output)
    show.again()
    for output in cut_anew(outputs, list(sizes)):
        show(output)
    assert plain(seen) == plain(outputs)


@given(OUTPUTS, OUTPUTS)
def test_a_record_that_goes_on_otherwise_is_shown_from_where_it_differs(
    first: list[Output], then: list[Output]
) -> None:
    seen: list[Output] = []
    show = ShownOnce(seen.append)
    for output in first:
        show(output)
    show.again()
    for output in then:
        show(output)
    before, after = atoms(first), atoms(then)
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    assert atoms(seen) == before + after[same:]


def atoms(outputs: list[Output]) -> list[tuple[str | None, str]]:
    """Outputs as the least that can be shown: characters of streams, and whole displays."""
    found: list[tuple[str | None, str]] = []
    for each in outputs:
        if each.stream is None:
            found.append((None, each.text))
        else:
            found += [(each.stream, char) for char in each.text]
    return found


def test_merging_keeps_order_and_text() -> None:
    outputs = [
        stream("a"),
        stream("b"),
        stream("c", "stderr"),
        shown("d"),
        stream("e"),
        stream("f"),
    ]
    assert plain(outputs) == [
        ("stream", "stdout", "ab"),
        ("stream", "stderr", "c"),
        ("display_data", None, "d"),
        ("stream", "stdout", "ef"),
    ]


def reply(**more: Any) -> dict[str, Any]:
    return {"status": "ok", "seq": 3, "digest": "d", "outcome": "ok", "duration_s": 0.5, **more}


def test_a_cells_text_is_what_a_reader_sees() -> None:
    outputs = [stream("one"), Output("execute_result", {"data": {"text/plain": "42"}})]
    result = cell_result(reply(result={"execution_count": 7}), outputs, "k")
    assert (result.text, result.value, result.stdout) == ("one\n42", "42", "one")
    assert (result.execution_count, result.seq, result.key, result.repeated) == (7, 3, "k", False)


def test_a_failed_step_raises_only_when_asked() -> None:
    told = reply(status="error", outcome="error", ename="ValueError", evalue="no", result={})
    result = cell_result(told, [], "k")
    assert not result.ok
    assert str(result.error) == "ValueError: no"
    with pytest.raises(StepFailed, match="Step 3 ended as error") as caught:
        result.check()
    assert caught.value.result is result


def test_a_commands_end() -> None:
    told = reply(
        status="error",
        outcome="error",
        result={
            "exit_code": None,
            "signal": 9,
            "timed_out": False,
            "stdout": {"bytes": 5, "lines": 1, "cut": True, "file": "x"},
            "stderr": "nonsense",
        },
    )
    result = command_result(told, [stream("a"), stream("b", "stderr")], "k")
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (None, 9, "a", "b")
    assert (result.stdout_end.cut, result.stdout_end.file) == (True, "x")
    assert result.stderr_end.bytes == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("LeaseHeld", LeaseHeld), ("ValueError", Refused), ("sys", Refused)]
)
def test_a_refusal_is_one_of_our_errors_whatever_it_names(name: str, kind: type) -> None:
    error = refusal({"status": "error", "ename": name, "evalue": "why"})
    assert type(error) is kind
    assert "why" in str(error)
    with pytest.raises(kind):
        cell_result({"status": "error", "ename": name, "evalue": "why"}, [], "k")


def test_an_outcome_that_there_is_not_is_refused() -> None:
    with pytest.raises(RepriseError, match="outcome"):
        cell_result(reply(outcome="fine"), [], "k")


@pytest.mark.parametrize(
    ("written", "found"),
    [("a/b", "a/b"), ("./a//b/", "a/b"), ("", ""), (".", ""), ("é/\udcff", "é/\udcff")],
)
def test_places_in_the_workspace(written: str, found: str) -> None:
    assert place(written) == found


@pytest.mark.parametrize("written", ["/etc", "a/../b", "..", "a\0b", "x" * 300])
def test_places_outside_of_it_are_refused(written: str) -> None:
    with pytest.raises(UsageError):
        place(written)


def test_a_commands_input_travels_as_text_or_beside_it() -> None:
    payload, blobs = command_payload(["cat"], stdin="short\udcff")
    assert (payload["stdin"], blobs) == ("short\udcff", {})
    payload, blobs = command_payload(["cat"], stdin=b"\0\xff")
    assert blobs == {payload["stdin"]["sha256"]: b"\0\xff"}
    payload, blobs = command_payload("cat", stdin="x" * 100_000)
    assert list(blobs.values()) == [b"x" * 100_000]


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": "  "},
        {"command": []},
        {"command": ["a\0"]},
        {"command": ["\ud800"]},
        {"command": "x", "timeout": 0},
        {"command": "x", "timeout": float("nan")},
        {"command": "x", "env": {"A=B": "c"}},
        {"command": "x", "output_lines": -1},
        {"command": "x", "cwd": 3},
    ],
)
def test_what_no_process_can_be_given_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        command_payload(wrong.pop("command"), **wrong)


def test_a_request_draws_a_key_of_its_own() -> None:
    keys = {request("command", {}).key for _ in range(100)}
    assert len(keys) == 100
    assert request("command", {}, key="mine").content()["key"] == "mine"
    with pytest.raises(UsageError):
        request("command", {}, key="k" * 201)
    with pytest.raises(UsageError):
        request("command", {}, key="")
