"""docs/skill-catalog.md does what it says: an operator and three people, each with a login."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.commands import Reprise

PAGE = (Path(__file__).parents[2] / "docs" / "skill-catalog.md").read_text()
PEOPLE = ("anna", "ben", "carla")

SKILL = """\
---
name: count-rows
description: Counts the rows of a table. Use it when a table is new.
---

Run `scripts/count.py TABLE`.
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def logins(dsn: str) -> Iterator[None]:
    yield
    with psycopg.connect(dsn, autocommit=True) as superuser:
        for login in (*PEOPLE, "operator"):
            superuser.execute(f"DROP ROLE IF EXISTS {login}")


@pytest.mark.usefixtures("logins")
def test_the_page_works_as_it_stands(dsn: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o700)
    (folder / "count-rows" / "scripts").mkdir(parents=True)
    (folder / "count-rows" / "SKILL.md").write_text(SKILL)
    script = folder / "count-rows" / "scripts" / "count.py"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    reprise = Reprise(home)
    # The first connection sets the database up.
    assert reprise("skills", "scopes", REPRISE_DSN=dsn).returncode == 0
    (roles,) = blocks("sql")
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(roles.encode())
        superuser.execute("CREATE ROLE operator LOGIN; GRANT reprise_owner TO operator")
        superuser.execute("GRANT reprise_kernel TO operator")

    commands = blocks("bash")
    operator = next(each for each in commands if "operator@" in each)
    commands.remove(operator)
    text = "set -euo pipefail\n"
    for number, block in enumerate([operator, *commands]):
        text += f"exec > block-{number} 2>&1\n{block}"
    text = re.sub(
        r"postgresql://(\w+)@db\.example\.org/reprise",
        lambda found: f"'{dsn.replace('user=postgres', f'user={found[1]}')}'",
        text,
    )
    environ = {**reprise.environ}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environ, capture_output=True, text=True, timeout=600
    )
    told = [
        path.read_text() if (path := folder / f"block-{number}").exists() else "(did not run)"
        for number in range(len(commands) + 1)
    ]
    assert done.returncode == 0, "\n---\n".join(told)
    appointed, added, asked, decided, carlas, refused, revoked, shown = told
    assert "ben is reviewer in team/ml." in appointed
    assert "postgres" not in appointed
    assert "state          draft" in added
    assert "untrusted" in added
    assert "scripts/count.py  runs" in added
    assert "personal:count-rows@1 is asked for as team/ml:count-rows@1" in asked
    assert "team/ml has no published version of it; all its files are new:" in decided
    assert "+Run `scripts/count.py TABLE`." in decided
    assert "team/ml:count-rows@1 is approved and published." in decided
    assert "standing       trusted: it may run" in carlas
    assert "released" in carlas
    assert "approved" in carlas
    assert "read all of it" in carlas
    expected = next(each for each in blocks("text") if "You (anna)" in each)
    assert " ".join(expected.split()) in " ".join(refused.split())
    assert "+Mind the header." in revoked
    assert "exit 1" in revoked
    assert "is not mounted any more for everybody in team/ml." in revoked
    versions = revoked.partition("is not mounted any more")[2]
    assert re.search(r"team/ml:count-rows@2\s+published\s+revoked", versions)
    assert re.search(r"team/ml:count-rows@1\s+published\s+trusted", versions)
    assert re.search(r"team/ml\s+reviewer", shown)
    assert re.search(r"anna\s+member", shown)

    # And what others get is the version before it, as carla sees in every way.
    carla = dsn.replace("user=postgres", "user=carla")
    assert "team/ml:count-rows@1" in reprise("skills", "list", REPRISE_DSN=carla).stdout
    assert reprise("skills", "read", "count-rows", REPRISE_DSN=carla).stdout == SKILL
    listed = reprise("skills", "read", "count-rows", "scripts/count.py", REPRISE_DSN=carla)
    assert listed.stdout == "#!/usr/bin/env python3\n"


def test_what_the_page_says_of_the_embedded_database_is_what_is_said(reprise: Reprise) -> None:
    expected = next(each for each in blocks("text") if "embedded database" in each)
    done = reprise("skills", "team", "ml")
    assert done.returncode == 2
    assert " ".join(done.stderr.split()) == " ".join(expected.split())
