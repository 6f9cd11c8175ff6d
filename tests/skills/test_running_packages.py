"""What a script needs of packages comes into the session where that can be, and is named where not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reprise.client import AsyncKernel, DependenciesMissing, ProgramMissing, Progress
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_runs import SkillBench
from tests.fixtures.wheels import Index, wheel

#: Installed beside the tests, so there in every session of theirs.
HERE = "traitlets"


def needing(*dependencies: str, python: str = ">=3.9", code: str = "") -> str:
    """A script that needs these, imports the first word of each and says which version came."""
    names = [each.partition(">")[0].partition("<")[0].partition("[")[0] for each in dependencies]
    said = "".join(
        f"import {name}\nprint({name!r}, {name}.VERSION, {name}.__file__)\n" for name in names
    )
    return (
        "#!/usr/bin/env -S uv run --script\n# /// script\n"
        f"# requires-python = {python!r}\n# dependencies = {json.dumps(list(dependencies))}\n# ///\n"
        f"{code or said}"
    )


def environment(home: Path, name: str, **network: object) -> str:
    folder = home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"network": network}))
    return name


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "leaftool", "1.5")
    wheel(folder, "leaftool", "2.5", requires=["sprout"])
    wheel(folder, "sprout", "1.0")
    # What cannot live beside the packages that the session has.
    wheel(folder, HERE, "0.5")
    wheel(folder, "oldfriend", "1.0", requires=[f"{HERE}<1"])
    return folder


@pytest.fixture
def index(wheels: Path, serve_index: Callable[[Path], Index]) -> Index:
    return serve_index(wheels)


def reaching(bench: SkillBench, index: Index, **network: object) -> Mapping[str, str]:
    """What a client is given so that sessions reach that index and no other place."""
    home = Path(bench.environ["REPRISE_HOME"])
    port = index.url.rpartition(":")[2].partition("/")[0]
    return {
        "REPRISE_ENVIRONMENT": environment(home, f"i-{port}", allow=["package-index"], **network),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index.url,
        "PIP_TRUSTED_HOST": "127.0.0.1",
        "PIP_FIND_LINKS": "",
        "PIP_NO_INDEX": "",
        "UV_DEFAULT_INDEX": index.url,
        "UV_NO_CONFIG": "1",
    }


async def kinds(kernel: AsyncKernel) -> list[str]:
    return [each.step.kind for each in await kernel.steps() if each.step.kind != "upload"]


async def test_what_is_missing_is_installed_once_and_replays(
    skill_bench: SkillBench, index: Index, tmp_path: Path
) -> None:
    version = await skill_bench.add({"scripts/a.py": needing("leaftool>=2")})
    env = reaching(skill_bench, index, record=True)
    kernel = await skill_bench.client(env=env)
    heard: list[Progress] = []
    ran = await kernel.run_skill(version.name, "a.py", on_progress=heard.append, check=True)
    assert ran.stdout.startswith("leaftool 2.5 ")
    assert ".reprise/venv/" in ran.stdout
    assert ran.installed == ("leaftool>=2",)
    assert [each.kind for each in heard] == ["mount", "install", "run"]
    again = await kernel.run_skill(version.name, "a.py", check=True)
    assert (again.stdout, again.installed) == (ran.stdout, ())
    assert await kinds(kernel) == ["mount", "command", "command", "command"]
    # It belongs to the session: cells have it, too, and so has the next sandbox.
    assert (await kernel.run("import leaftool, sprout; leaftool.VERSION")).value == "'2.5'"
    assert (
        await kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ).status == "died"
    asked = len(index.asked)
    assert (await kernel.run("leaftool.VERSION")).value == "'2.5'"
    assert (await kernel.run_skill(version.name, "a.py", check=True)).installed == ()
    session = kernel.session
    await kernel.close()
    reprise = Reprise(tmp_path / "home", {**skill_bench.environ, **env})
    verified = reprise("verify", str(session), "--json", cwd=skill_bench.folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert len(index.asked) == asked  # from the record, as the environment says


async def test_nothing_that_the_session_has_is_changed(
    skill_bench: SkillBench, index: Index
) -> None:
    files = {
        # Its dependency wants another version of what is here, so it cannot live beside that.
        "scripts/deep.py": needing(
            "oldfriend", code=f"import oldfriend, {HERE}\nprint({HERE}.VERSION)\n"
        ),
        # It wants another version of what is here itself.
        "scripts/flat.py": needing(f"{HERE}<1", "leaftool>=1"),
    }
    version = await skill_bench.add(files)
    kernel = await skill_bench.client(env=reaching(skill_bench, index))
    before = await kernel.run(f"import {HERE}; {HERE}.__version__")
    assert before.ok
    heard: list[Progress] = []
    ran = await kernel.run_skill(version.name, "deep.py", on_progress=heard.append, check=True)
    assert ran.stdout == "0.5\n"
    assert "for this script alone" in [e.text for e in heard if e.kind == "install"][-1]
    ran = await kernel.run_skill(version.name, "flat.py", check=True)
    assert f"{HERE} 0.5" in ran.stdout
    assert "leaftool 2.5" in ran.stdout
    assert ".reprise/packages/" in ran.stdout
    steps = len(await kernel.steps())
    for name in ("deep.py", "flat.py"):  # installed once
        assert (await kernel.run_skill(version.name, name, check=True)).installed == ()
    assert len(await kernel.steps()) == steps + 2
    await kernel.restart()
    assert (await kernel.run(f"import {HERE}; {HERE}.__version__")).value == before.value
    assert not (await kernel.run("import leaftool")).ok


async def test_without_a_way_in_what_is_missing_is_named_with_two_ways_to_have_it(
    skill_bench: SkillBench,
) -> None:
    needs = needing("no-such-thing>=3", f"{HERE}>=99", "packaging", "other; python_version < '3'")
    version = await skill_bench.add({"scripts/a.py": needs})
    kernel = await skill_bench.client()
    with pytest.raises(DependenciesMissing) as raised:
        await kernel.run_skill(version.name, "a.py")
    said = str(raised.value)
    assert raised.value.requirements == ("no-such-thing>=3", f"{HERE}>=99")
    assert f"scripts/a.py needs no-such-thing>=3 and {HERE}>=99 (" in said
    assert "is there), which this session does not have" in said
    assert "reprise env allow package-index --environment default" in said
    assert "reprise env create NAME --requirements FILE" in said
    assert f"\n  no-such-thing>=3\n  {HERE}>=99" in said
    assert await kinds(kernel) == ["mount"]  # nothing was tried


async def test_a_way_that_is_there_may_be_forbidden(skill_bench: SkillBench, index: Index) -> None:
    version = await skill_bench.add({"scripts/a.py": needing("leaftool")})
    kernel = await skill_bench.client(env=reaching(skill_bench, index))
    with pytest.raises(DependenciesMissing, match="nothing was to be installed"):
        await kernel.run_skill(version.name, "a.py", install=False)
    assert index.asked == []


async def test_what_the_index_does_not_have_is_told_in_its_words(
    skill_bench: SkillBench, index: Index
) -> None:
    version = await skill_bench.add({"scripts/a.py": needing("leaftool>=9")})
    kernel = await skill_bench.client(env=reaching(skill_bench, index))
    with pytest.raises(DependenciesMissing, match="No matching distribution found") as raised:
        await kernel.run_skill(version.name, "a.py")
    assert raised.value.requirements == ("leaftool>=9",)
    # One that was allowed need not be allowed again.
    assert "package-index" not in str(raised.value)
    assert (await kernel.steps())[-1].outcome.status == "error"  # type: ignore[union-attr]


async def test_wheels_among_the_notebooks_files_will_do(
    skill_bench: SkillBench, wheels: Path
) -> None:
    folder = skill_bench.folder / "some wheels"
    folder.mkdir()
    for name in ("leaftool-2.5", "sprout-1.0"):
        file = f"{name}-py3-none-any.whl"
        (folder / file).write_bytes((wheels / file).read_bytes())
    version = await skill_bench.add(
        {"scripts/a.py": needing("leaftool>=2"), "scripts/b.py": needing("leaftool>=2", "nowhere")}
    )
    kernel = await skill_bench.client()
    ran = await kernel.run_skill(version.name, "a.py", check=True)
    assert ran.stdout.startswith("leaftool 2.5 ")
    with pytest.raises(DependenciesMissing) as raised:
        await kernel.run_skill(version.name, "b.py")
    assert raised.value.requirements == ("nowhere",)


async def test_another_python_is_named(skill_bench: SkillBench) -> None:
    files = {
        "scripts/new.py": needing(python=">=3.99"),
        "scripts/named.py": "#!/usr/bin/env python3.99\nprint(1)\n",
        "scripts/ok.py": needing(python=">=3.9", code="print(1)"),
    }
    version = await skill_bench.add(files)
    kernel = await skill_bench.client()
    with pytest.raises(ProgramMissing, match=r"runs on Python >=3\.99; this session has 3\."):
        await kernel.run_skill(version.name, "new.py")
    with pytest.raises(ProgramMissing, match=r"runs on Python ==3\.99\.\*"):
        await kernel.run_skill(version.name, "named.py")
    assert (await kernel.run_skill(version.name, "ok.py", check=True)).stdout == "1\n"


async def test_what_the_session_says_it_has_can_only_be_wrong(skill_bench: SkillBench) -> None:
    # Code in the sandbox writes what looks like packages; names that are none count for nothing.
    lie = (
        "import os, sys\n"
        "site = [p for p in sys.path if '.reprise/venv' in p][0]\n"
        "for name in ('leaftool-9.dist-info', '..-1.dist-info', 'a b-1.dist-info', 'x-\\n.dist-info'):\n"
        "    os.makedirs(f'{site}/{name}', exist_ok=True)\n"
        "    open(f'{site}/{name}/METADATA', 'w').write('Name: other')\n"
    )
    code = "print('ran')"
    version = await skill_bench.add(
        {
            "scripts/a.py": needing("leaftool>=2", code=code),
            "scripts/b.py": needing("x", code=code),
        }
    )
    kernel = await skill_bench.client()
    assert (await kernel.run(lie)).ok
    assert (await kernel.run_skill(version.name, "a.py", check=True)).stdout == "ran\n"
    with pytest.raises(DependenciesMissing):
        await kernel.run_skill(version.name, "b.py")


async def test_where_nothing_isolates_this_machines_packages_stay_as_they_are(
    skill_bench: SkillBench, index: Index
) -> None:
    version = await skill_bench.add(
        {
            "scripts/a.py": needing(
                "leaftool>=2",
                f"{HERE}>=5",
                code=f"import sys, leaftool, {HERE}\nprint(sys.executable, leaftool.__file__, sep='\\n')\n",
            )
        }
    )
    env = {
        "REPRISE_BACKEND": "process",
        **{k: v for k, v in reaching(skill_bench, index).items() if k != "REPRISE_ENVIRONMENT"},
    }
    wheel(index.folder, HERE, "5.99")
    kernel = await skill_bench.client(env=env)
    mine = (await kernel.run("import sys; print(sys.executable)")).stdout.strip()
    ran = await kernel.run_skill(version.name, "a.py", check=True)
    python, place = ran.stdout.split()
    assert python == mine
    assert place.startswith(f"{skill_bench.folder}/.reprise/packages/")
    assert not (await kernel.run("import leaftool")).ok
    assert (await kernel.run_skill(version.name, "a.py", check=True)).installed == ()
