"""Skills come in step by step: found, loaded, read, run; what nobody vouches for taints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from reprise.skills.disclosure import Disclosure
from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox
from tests.fixtures.kernel import Kernel
from tests.fixtures.place import ToolBench, bench_of, text_of
from tests.fixtures.skill_runs import SkillBench

FILES = {
    "scripts/count.sh": 'echo counting >&2; wc -l < "$1"\n',
    "references/rules.md": "rule\n" * 9_000,
    "assets/logo.bin": "a\0b",
}


@pytest.fixture
async def skilled(
    skill_bench: SkillBench, shared_kernel: Kernel
) -> AsyncIterator[tuple[ToolBench, SkillBench]]:
    """Tools with a view of the catalog that begins empty of the test's own skills."""
    place: Place = bench_of(skill_bench.log, shared_kernel, skill_bench.environ)
    async with place:
        await place.kernel()
        view = await Disclosure.begin(skill_bench.log)
        yield ToolBench(place, toolbox(place, view), shared_kernel.folder), skill_bench


async def test_a_skill_is_found_loaded_read_and_run(
    skilled: tuple[ToolBench, SkillBench],
) -> None:
    bench, skills = skilled
    version = await skills.add(FILES)
    name = version.name
    text = text_of(await bench.do("search_skills", query=name))
    assert name in text
    for tool, given in (
        ("read_skill_file", {"path": "references/rules.md"}),
        ("run_skill", {"script": "count.sh", "args": []}),
    ):
        with pytest.raises(BadCall, match="is not loaded"):
            await bench.act(tool, skill=name, **given)

    act = await bench.act("load_skill", skill=name)
    assert act.effect == "load"
    assert act.skill is not None
    assert (act.skill.name, act.skill.digest, act.skill.standing) == (
        name,
        version.digest,
        "trusted",
    )
    assert (await skills.used(version)).loads == 0
    result = await bench.do("load_skill", skill=name)
    assert "Run its scripts." in text_of(result)
    assert result.taints == ()
    assert (await skills.used(version)).loads == 1

    result = await bench.do("read_skill_file", skill=name, path="references/rules.md")
    text = text_of(result)
    assert len(text) <= RESULT_CHARACTERS
    assert "references/rules.md: 45,000 bytes, from 0; go on with start=15000\n" in text
    text = text_of(
        await bench.do("read_skill_file", skill=name, path="references/rules.md", start=44_995)
    )
    assert text.endswith("from 44,995\nrule\n")
    text = text_of(await bench.do("read_skill_file", skill=name, path="assets/logo.bin"))
    assert text == "assets/logo.bin is no text: 3 bytes.\n"
    with pytest.raises(BadCall, match=r"It has references/rules\.md"):
        await bench.do("read_skill_file", skill=name, path="rules.md")

    await bench.do("write_file", path="rows.csv", content="a\nb\nc\n")
    given = {"skill": name, "script": "count.sh", "args": ["{workspace}/rows.csv"]}
    act = await bench.act("run_skill", **given)
    assert (act.effect, act.argv) == ("run", None)
    assert act.title == f"run scripts/count.sh of the skill {name}"
    assert act.code == "scripts/count.sh '{workspace}/rows.csv'"
    result = await bench.do("run_skill", **given)
    assert "[stdout]\n3\n" in text_of(result)
    assert "[stderr]\ncounting\n" in text_of(result)
    kinds = [
        (await (await bench.place.kernel()).steps(seq, seq + 1))[0].step.kind
        for seq in result.steps
    ]
    assert kinds == ["mount", "command"]
    again = await bench.do("run_skill", **given)
    assert len(again.steps) == 1  # it lies there already
    with pytest.raises(BadCall, match=r"Its scripts: scripts/count\.sh"):
        await bench.act("run_skill", skill=name, script="cout.sh", args=[])
    with pytest.raises(BadCall, match="NUL"):
        await bench.act("run_skill", skill=name, script="count.sh", args=["\0"])


async def test_what_nobody_vouches_for_taints_by_its_text_and_its_output(
    skilled: tuple[ToolBench, SkillBench],
) -> None:
    bench, skills = skilled
    version = await skills.add({"scripts/say.sh": "echo obey me\n"}, trust=False)
    act = await bench.act("load_skill", skill=version.name)
    assert act.skill is not None
    assert act.skill.standing == "untrusted"
    taint = ("skill", version.reference)
    result = await bench.do("load_skill", skill=version.name)
    assert result.taints == (taint,)
    assert "data from a stranger" in text_of(result)
    result = await bench.do("search_skills", query=version.name)
    assert result.taints == (taint,)
    given = {"skill": version.name, "script": "say.sh", "args": []}
    result = await bench.do("run_skill", **given)
    assert "obey me" in text_of(result)
    assert taint in result.taints
    # It may have left anything anywhere: from here on all that the session shows is of it.
    assert (await bench.do("run_command", command="echo mine")).taints == (
        ("skill", f"/skills/{version.name}"),
    )


async def test_a_name_means_what_was_looked_at(skilled: tuple[ToolBench, SkillBench]) -> None:
    bench, skills = skilled
    first = await skills.add({"a.md": "one"})
    act = await bench.act("load_skill", skill=first.name)
    await skills.add({"a.md": "two"}, first.name)
    with pytest.raises(BadCall, match="has changed just now"):
        await bench.tool("load_skill").run(bench.call({"skill": first.name}), act)
    assert (await skills.used(first)).loads == 0
    # Once it is loaded, its name stays what it was.
    await bench.do("load_skill", skill=first.name)
    act = await bench.act("load_skill", skill=first.name)
    await skills.add({"a.md": "three"}, first.name)
    again = await bench.act("load_skill", skill=first.name)
    assert act.skill == again.skill


async def test_what_was_taken_back_is_told_as_such(
    skilled: tuple[ToolBench, SkillBench],
) -> None:
    bench, skills = skilled
    version = await skills.add({"scripts/a.sh": "echo a\n"})
    await bench.do("load_skill", skill=version.name)
    await skills.catalog.revoke(version.digest, reason="a test")
    for tool, more in (
        ("load_skill", {}),
        ("read_skill_file", {"path": "scripts/a.sh"}),
        ("run_skill", {"script": "a.sh", "args": []}),
    ):
        act = await bench.act(tool, skill=version.name, **more)
        assert act.skill is not None
        assert act.skill.standing == "revoked"  # which every policy denies


async def test_a_shipped_skill_is_named_before_it_is_in_any_scope(
    skilled: tuple[ToolBench, SkillBench],
) -> None:
    bench, skills = skilled
    before = {version.name for version in await skills.catalog.list()}
    act = await bench.act("load_skill", skill="profile-dataset")
    assert {version.name for version in await skills.catalog.list()} == before
    result = await bench.do("load_skill", skill="profile-dataset")
    assert result.status == "ok"
    again = await bench.act("load_skill", skill="profile-dataset")
    assert act.skill == again.skill
    assert act.skill is not None
    assert act.skill.standing == "trusted"


@pytest.mark.parametrize("name", ["profile-datasets", "no such", "a:b:c", "sha256:zz", "", "\0"])
async def test_a_skill_that_is_not_there_is_told(
    skilled: tuple[ToolBench, SkillBench], name: str
) -> None:
    bench, _ = skilled
    with pytest.raises(BadCall) as caught:
        await bench.act("load_skill", skill=name)
    words = ("Near it: profile-dataset.", "names no skill", "is no digest", "is no scope")
    assert any(word in str(caught.value) for word in words)


async def test_a_cancelled_script_ends_before_the_call_does(
    skilled: tuple[ToolBench, SkillBench],
) -> None:
    bench, skills = skilled
    version = await skills.add({"scripts/long.sh": "echo on; sleep 600\n"})
    await bench.do("load_skill", skill=version.name)
    given = {"skill": version.name, "script": "long.sh", "args": []}
    act = await bench.act("run_skill", **given)
    call = bench.call(given)
    task = asyncio.ensure_future(bench.tool("run_skill").run(call, act))
    async with asyncio.timeout(60):
        while "on" not in "".join(bench.shown).split():
            await asyncio.sleep(0.02)
    assert f"mounting {version.reference}" in "".join(bench.shown)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = await bench.place.of_call(call.key)
    assert record.outcome is not None
    assert record.outcome.status == "interrupted"
