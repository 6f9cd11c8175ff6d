"""Checks pass what is right, say what is wrong, and are not talked round by what a model wrote."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.skills.shipped import find_shipped
from reprise_server.agent.contract import Entry
from reprise_server.agent.eval.evidence import Evidence, Made, answer_of, calls_of, spent_of
from reprise_server.agent.eval.folder import bundled, given_task
from reprise_server.agent.eval.judging import completion, workflow
from reprise_server.agent.eval.task import BadTask, task_of
from reprise_server.agent.model.prices import price_of


def task(completion="[{file: a}]", workflow="[{called: x}]"):
    text = f"name: t\nskill: s\ntask: Do.\ncompletion: {completion}\nworkflow: {workflow}\n"
    return task_of(text.encode(), "task.yaml")


def made(tool, status="ok", code=None, **given):
    return Made(tool, given, status, code)


def whys(outcomes):
    return [outcome.why for outcome in outcomes]


def left(*calls, files=None, answer="", given=None, commands=None):
    return Evidence(calls, answer, files or {}, given or {}, commands or {})


@pytest.mark.parametrize(
    ("check", "text", "why"),
    [
        ("{file: a}", "", None),
        ("{file: a, contains: b}", "abc", None),
        ("{file: a, contains: [b, d]}", "abc", "it does not contain 'd'"),
        ("{file: a, lacks: b}", "abc", "it contains 'b'"),
        ("{file: a, matches: 'b.$'}", "abc", None),
        ("{file: a, matches: '^b'}", "abc", "nothing in it matches '^b'"),
        ("{file: a, json: {at: x.1, is: 2}}", '{"x": [1, 2]}', None),
        ("{file: a, json: {at: x.1, is: 3}}", '{"x": [1, 2]}', "x.1 is 2, not 3"),
        ("{file: a, json: {at: x.2, is: 3}}", '{"x": [1, 2]}', "there is no x.2"),
        ("{file: a, json: {at: x, is: 1}}", "{", "it is no JSON"),
        ("{file: a, json: {at: x, is: 1}}", '{"x": true}', "x is true, not 1"),
        ("{file: a, json: {at: x, is: true}}", '{"x": 1}', "x is 1, not true"),
        ("{file: a, json: {at: x, is: 1}}", '{"x": "1"}', "x is 1, not 1"),
        ("{file: a, json: {at: x, is: 0.5, within: 0.01}}", '{"x": 0.509}', None),
        ("{file: a, json: {at: x, is: 0.5, within: 0.01}}", '{"x": 0.52}', "x is 0.52, not 0.5"),
        ("{file: a, json: {at: x, is: 0.5, within: 9}}", '{"x": NaN}', "x is NaN, not 0.5"),
        ("{file: a, json: {at: '', is: [1, 2], any_order: true}}", "[2, 1]", None),
        ("{file: a, json: {is: [1, 2]}}", "[2, 1]", "the whole is [2, 1], not [1, 2]"),
        (
            "{file: a, json: {is: [1, 1], any_order: true}}",
            "[1, 2]",
            "the whole is [1, 2], not [1, 1]",
        ),
        ("{file: a, json: {is: [1], any_order: true}}", "[1, 1]", "the whole is [1, 1], not [1]"),
        ("{file: a, json: [{at: x, is: 1}, {at: y, is: 2}]}", '{"x": 1, "y": 2}', None),
    ],
)
def test_a_file_is_what_it_should_be_or_the_reason_is_told(check, text, why):
    [outcome] = completion(task(f"[{check}]"), left(files={"a": text.encode()}))
    assert (outcome.passed, outcome.why) == (why is None, why or "")


def test_a_file_that_is_not_there_passes_nothing():
    for check in ("{file: a}", "{file: a, lacks: x}", "{unchanged: a}"):
        [outcome] = completion(task(f"[{check}]"), left(given={"a": b""}))
        assert not outcome.passed


def test_given_files_and_answers_and_commands_are_looked_at():
    check = task("[{unchanged: d}, {answer: {contains: '42'}}, {command: ./c.py, contains: fine}]")
    good = left(
        files={"d": b"1"}, given={"d": b"1"}, answer="It is 42.", commands={"./c.py": (0, "fine")}
    )
    assert all(outcome.passed for outcome in completion(check, good))
    bad = left(files={"d": b"2"}, given={"d": b"1"}, commands={"./c.py": (1, "fine, no")})
    assert whys(completion(check, bad)) == [
        "d was changed",
        "it does not contain '42'",
        "it ended with 1: fine, no",
    ]


def test_the_workflow_is_read_from_calls_that_ended_well():
    check = task(
        workflow="[{loaded: s}, {ran: go.py, skill: s}, {called: write_file, given: {path: out}}]"
    )
    good = left(
        made("load_skill", skill="personal:s@3"),
        made("run_skill", skill="s", script="scripts/go.py", args=[]),
        made("write_file", path="out.csv"),
    )
    assert all(outcome.passed for outcome in workflow(check, good, skills=True))
    by_hand = left(made("run_command", code="cd /skills/s && python /skills/s/scripts/go.py x"))
    assert [o.passed for o in workflow(check, by_hand, skills=True)] == [False, True, False]
    failed = left(
        made("load_skill", "denied", skill="s"),
        made("run_skill", "error", skill="s", script="go.py"),
        made("run_skill", skill="other", script="go.py"),
        made("run_command", code="echo /skills/other/go.py"),
        made("write_file", "lost", path="out"),
    )
    assert not any(outcome.passed for outcome in workflow(check, failed, skills=True))


def test_order_and_what_must_not_be():
    order = "{name: o, order: [{loaded: s}, {called: a}, {called: b}]}"
    check = task(workflow=f"[{order}, {{never: rm, given: {{path: data}}}}]")
    load, a, b = made("load_skill", skill="s"), made("a"), made("b")
    for calls, why in (
        ((load, a, b), ""),
        ((load, a, a, b, a), ""),
        ((a, load, b), "calling a came before what should be before it"),
        ((load, b, a), "calling b came before what should be before it"),
        ((load, a), "calling b did not happen"),
    ):
        assert workflow(check, left(*calls), skills=True)[0].why == why
    # Tried is done enough, whatever came of it.
    tried = made("rm", "denied", path="data/x")
    assert workflow(check, left(a, tried), skills=True)[1].why == "call 2 was rm"


def test_without_skills_what_takes_one_is_not_asked():
    check = task(workflow="[{loaded: s}, {name: o, order: [{loaded: s}, {called: a}]}, {never: b}]")
    assert [o.name for o in workflow(check, left(), skills=False)] == ["never b"]


def entry(seq, kind, **body):
    return Entry(seq, 1, kind, body, 0)


def test_evidence_is_read_from_entries():
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}
    said = [{"type": "text", "text": "Done."}, {"type": "tool_use"}]
    entries = [
        entry(0, "answered", content=said, usage=usage, cost={"amount": "0.1", "currency": "USD"}),
        entry(1, "called", id="a", tool="run_command", input={"command": "ls"}, act={"code": "ls"}),
        entry(2, "result", id="a", status="ok"),
        entry(3, "called", id="b", tool="write_file", input={}, act=None),
        entry(4, "answered", content=[], usage=usage, cost={"amount": "0.2", "currency": "USD"}),
        entry(
            5,
            "answered",
            content=[{"type": "text", "text": "cut"}],
            usage={},
            partial=True,
            cost=None,
        ),
    ]
    assert calls_of(entries) == (
        Made("run_command", {"command": "ls"}, "ok", "ls"),
        Made("write_file", {}, None, None),
    )
    assert answer_of(entries[:4]) == "Done."
    assert answer_of(entries) == ""
    spent = spent_of(entries)
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (3, 30, 6)
    # As decimals: 0.1 + 0.2 is 0.3 here.
    assert str(spent.cost["USD"]) == "0.3"


def test_compactions_and_what_was_cut_off_are_spent_too():
    usage = {"input_tokens": 10, "output_tokens": 2}
    entries = [
        entry(0, "compacted", content=[], usage=usage, cost={"amount": "0.5", "currency": "USD"}),
        entry(1, "answered", content=[], usage={**usage, "lost": [usage]}, cost=None, partial=True),
    ]
    price = price_of(
        {
            "m": {
                "input": "100000",
                "output": "0",
                "cache_write": "0",
                "cache_read": "0",
                "currency": "usd",
            }
        },
        "m",
    )
    spent = spent_of(entries, price)
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (2, 30, 6)
    # Ten tokens are 1 USD: twice what was lost, and the compaction as it was recorded.
    assert {name: f"{amount:f}" for name, amount in spent.cost.items()} == {"USD": "2.5"}


@pytest.mark.parametrize("name", bundled())
def test_a_bundled_task_is_not_completed_by_doing_nothing(name):
    given_ = given_task(name)
    nothing = Evidence((), "", dict(given_.files), given_.files, {})
    judged = completion(given_.task, nothing)
    assert sum(not outcome.passed for outcome in judged) >= 3
    assert not all(outcome.passed for outcome in workflow(given_.task, nothing, skills=True))
    assert find_shipped(given_.task.skill) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "fields"),
        ("a: [", "no YAML"),
        ("name: T\nskill: s\ntask: x\n", "name is at most 64"),
        ("name: t\nskill: s\n", "task is a text"),
        ("name: t\nskill: s\ntask: x\n", "completion has no check"),
        ("name: t\nskill: s\ntask: x\nmore: 1\n", "no field 'more'"),
        ("name: t\nskill: s\ntask: x\ncompletion: [1]\n", "completion[0] is a check"),
        ("name: t\nskill: s\ntask: x\ncompletion: [{path: a}]\n", "completion[0] is one of file"),
        ("name: t\nskill: s\ntask: x\ncompletion: [{file: /a}]\n", "a path within the workspace"),
        ("name: t\nskill: s\ntask: x\ncompletion: [{file: ../a}]\n", "a path within the workspace"),
        ("name: t\nskill: s\ntask: x\ncompletion: [{file: a, matches: '('}]\n", "no regular"),
        ("name: t\nskill: s\ntask: x\ncompletion: [{file: a, json: {at: b}}]\n", "lacks `is`"),
        (
            "name: t\nskill: s\ntask: x\ncompletion: [{file: a}, {file: a}]\nworkflow: [{loaded: s}]\n",
            "one name",
        ),
        (
            "name: t\nskill: s\ntask: x\ncompletion: [{file: a}]\nworkflow: [{ran: x}]\n",
            "workflow[0].skill",
        ),
        (
            "name: t\nskill: s\ntask: x\ncompletion: [{file: a}]\nworkflow: [{order: []}]\n",
            "two events",
        ),
    ],
)
def test_a_task_that_is_none_is_told_where(text, why):
    with pytest.raises(BadTask) as raised:
        task_of(text.encode(), "task.yaml")
    assert why in str(raised.value)
    assert str(raised.value).startswith("task.yaml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["file", "json", "at", "is", "order", "loaded", "never", "given", "name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {"name": st.just("t"), "skill": st.just("s"), "task": st.just("x")},
        optional={"completion": VALUES, "workflow": VALUES, "more": VALUES},
    )
)
def test_whatever_a_file_says_is_a_task_or_refused(content):
    try:
        found = task_of(json.dumps(content).encode(), "t")
    except BadTask:
        return
    completion(found, left(files={"a": b"[1]"}))
    workflow(found, left(made("a")), skills=True)


@given(st.binary(max_size=200))
def test_whatever_bytes_are_a_task_or_refused(data):
    with pytest.raises(BadTask):
        task_of(data, "t")
