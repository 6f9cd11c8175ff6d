"""input() and getpass: answered, recorded and fed again; a password is stored nowhere."""

from __future__ import annotations

import pytest

from tests.fixtures.kernel import Client, Heard, Kernels

SECRET = "hunter2-never-to-be-stored"


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_answers_are_recorded_and_passwords_are_not(kernels: Kernels, backend: str) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    asked: list[Heard] = []

    def answer(heard: Heard) -> str:
        asked.append(heard)
        return SECRET if heard.content["password"] else f"answer-{len(asked)}"

    client.handle_input = answer
    ran = client.run("a = input('first? '); b = input('second? '); print(a, b)")
    assert ran.text() == "answer-1 answer-2\n"
    assert [h.content["prompt"] for h in asked] == ["first? ", "second? "]
    assert client.prints("import getpass; p = getpass.getpass(); print(len(p))") == str(len(SECRET))
    recorded = kernels.read(kernel)
    outcomes = [record.outcome for record in recorded.cells]
    assert outcomes[0] is not None
    assert outcomes[0].new.inputs == ("answer-1", "answer-2")
    assert outcomes[1] is not None
    assert outcomes[1].new.inputs == (None,)
    everything = kernels.database.everything()
    assert "answer-1" in everything, "the search itself must work"
    assert SECRET not in everything

    # A cold replay feeds what was recorded, and asks again for what was not.
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    asked.clear()
    client.handle_input = answer
    assert client.prints("print(a, b, len(p))") == f"answer-1 answer-2 {len(SECRET)}"
    assert [h.content["password"] for h in asked] == [True]
    assert "asked again" in asked[0].content["prompt"]
    assert SECRET not in kernels.database.everything()


def test_a_password_that_nobody_gives_again_leaves_the_rest_to_work(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.handle_input = lambda _: SECRET
    client.run("import getpass; x = 1; p = getpass.getpass(); x = 2")
    kernel.kill("router")
    client = kernels.again(kernel).client()  # takes no questions
    assert client.prints("print(x)") == "2"
    assert "password" in client.notice("not-replayed")["text"]


def test_a_client_that_takes_no_questions_gets_the_language_kernels_own_error(
    client: Client,
) -> None:
    ran = client.run("input('anybody? ')", allow_stdin=False)
    assert ran.error == "StdinNotImplementedError"
    assert client.run("1").value == "1"


def test_a_question_can_be_interrupted(client: Client) -> None:
    running = client.execute("input('well? ')", allow_stdin=True)
    client.wait(lambda h: h.type == "input_request" and h.parent == running)
    client.ask("interrupt_request", channel="control")
    assert client.finish(running).error == "KeyboardInterrupt"
    client.answer("too late")
    assert client.run("2").value == "2"


def test_an_answer_that_nobody_asked_for_does_nothing(client: Client) -> None:
    client.answer("unasked")
    assert client.run("3").value == "3"
    client.handle_input = lambda _: "the right one"
    assert client.prints("print(input())") == "the right one"


def test_who_was_not_asked_may_answer(kernels: Kernels) -> None:
    """The page that was asked was closed."""
    kernel = kernels("process")
    page, other = kernel.client(), kernel.client()
    msg_id = page.execute("import getpass; word = getpass.getpass('Word? ')", allow_stdin=True)
    page.wait(lambda heard: heard.type == "input_request")
    [question] = other.ask("question_request", channel="control")["questions"]
    assert question == {"msg_id": msg_id, "seq": 0, "prompt": "Word? ", "password": True}
    said = {"msg_id": "another", "value": "x"}
    assert other.ask("answer_request", said, channel="control")["answered"] is False
    said = {"msg_id": msg_id, "value": "secret"}
    assert other.ask("answer_request", said, channel="control")["answered"] is True
    assert page.finish(msg_id).status == "ok"
    assert page.prints("print(word)") == "secret"
    assert other.ask("question_request", channel="control")["questions"] == []
    assert other.ask("answer_request", said, channel="control")["answered"] is False
    first = kernels.read(kernel).cells[0]
    assert first.outcome is not None
    assert first.outcome.new.inputs == (None,)


def test_a_reply_names_its_step_and_the_record_does_not(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = kernel.client()
    page.run("print('one')")
    ran = page.run("1 / 0")
    [reply] = [heard for heard in ran.heard if heard.type == "execute_reply"]
    named = reply.message["metadata"]["reprise"]
    assert named == {"session": str(kernel.session), "step": 1, "outputs": 2}
    assert "started" in reply.message["metadata"]  # what the language kernel says stays
    record = kernels.read(kernel).cells[1]
    assert record.outputs[-1].type == "execute_reply"
    assert "reprise" not in record.outputs[-1].metadata
