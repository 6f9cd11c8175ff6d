"""Steps beside cells: one order, one history, told only when recorded, and never run twice."""

from __future__ import annotations

import hashlib
import json
import signal
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fixtures.kernel import Kernel, Kernels, shown_text

BACKENDS = ("process", "bubblewrap")


@pytest.fixture(params=BACKENDS)
def kernel(request: pytest.FixtureRequest, kernels: Kernels) -> Kernel:
    return kernels(request.param)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_entry(path: str, data: bytes, mode: int = 0o644) -> list[Any]:
    return [path, "file", mode, len(data), sha256(data)]


# commands -----------------------------------------------------------------------------------------


def test_a_command_streams_and_says_how_it_ended(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    ran = client.shell("echo out; echo err >&2; exit 3")
    assert ran.text() == "out\n"
    assert ran.text("stderr") == "err\n"
    assert ran.status == "error"
    assert ran.reply["outcome"] == "error"
    result = ran.reply["result"]
    assert (result["exit_code"], result["signal"], result["timed_out"]) == (3, None, False)
    assert (result["stdout"]["bytes"], result["stdout"]["lines"]) == (4, 1)
    states = [h.content["execution_state"] for h in ran.heard if h.type == "status"]
    assert states == ["busy", "idle"]
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    last = recorded.steps[-1]
    assert (last.step.kind, last.step.seq) == ("command", ran.reply["seq"])
    assert last.step.digest.hex() == ran.reply["digest"]
    assert last.outcome is not None
    assert last.outcome.status == "error"
    assert last.outputs[-1].content["result"]["exit_code"] == 3


def test_words_variables_folder_and_input_reach_a_command(kernel: Kernel) -> None:
    client = kernel.client()
    code = "import os, sys; print(os.environ['A'], os.getcwd(), sys.argv[1:], sys.stdin.read())"
    client.prints("import os; os.makedirs('below')")
    ran = client.step(
        "command",
        {
            "argv": ["python3", "-c", code, "ä b", ""],
            "env": {"A": "é"},
            "cwd": "below",
            "stdin": "données",
        },
    )
    word, folder, rest = ran.text().split(" ", 2)
    assert (word, Path(folder).name) == ("é", "below")
    assert rest.strip() == "['ä b', ''] données"
    ran = client.step(
        "command",
        {"argv": ["cat"], "stdin": {"sha256": sha256(b"\xff\x00x")}},
        buffers=[b"\xff\x00x"],
    )
    assert ran.text() == "�\x00x"


def test_cells_and_commands_have_one_order(kernel: Kernel, kernels: Kernels) -> None:
    client, other = kernel.client(), kernel.client()
    asked = []
    for number in range(6):
        who = client if number % 2 else other
        code = f"open('order', 'a').write('{number}')"
        if number % 3:
            asked.append((who, who.send_step("command", {"shell": f"printf {number} >> order"})))
        else:
            asked.append((who, who.execute(code)))
    for who, msg_id in asked:
        who.finish(msg_id)
    written = client.prints("print(open('order').read())")
    steps = [r for r in kernels.read(kernel).steps if r.step.kind in ("cell", "command")]
    numbers = []
    for record in steps[:-1]:
        text = record.step.payload.get("shell") or record.step.payload["content"]["code"]
        numbers.append(next(c for c in text if c.isdigit()))
    assert written == "".join(numbers)
    assert sorted(numbers) == list("012345")


def test_files_are_shared_with_cells_at_once(kernel: Kernel) -> None:
    client = kernel.client()
    client.run("open('a', 'w').write('cell')")
    assert client.shell("cat a; printf command > b").text() == "cell"
    assert client.prints("print(open('b').read())") == "command"


def test_magic_commands_in_cells_work_as_in_ipython(kernel: Kernel) -> None:
    client = kernel.client()
    client.prints("import os; os.makedirs('down', exist_ok=True)")
    assert client.run("%%bash\necho from bash; echo x > made\n").text().strip() == "from bash"
    assert client.prints("!cat made") == "x"
    assert client.run("%cd down").text().strip().endswith("down")
    assert client.prints("print(os.path.basename(os.getcwd()))") == "down"


def test_a_step_is_not_aborted_behind_a_failing_cell(kernel: Kernel) -> None:
    client = kernel.client()
    failing = client.execute("import time; time.sleep(0.3); 1/0")
    command = client.send_step("command", {"shell": "echo still"})
    behind = client.execute("print('never')")
    assert client.finish(failing).status == "error"
    assert client.finish(command).text() == "still\n"
    assert client.finish(behind).status == "aborted"


def test_output_over_the_bound_is_cut_and_whole_in_a_file(kernel: Kernel) -> None:
    client = kernel.client()
    ran = client.step("command", {"shell": "seq 100000", "output_bytes": 1000})
    result = ran.reply["result"]["stdout"]
    assert result["cut"]
    assert len(ran.text()) <= 1000
    assert (result["lines"], result["bytes"]) == (100000, 588895)
    text = f"print(open({result['file']!r}).read().count(chr(10)))"
    assert client.prints(text) == "100000"
    lines = client.step("command", {"shell": "seq 100", "output_lines": 10})
    assert lines.text().splitlines() == [str(n) for n in range(1, 11)]
    assert lines.reply["result"]["stdout"]["cut"]


def test_a_time_limit_ends_a_command_and_its_children(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    text = "trap '' TERM; setsid sleep 1000 & echo $!; sleep 1000"
    ran = client.step("command", {"shell": text, "timeout_s": 0.5})
    assert ran.reply["outcome"] == "timeout"
    assert ran.reply["result"]["timed_out"]
    pid = ran.text().strip()
    assert client.prints(f"import os; print(os.path.exists('/proc/{pid}'))") == "False"
    assert kernels.read(kernel).statuses("command") == ["timeout"]


def test_an_interrupt_ends_a_command_and_no_replay_runs_it_again(
    kernel: Kernel, kernels: Kernels
) -> None:
    client = kernel.client()
    client.prints("x = 1")
    msg_id = client.send_step("command", {"shell": "touch was_here; echo begun; sleep 1000"})
    client.shows(msg_id, "begun")
    client.ask("interrupt_request", channel="control")
    ran = client.finish(msg_id)
    assert ran.reply["outcome"] == "interrupted"
    assert client.prints("import os; print(x, os.path.exists('was_here'))") == "1 True"
    kernel.kill("sandbox")
    client.notice("resumed")
    assert client.prints("print(x)") == "1"
    assert kernels.read(kernel).statuses("command") == ["interrupted"]


def test_a_death_in_a_command_rolls_it_back(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    client.prints("x = 41")
    msg_id = client.send_step("command", {"shell": "echo begun; sleep 1000"})
    client.shows(msg_id, "begun")
    kernel.kill("sandbox")
    ran = client.finish(msg_id)
    assert (ran.status, ran.reply["outcome"]) == ("error", "died")
    assert "rolled back" in ran.reply["evalue"]
    assert client.prints("print(x + 1)") == "42"
    assert kernels.read(kernel).statuses("command") == ["died"]


def test_a_background_command_is_listed_read_and_stopped(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    text = "echo first; while true; do echo tick; sleep 0.05; done"
    ran = client.step("command", {"shell": text, "background": True})
    assert ran.status == "ok"
    number = ran.reply["result"]["command"]
    assert number == ran.reply["seq"]

    def listed() -> list[dict[str, Any]]:
        found = client.ask("workspace_request", {"op": "commands"}, channel="control")
        return list(found["commands"])

    (found,) = listed()
    assert (found["command"], found["running"]) == (number, True)
    read = f"import time\nwhile 'tick' not in open({found['stdout']!r}).read(): time.sleep(0.01)"
    client.prints(read)
    stopped = client.step("command", {"stop": number})
    assert stopped.status == "ok"
    assert stopped.reply["result"]["signal"] in (signal.SIGTERM, None)
    assert [each["running"] for each in listed()] == [False]
    again = client.step("command", {"stop": 999})
    assert again.reply["ename"] == "NoSuchCommand"


def test_a_restart_ends_background_commands(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    ran = client.step("command", {"shell": "echo $$; exec sleep 1000", "background": True})
    number = ran.reply["result"]["command"]
    path = f".reprise/commands/{number}/stdout"
    pid = client.prints(
        f"import time\nwhile not open({path!r}).read().strip(): time.sleep(0.01)\n"
        f"print(open({path!r}).read())"
    )
    kernel.shutdown(restart=True)
    again = kernels.again(kernel)
    client = again.client()
    if kernel.backend == "process":
        with suppress(psutil.NoSuchProcess):  # or ended, and not reaped by init yet
            assert psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    found = client.ask("workspace_request", {"op": "commands"}, channel="control")
    assert found["commands"] == []


# uploads and mounts ---------------------------------------------------------------------------------


def test_an_upload_comes_in_with_its_modes(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    script, binary = b"#!/bin/sh\necho ran $1\n", bytes(range(256)) * 300
    name = "d/ungültig-\udcff.bin"
    entries = [
        ["d", "dir", 0o755, 0, None],
        file_entry("d/run.sh", script, 0o755),
        file_entry(name, binary, 0o600),
        ["d/link", "link", 0o777, 0, "run.sh"],
    ]
    ran = client.step("upload", {"entries": entries}, buffers=[script, binary])
    assert ran.status == "ok", ran.reply
    assert ran.reply["result"] == {"files": 2, "bytes": len(script) + len(binary)}
    assert client.shell("./d/link x").text() == "ran x\n"
    code = (
        "import hashlib, os\n"
        "path = os.fsdecode(b'd/ung\\xc3\\xbcltig-\\xff.bin')\n"
        "print(hashlib.sha256(open(path, 'rb').read()).hexdigest(), oct(os.stat(path).st_mode))"
    )
    assert client.prints(code) == f"{sha256(binary)} 0o100600"
    removed = client.step("upload", {"removed": ["d/link"]})
    assert removed.status == "ok"
    assert client.shell("ls d").text() == f"run.sh\n{'ungültig-�.bin'}\n"
    # The folder's own uploads must not take it for a file that the folder has lost.
    client.run("1")
    assert client.shell("test -x d/run.sh").status == "ok"


def test_an_upload_that_cannot_come_in_changes_nothing(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    environment = limited("narrow", workspace=4 << 20)
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=environment)
    client = kernel.client()
    client.prints("open('mine', 'w').write('mine')")
    look = "find . -path ./.reprise -prune -o -print | sort; cat mine"
    before = client.shell(look).text()
    large = bytes(3 << 20)
    entries = [file_entry("mine", b"new"), file_entry("a", large), file_entry("b", large + b"1")]
    ran = client.step("upload", {"entries": entries}, buffers=[b"new", large, large + b"1"])
    assert ran.status == "error"
    assert "space" in ran.reply["evalue"]
    assert client.shell(look).text() == before
    kernel.kill("sandbox")
    client.notice("resumed")
    assert client.shell(look).text() == before
    assert kernels.read(kernel).statuses("upload")[-1] == "error"
    # Room for two of the three is there: what failed left nothing behind.
    fits = client.step("upload", {"entries": entries[:2]}, buffers=[b"new", large])
    assert fits.status == "ok", fits.reply


def test_a_mounted_tree_is_there_read_only_and_runs(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    script, about = b"#!/bin/sh\necho skill $1\n", b"# A skill\n"
    entries = [
        file_entry("SKILL.md", about),
        ["scripts", "dir", 0o755, 0, None],
        file_entry("scripts/go", script, 0o755),
    ]
    payload = {"target": "/skills/tried", "entries": entries}
    ran = client.step("mount", payload, buffers=[script, about])
    assert ran.status == "ok", ran.reply
    path = ran.reply["result"]["path"]
    if kernel.backend == "bubblewrap":
        assert path == "/skills/tried"
        assert client.shell(f"echo x > {path}/SKILL.md").status == "error"
        assert client.shell(f"rm {path}/SKILL.md").status == "error"
    assert client.shell(f"{path}/scripts/go now").text() == "skill now\n"
    tree = ran.reply["result"]["tree"]
    # A second time by its name alone.
    again = client.step("mount", {"target": "/skills/again", "tree": tree})
    assert again.status == "ok", again.reply
    kernel.kill("sandbox")
    client.notice("resumed")
    assert client.shell(f"{again.reply['result']['path']}/scripts/go back").text() == "skill back\n"
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert [r.step.payload["tree"] for r in recorded.steps if r.step.kind == "mount"] == [tree] * 2


def test_what_was_mounted_before_a_restart_is_there_after_it(
    kernel: Kernel, kernels: Kernels
) -> None:
    client = kernel.client()
    data = b"mounted"
    payload = {"target": "/mnt/data", "entries": [file_entry("a", data)]}
    path = client.step("mount", payload, buffers=[data]).reply["result"]["path"]
    client.prints("open('mine', 'w').write('kept')")
    kernel.shutdown(restart=True)
    again = kernels.again(kernel)
    assert again.client().shell(f"cat {path}/a mine").text() == "mountedkept"
    kinds = [(r.step.kind, r.step.payload.get("tree")) for r in kernels.read(again).steps]
    assert any(kind == "restart" and tree for kind, tree in kinds)


# cells by request, keys, actors ---------------------------------------------------------------------


def test_a_cell_asked_for_as_a_step_is_a_cell(kernel: Kernel, kernels: Kernels) -> None:
    client, other = kernel.client(), kernel.client()
    ran = client.step("cell", {"code": "print('hello'); 6 * 7", "cell_id": "abc"})
    assert (ran.status, ran.text(), ran.value) == ("ok", "hello\n", "42")
    assert ran.reply["result"]["execution_count"] == 1
    # Whoever looks at the notebook sees it run.
    other.wait(lambda h: h.type == "execute_input" and h.content["code"].startswith("print"))
    failed = client.step("cell", {"code": "1/0", "stop_on_error": False})
    assert (failed.status, failed.reply["ename"]) == ("error", "ZeroDivisionError")
    record = kernels.read(kernel).cells[0]
    assert record.step.payload["metadata"] == {"cellId": "abc"}
    kernel.kill("sandbox")
    client.notice("resumed")
    assert client.run("_").value == "42"


def count_twice(kernel: Kernel, kernels: Kernels, key: str) -> tuple[Mapping[str, Any], str]:
    client = kernel.client()
    ran = client.step("command", {"shell": "echo x >> count; wc -l < count"}, key=key)
    return ran.reply, ran.text().strip()


def test_a_key_runs_once_whoever_repeats_it(kernel: Kernel, kernels: Kernels) -> None:
    key = uuid.uuid4().hex
    first, shown = count_twice(kernel, kernels, key)
    again, shown_again = count_twice(kernel, kernels, key)
    assert (shown, shown_again) == ("1", "1")
    assert again.pop("repeated") is True
    assert again == first
    kernel.kill("router")
    later = kernels.again(kernel)
    third, shown_third = count_twice(later, kernels, key)
    assert shown_third == "1"
    assert (third["seq"], third["result"]) == (first["seq"], first["result"])
    assert kernels.read(later).statuses("command") == ["ok"]
    refused = later.client().step("command", {"shell": "echo other"}, key=key)
    assert "belongs to step" in refused.reply["evalue"]
    cell = uuid.uuid4().hex
    one = later.client().step("cell", {"code": "n = 1; n"}, key=cell)
    two = later.client().step("cell", {"code": "n = 1; n"}, key=cell)
    assert (one.value, two.value) == ("1", "1")
    assert (one.reply["seq"], two.reply["repeated"]) == (two.reply["seq"], True)
    assert one.reply["result"]["execution_count"] == two.reply["result"]["execution_count"]


def test_a_key_sent_twice_at_once_runs_once(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    payload = {"shell": "sleep 0.2; echo x >> once; wc -l < once"}
    sent = [client.send_step("command", payload, key="k") for _ in range(5)]
    ran = [client.finish(msg_id) for msg_id in sent]
    assert {each.text().strip() for each in ran} == {"1"}
    assert len({each.reply["seq"] for each in ran}) == 1
    assert [bool(each.reply.get("repeated")) for each in ran] == [False] + [True] * 4


def test_what_was_lost_is_not_run_again_by_its_key(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    msg_id = client.send_step("command", {"shell": "echo begun; sleep 1000"}, key="k")
    client.shows(msg_id, "begun")
    kernel.kill("router")
    again = kernels.again(kernel)
    ran = again.client().step("command", {"shell": "echo begun; sleep 1000"}, key="k")
    assert (ran.reply["outcome"], ran.reply["repeated"]) == ("lost", True)


def test_only_who_reads_the_kernels_file_acts_as_an_agent(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    actor = {"kind": "agent", "conversation": "c1", "turn": 3}
    payload = {"shell": "echo agent"}
    for token in (None, "", "0" * 64, 7):
        ran = client.step("command", payload, actor=actor, token=token)
        assert (ran.status, ran.text()) == ("error", "")
    ran = client.step("command", payload, actor=actor, token=kernel.agent_token)
    assert ran.text() == "agent\n"
    claimed = client.step("command", payload, actor={"kind": "system"})
    assert claimed.status == "error"
    (record,) = [r for r in kernels.read(kernel).steps if r.step.kind == "command"]
    made = record.step.new.actor
    assert (made.kind, made.conversation, made.turn) == ("agent", "c1", 3)


MALFORMED: list[tuple[str, Any]] = [
    ("restart", {}),
    ("dance", {}),
    ("command", []),
    ("command", {}),
    ("command", {"shell": ""}),
    ("command", {"shell": "a\0b"}),
    ("command", {"shell": "x", "argv": ["x"]}),
    ("command", {"argv": []}),
    ("command", {"argv": ["a", 1]}),
    ("command", {"shell": "x", "timeout_s": -1}),
    ("command", {"shell": "x", "timeout_s": True}),
    ("command", {"shell": "x", "output_bytes": -1}),
    ("command", {"shell": "x", "output_bytes": 10**15}),
    ("command", {"shell": "x", "env": {"A=B": "c"}}),
    ("command", {"shell": "x", "env": {"A": 1}}),
    ("command", {"shell": "x", "stdin": {"sha256": "0" * 64}}),
    ("command", {"shell": "x", "stdin": {"sha256": "../../x"}}),
    ("command", {"shell": "x", "background": "yes"}),
    ("command", {"shell": "x", "unheard": 1}),
    ("command", {"stop": "1"}),
    ("upload", {}),
    ("upload", {"entries": [["/etc/passwd", "file", 420, 1, "0" * 64]]}),
    ("upload", {"entries": [["../up", "file", 420, 1, "0" * 64]]}),
    ("upload", {"entries": [["a", "file", 420, 1, "0" * 64]]}),
    ("upload", {"entries": [["a", "file", 420, 1, None]]}),
    ("upload", {"entries": [["a", "device", 420, 0, None]]}),
    ("upload", {"entries": [["a", "dir", 420, 0, None], ["a", "dir", 420, 0, None]]}),
    ("upload", {"removed": ["../x"]}),
    ("mount", {"target": "/etc", "entries": []}),
    ("mount", {"target": "/skills/../etc", "entries": []}),
    ("mount", {"target": "/skills/x", "tree": "0" * 64}),
    ("mount", {"target": "/skills/x"}),
    ("cell", {}),
    ("cell", {"code": 1}),
    ("comm", {"msg_type": "execute_request", "content": {"code": "1"}}),
]


def test_a_malformed_request_is_told_and_is_no_step(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    client.run("1")
    for kind, payload in MALFORMED:
        content = {"kind": kind, "payload": payload}
        ran = client.finish(client.request("step_request", content))
        assert ran.status == "error", (kind, payload)
        assert ran.reply["evalue"], (kind, payload)
    for key in ("", "x" * 201, 7):
        assert client.step("command", {"shell": "true"}, key=key).status == "error"
    # A mount to a place that is none is refused by the sandbox, and recorded as failed.
    kinds = [r.step.kind for r in kernels.read(kernel).steps if r.step.kind != "mount"]
    assert [kind for kind in kinds if kind not in ("cell", "upload")] == []
    assert client.prints("print('alive')") == "alive"


def test_all_kinds_come_back_after_a_death_and_compare_same(
    kernel: Kernel, kernels: Kernels
) -> None:
    client = kernel.client()
    data = json.dumps([1, 2, 3]).encode()
    client.step("upload", {"entries": [file_entry("data.json", data)]}, buffers=[data])
    client.prints("import json; rows = json.load(open('data.json'))")
    client.shell("python3 -c 'print(sum(range(10)))' > total; cat total")
    client.step("cell", {"code": "total = int(open('total').read()); total"})
    kernel.kill("sandbox")
    client.notice("resumed")
    assert client.prints("print(rows, total)") == "[1, 2, 3] 45"
    recorded = kernels.read(kernel)
    assert not [n for n in recorded.notices if n.code in ("divergence", "not-replayed")]
    commands = [r for r in recorded.steps if r.step.kind == "command"]
    assert [shown_text(record) for record in commands] == ["45\n"]
