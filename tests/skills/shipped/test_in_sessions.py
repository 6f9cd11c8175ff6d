"""Shipped skills do their work where users run them: in a session's sandbox, as its steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reprise.client import AsyncKernel
from reprise.skills.shipped import find_shipped, shipped_digests
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_runs import SkillBench
from tests.skills.shipped.scripts import notebook, saved, shown

DEMO = Path(__file__).parents[3] / "kernel" / "reprise" / "demo"


@pytest.fixture(params=["bubblewrap", "process"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def ran(kernel: AsyncKernel, skill: str, script: str, *args: str) -> Any:
    done = await kernel.run_skill(skill, script, args)
    assert done.exit_code == 0, done.stderr
    assert done.version.digest in shipped_digests()
    assert not done.stdout_end.cut
    return json.loads(done.stdout)


async def test_each_works_on_the_files_of_the_workspace(
    skill_bench: SkillBench, backend: str
) -> None:
    folder = skill_bench.folder
    shutil.copy(DEMO / "rentals.csv", folder)
    picture = shown(text__html="<table><tr><td>1.5</td></tr></table>", text__plain="1.5")
    saved(folder, notebook("print(gone)", {"source": "show()", "outputs": [picture]}))
    saved(folder, notebook("print(gone)", {"source": "show()", "outputs": []}), "other.ipynb")
    kernel = await skill_bench.client()

    body = await ran(kernel, "profile-dataset", "profile_dataset.py", "rentals.csv")
    assert body["rows"] == 4_051
    assert "sentinel" in {finding["rule"] for finding in body["findings"]}

    body = await ran(kernel, "review-notebook", "review_notebook.py", "book.ipynb")
    assert "undefined" in {finding["rule"] for finding in body["findings"]}

    body = await ran(kernel, "compare-runs", "compare_runs.py", "book.ipynb", "other.ipynb")
    assert body["agree"] is False

    asked = ("book.ipynb", "--output", "out/report.html")
    body = await ran(kernel, "notebook-to-report", "notebook_to_report.py", *asked)
    page = await kernel.read("out/report.html")
    assert body["written"][0]["bytes"] == len(page)
    assert b"1.5</td>" in page

    # A second run needs no second mount, and nothing of the skill was changed by the first.
    skill = find_shipped("profile-dataset")
    assert skill is not None
    (before,) = (
        u for v, u in await skill_bench.catalog.usage(skill.name) if v.digest == skill.digest
    )
    again = await kernel.run_skill("profile-dataset", "profile_dataset.py", ["rentals.csv"])
    assert again.mounted is None
    assert again.version.digest == skill.digest
    after = await skill_bench.used(again.version)
    assert (after.runs, after.mounts) == (before.runs + 1, before.mounts)
    assert after.failures == before.failures


async def test_a_script_that_refuses_says_why_and_counts_as_failed(skill_bench: SkillBench) -> None:
    kernel = await skill_bench.client()
    done = await kernel.run_skill("profile-dataset", "profile_dataset.py", ["no-such.csv"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no-such.csv is no file" in done.stderr


@pytest.mark.parametrize("backend", ["bubblewrap"])
async def test_a_diverging_session_is_explained_proved_and_mended(
    skill_bench: SkillBench, tmp_path: Path, backend: str
) -> None:
    """The whole workflow of explain-divergence, on what verify really says."""
    reprise = Reprise(Path(skill_bench.environ["REPRISE_HOME"]), skill_bench.environ)

    async def verified(cells: list[str], name: str) -> tuple[AsyncKernel, dict[str, Any]]:
        kernel = await skill_bench.client(folder=tmp_path)
        for cell in cells:
            await kernel.run(cell, check=True)
        done = reprise("verify", str(kernel.session), "--twice", "--json", timeout=300)
        assert done.stdout, done.stderr
        await kernel.upload(done.stdout.encode(), name)
        return kernel, json.loads(done.stdout)

    cells = [
        "import random",
        "noise = random.random()",
        "total = noise * 100",
        "print('total', total)",
    ]
    kernel, report = await verified(cells, "before.json")
    assert report["ok"] is False
    wrong = next(step["seq"] for step in report["steps"] if step["verdict"] == "different")

    body = await ran(kernel, "explain-divergence", "explain_divergence.py", "before.json")
    (root,) = body["roots"]
    assert root["source"] == "noise = random.random()"
    assert root["causes"][0]["cause"] == "randomness"
    assert root["chance"] == "yes"
    assert wrong in root["explains"]

    asked = ("before.json", "--step", str(wrong), "--times", "2")
    body = await ran(kernel, "explain-divergence", "probe_causes.py", *asked)
    assert body["causes"] == ["randomness"]

    edit = root["mend"]["edit"]
    at = next(n for n, cell in enumerate(cells) if cell == root["source"])
    cells[at] = f"{edit['insert_before']}\n{cells[at]}"
    mended, after = await verified(cells, "after.json")
    assert after["ok"] is True
    await mended.upload(json.dumps(report).encode(), "before.json")
    body = await ran(
        mended, "explain-divergence", "compare_reports.py", "before.json", "after.json"
    )
    assert (body["holds"], body["mended"]) == (True, 1)
