"""docs/agent-tools.md lists the tools as they are, and its examples answer as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall
from reprise_server.agent.tools import commands, images, reading, search, writing
from tests.agent.toolboxes import table
from tests.fixtures.place import ToolBench, text_of

PAGE = (Path(__file__).parents[2] / "docs" / "agent-tools.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)\n```\n\n```text\n(.*?)\n```", PAGE, re.DOTALL)


def test_the_table_is_of_the_tools_as_they_are() -> None:
    listed = PAGE.partition("|---|---|---|---|\n")[2].partition("<!-- end -->")[0].splitlines()
    assert listed == table(), "python -m tests.agent.toolboxes prints it"


@pytest.fixture
async def prepared(bench: ToolBench) -> ToolBench:
    kernel = await bench.place.kernel()
    await kernel.command("mkdir -p data; printf 'a\\nb\\nc\\n' > data/rentals.csv", check=True)
    return bench


async def test_the_examples_answer_as_the_page_says(prepared: ToolBench) -> None:
    assert len(EXAMPLES) == 5
    for call, expected in EXAMPLES:
        asked = json.loads(call)
        try:
            said = text_of(await prepared.do(asked["tool"], **asked["input"]))
        except BadCall as error:
            said = str(error)
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, said.rstrip("\n")), f"{call}\n{said}"


def test_the_bounds_are_those_of_the_code() -> None:
    for value in (
        f"{commands.USUAL_S} s unless",
        f"at most {commands.LONGEST_S:,}.",
        f"{commands.MOST:,} characters",
        f"up to {reading.MOST_BYTES >> 20} MiB are read",
        f"{writing.MOST >> 20} MiB of text",
        f"{images.MOST_SIDE:,} pixels",
        f"{images.IMAGE_CHARACTERS * 3 / 4 / 1e6:.1f} MB",
        f"{search.MOST_FILES:,} files, {search.MOST_READ >> 20} MiB and {search.SECONDS:g} s",
        f"more than {search.MOST_NAMED} files",
        f"at most {RESULT_CHARACTERS:,} characters",
    ):
        assert value in re.sub(r"\s+", " ", PAGE), value
