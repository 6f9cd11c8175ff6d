"""A script from a file is read strictly and served to whoever asks, turn by turn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import pytest

from reprise.errors import UsageError
from reprise_server.agent.scripted import Call, Failure, Reply, Text, Thought
from reprise_server.agent.scripted.reading import read_script
from tests.agent.asking import assistant, request, user


def test_a_script_says_thinks_calls_and_fails() -> None:
    steps = read_script(
        json.dumps(
            [
                {"think": "hm", "say": "I run it.", "call": "run", "input": {"a": 1}},
                {"calls": [{"tool": "a", "input": {}}, {"tool": "b"}], "stop": "max_tokens"},
                {"status": 529, "retry_after": "2"},
            ]
        )
    )
    assert steps[0] == Reply((Thought("hm"), Text("I run it."), Call("run", {"a": 1})))
    assert steps[1] == Reply((Call("a", {}), Call("b", {})), stop="max_tokens")
    assert isinstance(steps[2], Failure)
    assert (steps[2].status, steps[2].headers) == (529, {"retry-after": "2"})


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("[", "not JSON"),
        ("{}", "a list of answers"),
        ("[]", "one at least"),
        ("[1]", "answer 1 is no object"),
        ("[{}]", "neither says nor calls"),
        ('[{"say": 1}]', "`say` is a text"),
        ('[{"say": "a", "shout": "b"}]', "no field 'shout'"),
        ('[{"say": "a"}, {"call": "x", "calls": []}]', "answer 2 has one `call`"),
        ('[{"call": "x", "input": []}]', "`input` is an object"),
        ('[{"calls": [1]}]', "is an object"),
        ('[{"status": 200}]', "`status` is one of"),
        ('[{"say": "a", "stop": "here"}]', "`stop` is one of"),
        ('[{"say": "a", "pause": true}]', "`pause` is a number"),
    ],
    ids=range(13),
)
def test_what_is_wrong_in_a_script_is_named(script: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_script(script)


def test_a_file_is_served_until_it_is_ended(tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [{"say": "first"}, {"say": "second"}]
    file = tmp_path / "script.json"
    file.write_text(json.dumps(script))
    command = [sys.executable, "-m", "reprise_server.agent.scripted", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            words = dict(pair.split("=", 1) for pair in server.stdout.readline().split())
            with anthropic.Anthropic(
                base_url=words["ANTHROPIC_BASE_URL"], api_key=words["ANTHROPIC_API_KEY"]
            ) as asking:
                one = asking.messages.create(**request(user("a")))
                two = asking.messages.create(**request(user("a"), assistant("b"), user("c")))
            assert [one.content[0].to_dict()["text"], two.content[0].to_dict()["text"]] == [
                "first",
                "second",
            ]
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(60) == 130


def test_a_file_that_is_not_there_is_wrong_use() -> None:
    command = [sys.executable, "-m", "reprise_server.agent.scripted", "/nowhere.json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr
