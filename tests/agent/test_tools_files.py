"""Files are read as they are, and written only over what the conversation has seen."""

from __future__ import annotations

import pytest

from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall
from tests.agent.test_tools_images import png
from tests.fixtures.place import ToolBench, text_of


async def shell(bench: ToolBench, command: str) -> str:
    """As the person would do it beside the agent."""
    kernel = await bench.place.kernel()
    return (await kernel.command(command, check=True)).stdout


async def test_a_file_is_shown_with_line_numbers_and_in_parts(bench: ToolBench) -> None:
    await shell(bench, "seq 1000 | sed 's/^/row /' > rows.txt; printf 'a\\r\\nb' > crlf.txt")
    text = text_of(await bench.do("read_file", path="rows.txt"))
    assert text.startswith("rows.txt: 1,000 lines\n")
    assert "\n   7\trow 7\n" in text
    assert text.endswith("1000\trow 1000\n")
    text = text_of(await bench.do("read_file", path="/workspace/rows.txt", start_line=998, lines=2))
    assert text == (
        "rows.txt: 1,000 lines, here 998 to 999; go on with start_line=1000\n"
        " 998\trow 998\n 999\trow 999\n"
    )
    assert (
        text_of(await bench.do("read_file", path="crlf.txt")) == "crlf.txt: 2 lines\n1\ta\n2\tb\n"
    )


async def test_a_result_stays_within_its_bound(bench: ToolBench) -> None:
    await shell(
        bench,
        "seq 90000 > long.txt; head -c 3000000 /dev/zero | tr '\\0' x > wide.txt; : > empty;"
        " printf '\\033[2J\\342\\200\\256x' > ugly",
    )
    text = text_of(await bench.do("read_file", path="long.txt"))
    assert len(text) <= RESULT_CHARACTERS
    last = int(text.rstrip().rpartition("\t")[2])
    assert f"90,000 lines, here 1 to {last:,}; go on with start_line={last + 1}" in text
    text = text_of(await bench.do("read_file", path="wide.txt"))
    assert "[… 2,998,000 more characters]" in text
    assert text_of(await bench.do("read_file", path="empty")) == "empty is empty.\n"
    assert text_of(await bench.do("read_file", path="ugly")) == "ugly: 1 line\n1\t␛[2J�x\n"
    with pytest.raises(BadCall, match="has 1 line; there is no line 2"):
        await bench.do("read_file", path="ugly", start_line=2)


async def test_an_image_is_seen_and_other_bytes_are_told(bench: ToolBench) -> None:
    kernel = await bench.place.kernel()
    await kernel.upload(png(), "plot.png")
    await kernel.upload(b"\0\1\2", "data.bin")
    await kernel.upload(png()[:40], "cut.png")
    result = await bench.do("read_file", path="plot.png")
    assert [block["type"] for block in result.content] == ["text", "image"]
    assert "3×2 pixels" in text_of(result)
    assert "is no text: 3 bytes, sha256 ae4b3280" in text_of(
        await bench.do("read_file", path="data.bin")
    )
    assert "damaged" in text_of(await bench.do("read_file", path="cut.png"))


async def test_what_cannot_be_read_is_told_with_a_way(bench: ToolBench) -> None:
    await shell(
        bench,
        "mkdir -p folder; echo x > folder/rentals.csv; ln -sf /etc/passwd out; ln -sf gone dead;"
        " ln -sf folder/rentals.csv in; truncate -s 9M large.bin",
    )
    for path, said in (
        ("rentals.csv", "Near it: folder/rentals.csv"),
        ("folder", "is a folder. list_files"),
        ("out", "is a link to '/etc/passwd', which leads to no file within"),
        ("dead", "is a link to 'gone'"),
        ("large.bin", "larger than the 8 MiB"),
        ("", "the workspace itself"),
        ("/etc/passwd", "outside of the workspace"),
    ):
        with pytest.raises(BadCall, match=said.replace(".", r"\.")):
            await bench.do("read_file", path=path)
    # A link within is followed.
    assert text_of(await bench.do("read_file", path="in")).endswith("1\tx\n")


async def test_a_new_file_is_one_step_and_can_be_edited_at_once(bench: ToolBench) -> None:
    result = await bench.do("write_file", path="src/new/a.py", content="one\ntwo\n")
    (seq,) = result.steps
    key = f"{bench.conversation}:toolu_{bench.numbers}"
    (record,) = await bench.place.of_call(key)
    assert (record.step.seq, record.step.kind) == (seq, "upload")
    assert record.step.new.actor.conversation == bench.conversation
    assert "A new file of 2 lines, 8 bytes." in text_of(result)
    edits = [{"old": "one", "new": "1"}, {"old": "two\n", "new": "2\n3\n"}]
    result = await bench.do("write_file", path="src/new/a.py", edits=edits)
    assert "-one\n-two\n+1\n+2\n+3\n" in text_of(result)
    assert await shell(bench, "cat src/new/a.py") == "1\n2\n3\n"


async def test_a_file_is_not_written_over_what_was_not_seen(bench: ToolBench) -> None:
    await shell(bench, "seq 3000 > seen.txt; chmod 755 seen.txt")
    with pytest.raises(BadCall, match="has not read it"):
        await bench.act("write_file", path="seen.txt", content="x")
    await bench.do("read_file", path="seen.txt", lines=10)
    with pytest.raises(BadCall, match="Only a part"):
        await bench.act("write_file", path="seen.txt", content="x")
    # A piece can be replaced all the same.
    await bench.do("write_file", path="seen.txt", edits=[{"old": "2999\n", "new": "end\n"}])
    assert await shell(bench, "tail -n 2 seen.txt; stat -c %a seen.txt") == "end\n3000\n755\n"
    await bench.do("write_file", path="seen.txt", content="all\n")
    act = await bench.act("write_file", path="seen.txt", content="again\n")
    # Somebody changes it after it was allowed.
    await shell(bench, "echo theirs > seen.txt")
    given = {"path": "seen.txt", "content": "again\n"}
    before = await bench.place.quiet()
    with pytest.raises(BadCall, match="has changed since it was read"):
        await bench.tool("write_file").run(bench.call(given), act)
    assert await bench.place.quiet() == before
    assert await shell(bench, "cat seen.txt") == "theirs\n"
    await bench.do("read_file", path="seen.txt")
    await bench.do("write_file", path="seen.txt", content="again\n")
    assert await shell(bench, "cat seen.txt") == "again\n"


async def test_a_running_cell_is_waited_for_before_a_file_is_compared(bench: ToolBench) -> None:
    await bench.do("write_file", path="raced.txt", content="mine\n")
    act = await bench.act("write_file", path="raced.txt", content="mine again\n")
    kernel = await bench.place.kernel()
    running = kernel.stream(
        "import time, pathlib; print('on', flush=True); time.sleep(1)\n"
        "pathlib.Path('raced.txt').write_text('theirs\\n')"
    )
    async for output in running:
        if "on" in output.text:
            break
    given = {"path": "raced.txt", "content": "mine again\n"}
    with pytest.raises(BadCall, match="has changed since it was read"):
        await bench.tool("write_file").run(bench.call(given), act)
    await running
    assert await shell(bench, "cat raced.txt") == "theirs\n"


async def test_an_edit_that_does_not_fit_says_what_does(bench: ToolBench) -> None:
    await shell(bench, "mkdir -p d; ln -sf e.py e.link; ln -sf /tmp/x e.out; ln -sfn d e.dir")
    await bench.do("write_file", path="e.py", content="def total(x):\n    return x\n\n# x\n# x\n")
    for edits, said in (
        ([{"old": "def totl(x):", "new": "y"}], r"stands here .*\n1\tdef total\(x\):"),
        ([{"old": "zzzzzzzz", "new": "y"}], "Nothing like it does"),
        ([{"old": "# x", "new": "y"}], r"stands 2 times in 'e.py' \(lines 4, 5\)"),
        ([{"old": "x", "new": "x"}], "replaces a text by itself"),
        ([{"old": "", "new": "x"}], "is empty"),
        ([], "has 0 replacements"),
        (
            [{"old": "# x\n# x", "new": "y"}, {"old": "# x", "new": "z"}],
            r"edits\[1\].old` does not stand in 'e.py' after the edits before it",
        ),
    ):
        with pytest.raises(BadCall, match=said):
            await bench.act("write_file", path="e.py", edits=edits)
    await bench.do("write_file", path="e.py", edits=[{"old": "# x", "new": "# y", "all": True}])
    assert (await shell(bench, "tail -n 2 e.py")) == "# y\n# y\n"
    for given, said in (
        ({"path": "e.py"}, "either `content`"),
        ({"path": "e.py", "content": "a", "edits": []}, "either `content`"),
        ({"path": "new", "content": "a\0"}, "NUL"),
        ({"path": "e.py/below", "content": "a"}, "is a file, so nothing is written below"),
        ({"path": "e.link", "content": "a"}, "is a link. Write the file"),
        ({"path": "e.out", "content": "a"}, "cannot be written"),
        ({"path": "e.dir/x", "content": "a"}, "is a link, so nothing is written below"),
        ({"path": ".reprise/x", "content": "a"}, "Reprise's own folder"),
        ({"path": "", "content": "a"}, "name a file in it"),
        ({"path": "nothing.py", "edits": [{"old": "a", "new": "b"}]}, "There is no file"),
    ):
        with pytest.raises(BadCall, match=said):
            await bench.act("write_file", **given)


async def test_line_breaks_stay_as_they_were(bench: ToolBench) -> None:
    kernel = await bench.place.kernel()
    await kernel.upload(b"\xef\xbb\xbfa\r\nb\r\nc\r\n", "dos.txt")
    await bench.do("read_file", path="dos.txt")
    await bench.do("write_file", path="dos.txt", edits=[{"old": "a\nb\n", "new": "x\ny\n"}])
    assert await kernel.read("dos.txt") == b"\xef\xbb\xbfx\r\ny\r\nc\r\n"


async def test_the_notebook_itself_is_no_file_to_write(bench: ToolBench) -> None:
    bench.within(notebook="work/analysis.ipynb")
    with pytest.raises(BadCall, match="edit_notebook"):
        await bench.act("write_file", path="analysis.ipynb", content="{}")
    await bench.act("write_file", path="other.ipynb", content="{}")


async def test_what_lies_there_is_listed_and_deep_folders_counted(bench: ToolBench) -> None:
    await shell(
        bench,
        "mkdir -p list/deep/a list/deep/b list/one; for n in $(seq 200); do echo x > list/deep/a/$n;"
        " echo x > list/deep/b/$n; done; echo abc > list/one/t.csv; ln -s t.csv list/one/link",
    )
    text = text_of(await bench.do("list_files", path="list"))
    assert text.startswith("401 files, ")
    assert "\nlist/deep/a/  (200 files, 400 bytes)\n" in text
    assert "\nlist/one/t.csv  4 bytes\n" in text
    assert "\nlist/one/link -> t.csv\n" in text
    assert "list/deep/a/7" not in text
    text = text_of(await bench.do("list_files", path="", pattern="list/**/7"))
    assert text == "Files that fit: 2\nlist/deep/a/7  2 bytes\nlist/deep/b/7  2 bytes\n"
    assert ".reprise" not in text_of(await bench.do("list_files", path=""))
    with pytest.raises(
        BadCall, match=r"There is no folder 'lists' in the workspace\. Near it: list"
    ):
        await bench.do("list_files", path="lists")
    with pytest.raises(BadCall, match="is a file, not a folder"):
        await bench.do("list_files", path="list/one/t.csv")


async def test_what_a_person_named_untrusted_taints(bench: ToolBench) -> None:
    await shell(bench, "mkdir -p inbox; echo hi > inbox/mail.txt; echo hi > own.txt")
    bench.within(untrusted_paths=("inbox",))
    assert (await bench.do("read_file", path="inbox/mail.txt")).taints == (
        ("named", "inbox/mail.txt"),
    )
    assert (await bench.do("read_file", path="own.txt")).taints == ()
    assert ("named", "inbox/mail.txt") in (await bench.do("search_files", pattern="hi")).taints


async def test_a_large_result_lies_in_a_file_of_its_own(bench: ToolBench) -> None:
    result = await bench.do("run_command", command="seq 9000; echo end")
    text = text_of(result)
    assert len(text) <= RESULT_CHARACTERS
    path = f".reprise/results/toolu_{bench.numbers}.txt"
    assert f"All of it is in the file {path}" in text
    assert text.endswith("9000\nend\n")
    assert len(result.steps) == 2
    key = f"{bench.conversation}:toolu_{bench.numbers}"
    assert [each.step.kind for each in await bench.place.of_call(key)] == ["command", "upload"]
    assert await shell(bench, f"tail -n 2 {path}") == "9000\nend\n"
    text = text_of(await bench.do("read_file", path=path, start_line=5_000, lines=1))
    assert "5000\t5000\n" in text
    assert f"{path}:5000: 5000" in text_of(
        await bench.do("search_files", pattern="^5000$", files=".reprise/results/*")
    )


async def test_of_what_a_step_does_not_keep_both_ends_are_shown(bench: ToolBench) -> None:
    result = await bench.do("run_command", command="seq 90000; seq 7 >&2; printf 'end\\033[0m'")
    text = text_of(result)
    (seq,) = result.steps
    assert len(text) <= RESULT_CHARACTERS
    assert "[stdout]\n1\n2\n" in text
    file = f".reprise/commands/{seq}/stdout"
    assert f"bytes in 90,000 lines; all of it is in the file {file} …]" in text
    assert "\n90000\nend\n[stderr]\n1\n2\n" in text
    assert "70000\t70000\n" in text_of(
        await bench.do("read_file", path=file, start_line=70_000, lines=1)
    )


async def test_a_name_of_a_call_makes_no_path(bench: ToolBench) -> None:
    given = {"command": "seq 9000"}
    act = await bench.act("run_command", **given)
    result = await bench.tool("run_command").run(bench.call(given, id_="../../x"), act)
    assert ".reprise/results/../" not in text_of(result)
    assert result.status == "ok"
    assert len(result.steps) == 2
