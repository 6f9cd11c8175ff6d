"""A client is told which programs a sandbox has and which environment it is, and no step is made."""

from __future__ import annotations

import pytest

from reprise.client import AsyncKernel
from reprise.errors import GuestCallFailed, RepriseError


async def test_programs_are_found_as_a_command_finds_them(kernel: AsyncKernel) -> None:
    made = "printf '#!/bin/sh\\n' > tool; chmod +x tool; touch plain; mkdir folder; chmod +x folder"
    await kernel.command(made, check=True)
    place = (await kernel.command("pwd")).stdout.strip()
    names = ["sh", "/bin/sh", "no-such-program", "/no/such", "tool", "./tool", "", "a/sh", "/", "é"]
    names += [f"{place}/{each}" for each in ("tool", "plain", "folder")]
    before = len(await kernel.steps())
    found = await kernel.workspace.programs([each for each in names if each])
    assert found == {"sh", "/bin/sh", f"{place}/tool"}
    assert await kernel.workspace.programs([]) == frozenset()
    assert len(await kernel.steps()) == before


async def test_what_is_asked_wrongly_is_refused(kernel: AsyncKernel) -> None:
    wrong: list[object] = [["a"] * 201, ["a\0b"], ["x" * 4001], [3], "sh", None, [""]]
    for names in wrong:
        with pytest.raises(RepriseError):
            await kernel.workspace.ask("programs", names=names)
    with pytest.raises(GuestCallFailed, match=r"commands, environment, programs, sync, state"):
        await kernel.workspace.ask("sing")
    assert await kernel.workspace.programs(["sh"]) == {"sh"}


async def test_the_environment_is_the_one_of_now(kernel: AsyncKernel) -> None:
    digest, shut = await kernel.workspace.environment()
    assert shut is None
    await kernel.run("1")
    assert (await kernel.steps())[-1].step.new.environment == digest
