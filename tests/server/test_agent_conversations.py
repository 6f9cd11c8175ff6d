"""Conversations over REST: begun, said, stopped, answered by whoever may, and by nobody else."""

from __future__ import annotations

import html
import json
import re
import uuid
from typing import Any

import httpx
import pytest
import websocket

from reprise_server.agent.scripted import Step, by_answers, calls, says
from tests.fixtures.agent_server import FRAME, PAGE, Agents, refused, start_agents
from tests.fixtures.kernel import Database
from tests.fixtures.server import PATIENCE, Serve


def command(line: str) -> Step:
    return calls("run_command", {"command": line})


def question_of(agents: Agents, conversation: str) -> dict[str, Any]:
    """What the turn waits for."""
    (question,) = agents.once(conversation, lambda now: now["questions"])["questions"]
    found: dict[str, Any] = question
    return found


def nonces(agents: Agents, frame: str, client: httpx.Client | None = None) -> dict[str, str]:
    """Label → nonce of a decision's frame, as a browser gets it."""
    address = agents.server.url.removesuffix("/base/") + frame
    answer = (client or agents.client).get(address, headers=FRAME)
    assert answer.status_code == 200, answer.text
    found = re.findall(r'data-nonce="([^"]+)">([^<]+)<', answer.text)
    return {html.unescape(label): nonce for nonce, label in found}


def press(agents: Agents, decision: str, nonce: str) -> httpx.Response:
    """Hand a nonce in, as soon as a person could have read the frame."""
    while True:
        answer = agents.client.post(f"decisions/{decision}", json={"nonce": nonce}, headers=PAGE)
        if answer.status_code != 425:
            return answer


def result_seen(agents: Agents, conversation: str) -> str:
    """What the model was told of the newest call of a conversation."""
    entries = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()["entries"]
    (content,) = [each["body"]["content"] for each in entries if each["kind"] == "result"][-1:]
    return "\n".join(block["text"] for block in content)


# A turn -------------------------------------------------------------------------------------------


def test_a_conversation_is_begun_driven_read_and_deleted(agents: Agents) -> None:
    session = agents.session()
    conversation, words = agents.begin(
        command("echo one > one.txt"), says("Done."), session=session, title="One file"
    )
    now = agents.now(conversation)
    assert (now["owner"], now["yours"], now["running"], now["ended"]) == (
        "alice",
        True,
        False,
        None,
    )
    assert agents.say(conversation, words) == 1
    question = question_of(agents, conversation)
    assert question["approval"] is True
    assert question["options"][-1] == "deny"
    refused(
        agents.client.post(f"conversations/{conversation}/say", json={"text": "And?"}),
        409,
        "turn-runs",
    )
    answer = agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}", json={"decision": "once"}
    )
    assert answer.status_code == 204, answer.text
    assert agents.ended(conversation)["ended"] == "done"
    # The step is the session's, and the agent's.
    steps = agents.client.get(f"sessions/{session}/steps", params={"actor": "agent"}).json()[
        "steps"
    ]
    assert [each["actor"]["conversation"] for each in steps] == [conversation]

    entries = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()
    assert [each["seq"] for each in entries["entries"]] == list(range(len(entries["entries"])))
    decided = next(each["body"] for each in entries["entries"] if each["kind"] == "decided")
    assert (decided["how"], decided["by"]) == ("terminal", "alice")
    # In pages: all of it, nothing twice.
    paged: list[Any] = []
    after: int | None = -1
    while after is not None:
        page = agents.client.get(
            f"conversations/{conversation}/entries", params={"after": after, "limit": 3}
        ).json()
        paged, after = paged + page["entries"], page["next"]
    assert paged == entries["entries"]
    lines = agents.client.get(f"conversations/{conversation}/transcript").json()["lines"]
    assert [each["text"] for each in lines if each["who"] == "agent"][-1] == "Done."
    listed = agents.client.get("conversations", params={"session": session}).json()["conversations"]
    assert [(each["id"], each["title"]) for each in listed] == [(conversation, "One file")]

    done = agents.client.post(f"conversations/{conversation}/undo", json={})
    assert done.status_code == 200, done.text
    assert done.json()["turn"] == 1
    assert done.json()["session"] != session
    assert agents.now(conversation)["session"] == done.json()["session"]
    refused(agents.client.post(f"conversations/{conversation}/undo", json={}), 409, "cannot-undo")
    gone = agents.client.delete(f"conversations/{conversation}")
    assert gone.status_code == 204, gone.text
    refused(agents.client.get(f"conversations/{conversation}"), 404, "conversation-not-found")


def test_a_conversation_is_renamed_found_by_words_and_kept_as_a_file(agents: Agents) -> None:
    session = agents.session()
    wild = "# Not *ours* <b>\n```\nand `ticks`"
    conversation, words = agents.begin(
        command("echo one"), says("The needle is\n## in here"), session=session, title=wild
    )
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    # While the turn runs; by nobody else.
    path = f"conversations/{conversation}"
    refused(agents.server.client("bob").patch(path, json={"title": "bob's"}), 403, "not-allowed")
    renamed = agents.client.patch(path, json={"title": "Rows of\nthe table"}).json()
    assert renamed["title"] == "Rows of the table"
    agents.client.post(f"{path}/questions/{question['id']}", json={"decision": "once"})
    agents.ended(conversation)
    assert agents.now(conversation)["title"] == "Rows of the table"

    def found(text: str) -> list[str]:
        asked = {"q": text, "session": session}
        listed = agents.client.get("conversations", params=asked).json()["conversations"]
        return [each["id"] for each in listed]

    assert found("NEEDLE rows") == [conversation]
    assert found("ours") == [], "it is called so no more"
    refused(agents.client.get("conversations", params={"q": "a " * 20}), 400, "usage")

    kept = agents.client.get(f"{path}/export")
    assert kept.headers["Content-Disposition"].endswith("Rows%20of%20the%20table.md")
    lines = kept.text.splitlines()
    assert lines[0] == "# Rows of the table"
    assert "> ## in here" in lines, "what the agent wrote is a quote, and no heading of ours"
    assert [line for line in lines if line.startswith("## ")] == ["## Turn 1"]
    whole = agents.client.get(f"{path}/export", params={"form": "json"})
    assert whole.headers["Content-Type"] == "application/octet-stream"
    entries = agents.client.get(f"{path}/entries?limit=500").json()["entries"]
    assert json.loads(whole.content)["entries"] == entries


def test_an_undo_is_foreseen_and_nothing_of_it_done(agents: Agents) -> None:
    session = agents.session()
    conversation, words = agents.begin(
        command("echo one > one.txt"), says("Done."), session=session
    )
    path = f"conversations/{conversation}"
    refused(agents.client.get(f"{path}/undo"), 409, "cannot-undo")
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    agents.client.post(f"{path}/questions/{question['id']}", json={"decision": "once"})
    agents.ended(conversation)
    before = agents.client.get(f"{path}/entries?limit=500").json()
    foreseen = agents.client.get(f"{path}/undo").json()
    (step,) = agents.client.get(f"sessions/{session}/steps", params={"actor": "agent"}).json()[
        "steps"
    ]
    assert (foreseen["turn"], foreseen["at"]) == (1, step["seq"] - 1)
    assert (foreseen["cells"], foreseen["kept"], foreseen["others"]) == ([], [], [])
    assert agents.client.get(f"{path}/entries?limit=500").json() == before
    refused(agents.server.client("bob").get(f"{path}/undo"), 403, "not-allowed")
    done = agents.client.post(f"{path}/undo", json={}).json()
    assert (done["turn"], done["at"], done["outside"]) == (
        1,
        foreseen["at"],
        foreseen["outside"],
    )


def test_which_model_answers_is_said_before_the_first_word(agents: Agents, serve: Serve) -> None:
    said = agents.client.get("agent").json()
    assert (said["ready"], said["why"], said["scripted"]) == (True, None, False)
    assert said["model"]
    assert said["context_tokens"] > 0
    bare = serve(people=False, env={"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""})
    said = bare.client().get("agent").json()
    assert said["ready"] is False
    assert "ANTHROPIC_API_KEY" in said["why"]


def test_a_denial_tells_the_agent_why_and_nothing_runs(agents: Agents) -> None:
    conversation, words = agents.begin(command("rm -rf data"), says("I did not."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    # Denying widens nothing, so a page may do it without a frame.
    answer = agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}",
        json={"decision": "deny", "reason": "The data stays."},
        headers=PAGE,
    )
    assert answer.status_code == 204, answer.text
    agents.ended(conversation)
    assert "The data stays." in result_seen(agents, conversation)
    assert "running" not in agents.kinds(conversation)


def test_a_stopped_turn_goes_on(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo two"), says("Went on."))
    agents.say(conversation, words)
    question_of(agents, conversation)
    stopped = agents.client.post(f"conversations/{conversation}/cancel")
    assert stopped.json() == {"stopping": True}
    assert agents.ended(conversation)["ended"] == "cancelled"
    assert agents.client.post(f"conversations/{conversation}/cancel").json() == {"stopping": False}
    answer = agents.client.post(f"conversations/{conversation}/continue")
    assert (answer.status_code, answer.json()) == (202, {"turn": 1})
    assert agents.ended(conversation)["ended"] == "done"
    refused(
        agents.client.post(f"conversations/{conversation}/continue"), 409, "nothing-to-continue"
    )


def test_a_question_of_the_models_own_is_answered_in_words(agents: Agents) -> None:
    ask = calls("ask_user", {"question": "Which year?", "options": ["2024", "2025"]})
    conversation, words = agents.begin(ask, says("Thanks."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    assert question["approval"] is False
    assert (question["decision"], question["frame"]) == (None, None)
    answer = agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}",
        json={"decision": "neither: 1999"},
        headers=PAGE,
    )
    assert answer.status_code == 204, answer.text
    agents.ended(conversation)
    assert "neither: 1999" in result_seen(agents, conversation)


# Approvals ----------------------------------------------------------------------------------------


def test_a_browser_approves_in_the_frame_alone(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo \x1b[31mred\u202e"), says("Ran."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    path = f"conversations/{conversation}/questions/{question['id']}"
    for option in ("once", "session", "pattern"):
        needed = refused(
            agents.client.post(path, json={"decision": option}, headers=PAGE),
            428,
            "decision-needed",
        )
        assert needed["decision"] == question["decision"]
        assert needed["frame"] == question["frame"]
    address = agents.server.url.removesuffix("/base/") + question["frame"]
    shown = agents.client.get(address, headers=FRAME).text
    # Exactly what would run, and why it is asked.
    assert "echo <b>\\x1b</b>[31mred<b>\\u202e</b>" in shown
    assert "Agent wants to run a command" in shown
    assert "default/run" in shown
    found = nonces(agents, question["frame"])
    assert set(found) == {
        "Yes: Deny",
        "Allow once",
        "Yes: This session",
    }  # no pattern of a compound
    answer = press(agents, question["decision"], found["Yes: This session"])
    assert (answer.status_code, answer.json()["ended"]["option"]) == (200, "session")
    refused(press(agents, question["decision"], found["Yes: This session"]), 409, "decided")
    agents.ended(conversation)
    entries = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()["entries"]
    (decided,) = [each["body"] for each in entries if each["kind"] == "decided"]
    assert (decided["decision"], decided["how"], decided["by"]) == ("session", "frame", "alice")
    assert decided["grant"]["scope"] == "session"


def test_what_was_decided_elsewhere_is_said_in_the_frame(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo three"), says("Ran."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    found = nonces(agents, question["frame"])
    agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}", json={"decision": "once"}
    )
    agents.ended(conversation)
    address = agents.server.url.removesuffix("/base/") + question["frame"]
    shown = agents.client.get(address, headers=FRAME).text
    assert "Allowed once by a program, or in a terminal." in shown
    assert "nonce" not in shown
    refused(press(agents, question["decision"], found["Allow once"]), 409, "decided")
    refused(
        agents.client.post(
            f"conversations/{conversation}/questions/{question['id']}", json={"decision": "once"}
        ),
        404,
        "question-not-found",
    )


def test_a_policy_is_tried_on_no_conversation_that_one_may_not_read(agents: Agents) -> None:
    conversation, _ = agents.begin()
    asked = {"policy": "rules: []", "conversation": conversation}
    try:
        agents.server.deny(("alice", "read", "reprise-conversations"))
        refused(agents.client.post("policy-checks", json=asked), 403, "not-authorized")
    finally:
        agents.server.deny()
    assert agents.client.post("policy-checks", json=asked).json()["trial"]["calls"] == 0


def test_a_policy_is_tried_on_what_was_called(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo five"), says("It did not run."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}", json={"decision": "deny"}
    )
    agents.ended(conversation)
    draft = "rules:\n  - {name: no-commands, decision: deny, tool: run_command}\n"
    for asked in ({"conversation": conversation}, {"recent": True}):
        trial = agents.client.post("policy-checks", json={"policy": draft, **asked}).json()["trial"]
        (change,) = [each for each in trial["changes"] if each["conversation"] == conversation]
        assert trial["calls"] >= 1
        assert (change["tool"], change["before"]["decision"]) == ("run_command", "ask")
        assert change["now"]["rule"] == "personal/no-commands"


def test_the_frame_is_for_an_iframe_of_this_server_alone(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo four"), says("Ran."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    address = agents.server.url.removesuffix("/base/") + question["frame"]
    for headers in (
        PAGE,
        {**FRAME, "Sec-Fetch-Dest": "document"},
        {**FRAME, "Sec-Fetch-Dest": "object"},
        {**FRAME, "Sec-Fetch-Dest": "serviceworker"},
        {**FRAME, "Sec-Fetch-Site": "cross-site"},
        {**FRAME, "Sec-Fetch-Site": "same-site"},
        {**FRAME, "Sec-Fetch-Mode": "cors"},
        {**FRAME, "Service-Worker-Navigation-Preload": "true"},
    ):
        refused(agents.client.get(address, headers=headers), 403, "not-a-frame")
    # A browser that was reached by plain HTTP says nothing of it.
    plain = agents.client.get(address)
    assert "needs HTTPS or localhost" in plain.text
    assert "nonce" not in plain.text
    assert "echo four" not in plain.text
    shown = agents.client.get(address, headers=FRAME)
    policy = shown.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; frame-ancestors 'self'; ")
    assert "unsafe" not in policy
    assert shown.headers["Cache-Control"] == "no-store"
    agents.client.post(f"conversations/{conversation}/cancel")
    agents.ended(conversation)


# Who may ------------------------------------------------------------------------------------------


def test_others_read_and_do_nothing(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo five"), says("Ran."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    bob = agents.server.client("bob")
    seen = agents.now(conversation, bob)
    assert (seen["owner"], seen["yours"]) == ("alice", False)
    assert [each["decision"] for each in seen["questions"]] == [None]
    assert bob.get(f"conversations/{conversation}/entries").json()["entries"]
    assert bob.get(f"conversations/{conversation}/transcript").json()["lines"]
    at = f"conversations/{conversation}"
    for path, body in (
        (f"{at}/say", {"text": "Hello"}),
        (f"{at}/continue", None),
        (f"{at}/cancel", None),
        (f"{at}/undo", {}),
        (f"{at}/questions/{question['id']}", {"decision": "once"}),
        (f"{at}/questions/{question['id']}", {"decision": "deny"}),
        ("conversations", {"session": agents.session()}),
    ):
        refused(bob.post(path, json=body), 403, "not-allowed")
    refused(bob.delete(at), 403, "not-allowed")
    # Her frame tells him to wait, and her nonce is no use to him.
    address = agents.server.url.removesuffix("/base/") + question["frame"]
    shown = bob.get(address, headers=FRAME).text
    assert "Waiting for the owner, alice." in shown
    assert "nonce" not in shown
    nonce = nonces(agents, question["frame"])["Allow once"]
    refused(bob.post(f"decisions/{question['decision']}", json={"nonce": nonce}), 403, "not-yours")
    assert agents.now(conversation)["questions"][0]["id"] == question["id"]
    agents.client.post(f"{at}/cancel")
    agents.ended(conversation)


def test_what_is_not_there_is_refused_in_a_sentence(agents: Agents) -> None:
    nobody = uuid.uuid4()
    refused(agents.client.get(f"conversations/{nobody}"), 404, "conversation-not-found")
    refused(
        agents.client.post(f"conversations/{nobody}/say", json={"text": "Hello"}),
        404,
        "conversation-not-found",
    )
    refused(
        agents.client.post("conversations", json={"session": str(nobody)}), 404, "session-not-found"
    )
    conversation, _ = agents.begin()
    refused(
        agents.client.post(f"conversations/{conversation}/questions/q1", json={"decision": "x"}),
        404,
        "question-not-found",
    )
    refused(
        agents.client.post(f"conversations/{conversation}/continue"), 409, "nothing-to-continue"
    )
    refused(agents.client.post(f"conversations/{conversation}/undo", json={}), 409, "cannot-undo")


@pytest.mark.parametrize("programs", ["never", None])
def test_a_server_of_one_person_decides_in_time_or_not_at_all(
    serve: Serve, database: Database, programs: str | None
) -> None:
    """Without names, with programs that approve nothing (by default, where nothing isolates), and
    little patience."""
    patience = "--RepriseAgent.approval_patience=3"
    agents, opened = start_agents(serve, database, patience, people=False, programs=programs)
    with opened:
        conversation, words = agents.begin(command("echo six"), says("I see."))
        agents.say(conversation, words)
        question = question_of(agents, conversation)
        refused(
            agents.client.post(
                f"conversations/{conversation}/questions/{question['id']}",
                json={"decision": "once"},
            ),
            403,
            "not-allowed",
        )
        agents.ended(conversation)
        entries = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()
        (decided,) = [e["body"] for e in entries["entries"] if e["kind"] == "decided"]
        assert (decided["decision"], decided["how"], decided["by"]) == ("deny", "timeout", None)
        assert "running" not in [each["kind"] for each in entries["entries"]]
        address = agents.server.url.removesuffix("/base/") + question["frame"]
        assert "so not run" in agents.client.get(address, headers=FRAME).text


def test_what_waited_when_the_server_stopped_is_pressed_on_the_next_one(
    serve: Serve, database: Database
) -> None:
    """A turn that goes on waits for the same answer: a page has to learn where it is given."""
    steps = (command("echo eight"), says("Eight."))
    before, opened = start_agents(serve, database)
    with opened:
        conversation, words = before.begin(*steps)
        before.say(conversation, words)
        asked = question_of(before, conversation)
        before.server.stop()
    after, opened = start_agents(serve, database)
    after.scripts[words] = by_answers(steps)
    with opened, after.lines:
        assert after.now(conversation)["questions"] == []
        line = after.line(conversation)
        line.until(lambda told: told["type"] == "told")
        line.send("continue")
        told = line.until(lambda told: told["type"] == "question")
        (question,) = after.now(conversation)["questions"]
        assert (told["question"], question["id"]) == (asked["id"], asked["id"])
        assert (told["frame"], question["until"]) == (question["frame"], asked["until"])
        once = nonces(after, question["frame"])["Allow once"]
        answer = press(after, question["decision"], once)
        assert answer.status_code == 200, answer.text
        assert after.ended(conversation)["ended"] == "done"
        assert "eight" in result_seen(after, conversation)


# Events -------------------------------------------------------------------------------------------


def test_listeners_hear_what_happens_and_nothing_that_was_said(agents: Agents) -> None:
    url = agents.server.url.replace("http", "ws", 1)
    socket = websocket.create_connection(
        f"{url}api/events/subscribe",
        header=["Authorization: token alice-token"],
        timeout=PATIENCE,
        suppress_origin=True,
    )
    conversation, words = agents.begin(command("echo seven"), says("Seven."))
    agents.say(conversation, words)
    question = question_of(agents, conversation)
    agents.client.post(
        f"conversations/{conversation}/questions/{question['id']}", json={"decision": "once"}
    )
    heard = []
    while not heard or heard[-1]["action"] != "turn-ended":
        told = json.loads(socket.recv())
        assert "seven" not in json.dumps(told).lower()
        if told.get("conversation") == conversation:
            heard.append(told)
    socket.close()
    assert [each["action"] for each in heard] == [
        "begun",
        "turn-began",
        "question",
        "decided",
        "turn-ended",
    ]
    assert [each["by"] for each in heard] == ["alice", "alice", "agent", "alice", "agent"]
    assert heard[-1]["status"] == "done"
