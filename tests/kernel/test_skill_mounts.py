"""The kernel is the wall between skills and a session, whatever a client sends, now and on replays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reprise.errors import SkillNotTrusted
from reprise.settings import RUN_UNTRUSTED
from tests.fixtures.commands import Reprise
from tests.fixtures.kernel import Client, Kernel, Kernels, Ran
from tests.fixtures.mounts import sha256
from tests.fixtures.site import Site
from tests.kernel.test_static_output import is_static

TEXT = b"---\nname: tried\ndescription: A skill that is tried.\n---\nIt is tried.\n"
SCRIPT = b"#!/bin/sh\necho ran\n"
FILES = {"SKILL.md": (TEXT, 0o644), "go.sh": (SCRIPT, 0o755)}


def mounted(client: Client, files: dict[str, tuple[bytes, int]] = FILES, **more: Any) -> Ran:
    entries = [
        [path, "file", mode, len(data), sha256(data)] for path, (data, mode) in files.items()
    ]
    payload = {"target": "/skills/tried", "entries": entries, **more}
    key = payload.pop("key", None)
    said = {} if key is None else {"key": key}
    return client.step("mount", payload, buffers=[data for data, _ in files.values()], **said)


def tree(ran: Ran) -> str:
    assert ran.status == "ok", ran.reply
    return str(ran.reply["result"]["tree"])


def judged(kernels: Kernels, digest: str, act: str) -> None:
    """As the person says it of his own skills."""
    with psycopg.connect(kernels.database.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT reprise.judge_skill(%s, 'personal', %s, 'for a test')", [digest, act]
        )


def uses(kernels: Kernels, digest: str) -> list[tuple[str, int]]:
    with psycopg.connect(kernels.database.dsn, autocommit=True) as connection:
        return connection.execute(
            "SELECT what, seq FROM reprise.skill_uses WHERE digest = %s ORDER BY seq", [digest]
        ).fetchall()


def digest_of(kernels: Kernels) -> str:
    """What names the files above: as a kernel names them that mounts them without a network."""
    kernel = kernels("bubblewrap")
    found = tree(mounted(kernel.client()))
    kernel.shutdown()
    return found


def with_network(kernels: Kernels, place: str) -> str:
    name = f"open-{place.rpartition(':')[2]}"
    folder = kernels.database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"network": {"private": [place]}}))
    return name


def asked(client: Client, place: str) -> str:
    """What a cell gets that asks a site."""
    return client.prints(
        "import urllib.request\n"
        f"try: print(urllib.request.urlopen('http://{place}/').read().decode())\n"
        "except Exception as error: print(getattr(error, 'reason', error))"
    )


def test_without_a_network_an_untrusted_skill_may_run_and_its_output_is_static(
    kernels: Kernels,
) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    assert not is_static(client)
    digest = tree(mounted(client))
    assert client.shell("/skills/tried/go.sh").text() == "ran\n"
    assert is_static(client)
    kernel.shutdown()
    assert [what for what, _ in uses(kernels, digest)] == ["mount"]


def test_with_a_network_it_is_refused_until_exactly_its_content_is_trusted(
    kernels: Kernels, site: Site
) -> None:
    name = with_network(kernels, site.place)
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    refused = mounted(client)
    assert refused.error == SkillNotTrusted.__name__
    for words in ("/skills/tried", "vouched", name, "reprise skills trust sha256:"):
        assert words in refused.reply["evalue"]
    assert kernels.read(kernel).statuses("mount") == []
    digest = refused.reply["evalue"].partition("sha256:")[2][:64]
    judged(kernels, digest, "trust")
    assert tree(mounted(client)) == digest
    assert asked(client, site.place) == "hello"
    # Not one byte of it may be another.
    changed = mounted(client, {**FILES, "go.sh": (SCRIPT + b"#", 0o755)})
    assert changed.error == "SkillNotTrusted"
    assert mounted(client, {**FILES, "go.sh": (SCRIPT, 0o644)}).error == "SkillNotTrusted"
    assert not is_static(client)
    assert kernels.read(kernel).statuses("mount") == ["ok"]


def test_data_is_no_skill(kernels: Kernels, site: Site) -> None:
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=with_network(kernels, site.place))
    assert mounted(kernel.client(), target="/mnt/tried").status == "ok"


def test_who_mounts_cannot_say_that_it_is_trusted(kernels: Kernels) -> None:
    client = kernels("bubblewrap").client()
    assert mounted(client, trusted=True).error == "UsageError"
    assert mounted(client, skill={"name": "a", "scope": "b"}).error == "UsageError"
    assert mounted(client, skill={"name": "a", "scope": "b", "version": 3}).error == "UsageError"
    named = {"name": "tried", "scope": "personal", "version": "3", "trusted": "yes"}
    assert mounted(client, skill=named).error == "UsageError"


def test_what_was_revoked_is_mounted_nowhere_and_the_session_that_used_it_goes_on(
    kernels: Kernels, site: Site
) -> None:
    digest = digest_of(kernels)
    judged(kernels, digest, "trust")
    name = with_network(kernels, site.place)
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    named = {"name": "tried", "scope": "personal", "version": "1"}
    assert tree(mounted(client, skill=named, key="first")) == digest
    assert client.prints("import os; print(os.popen('/skills/tried/go.sh').read())") == "ran"
    assert client.prints("x = 41; print(x)") == "41"
    judged(kernels, digest, "revoke")
    # Asked again under its key, the first answer comes; asked anew, it is refused.
    assert mounted(client, skill=named, key="first").reply["repeated"] is True
    for place in ("/skills/tried", "/skills/other"):
        refused = mounted(client, target=place)
        assert refused.error == "SkillRevoked"
        assert f"reprise skills show sha256:{digest}" in refused.reply["evalue"]
    kernel.kill("sandbox")
    client.run("pass")  # it may be accepted before anybody sees that the sandbox is gone
    assert client.prints("print(x + 1)") == "42"
    assert client.shell("/skills/tried/go.sh").text() == "ran\n"
    kernel.shutdown()
    # The next process tells of it, shows static output, and plays its steps as they were.
    again = kernels.again(kernel, REPRISE_ENVIRONMENT=name)
    client = again.client()
    assert client.prints("print(x + 2)") == "43"
    assert is_static(client)
    assert asked(client, site.place) == "hello"
    again.shutdown()
    # It is told when the session is taken, maybe before a client listens; the log has it anyway.
    told = [each.text for each in kernels.read(again).notices if each.code == "skill-revoked"]
    assert digest in told[-1]
    command = Reprise(kernels.database.home, {"REPRISE_DSN": kernels.database.dsn})
    (listed,) = [
        each
        for each in json.loads(command("sessions", "--json").stdout)["sessions"]
        if each["id"] == str(kernel.session)
    ]
    assert [each["tree"] for each in listed["revoked_skills"]] == [digest]
    assert "used what was revoked: /skills/tried" in command("sessions").stdout
    shown = command("log", str(kernel.session)).stdout
    assert "personal:tried@1" in shown
    assert "revoked since" in shown
    assert json.loads(command("log", str(kernel.session), "--json").stdout)["revoked_skills"]
    forked = json.loads(command("fork", str(kernel.session), "--json").stdout)
    assert str(forked["session"]) in {
        each["id"]
        for each in json.loads(command("sessions", "--json").stdout)["sessions"]
        if each["revoked_skills"]
    }
    judged(kernels, digest, "reinstate")
    assert "used what was revoked" not in command("sessions").stdout


def test_who_mounted_what_nobody_trusts_gets_no_network_later(kernels: Kernels, site: Site) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    digest = tree(mounted(client, {**FILES, "more": (b"never trusted before\n", 0o644)}))
    assert "hello" not in asked(client, site.place)
    kernel.shutdown()
    name = with_network(kernels, site.place)
    opened = kernels.again(kernel, REPRISE_ENVIRONMENT=name)
    assert digest in (text := asked(opened.client(), site.place)), text
    assert site.asked == []
    opened.shutdown()
    verified = Reprise(kernels.database.home, {"REPRISE_DSN": kernels.database.dsn})(
        "verify", str(kernel.session), "--json", REPRISE_ENVIRONMENT=name, timeout=300
    )
    assert site.asked == [], verified.stdout
    # Whoever vouches for it opens the network of the next kernel.
    judged(kernels, digest, "trust")
    assert asked(kernels.again(opened, REPRISE_ENVIRONMENT=name).client(), site.place) == "hello"


@pytest.mark.parametrize("act", ["trust", "revoke"])
def test_without_a_wall_only_what_is_trusted_comes_in(kernels: Kernels, act: str) -> None:
    content = {**FILES, "act": (act.encode(), 0o644)}
    kernel = kernels("process", **{RUN_UNTRUSTED: ""})
    client = kernel.client()
    assert mounted(client, content).error == "UntrustedCode"
    bubble = kernels("bubblewrap")
    digest = tree(mounted(bubble.client(), content))
    bubble.shutdown()
    judged(kernels, digest, act)
    ran = mounted(client, content)
    if act == "revoke":
        assert ran.error == "SkillRevoked"
        return
    place = Path(str(ran.reply["result"]["path"]))
    assert (place / "go.sh").read_bytes() == SCRIPT
    kernel.kill("sandbox")
    client.run("pass")  # it may be accepted before anybody sees that the sandbox is gone
    assert client.prints("print(open('/dev/null').read() + 'back')") == "back"
    assert kernels.read(kernel).statuses("mount") == ["ok"]


def test_a_bundle_cannot_bring_trust(kernels: Kernels, tmp_path: Path) -> None:
    """What a kernel found trusted elsewhere is no word of anybody's here."""
    digest = digest_of(kernels)
    judged(kernels, digest, "trust")
    kernel: Kernel = kernels("bubblewrap")
    client = kernel.client()
    mounted(client)
    assert not is_static(client)
    kernel.shutdown()
    command = Reprise(kernels.database.home, {"REPRISE_DSN": kernels.database.dsn})
    bundle = tmp_path / "session.reprise"
    assert command("export", str(kernel.session), "-o", str(bundle)).returncode == 0
    judged(kernels, digest, "distrust")
    imported = json.loads(command("import", str(bundle), "--as-new", "--json").stdout)
    elsewhere = kernels("bubblewrap", session=imported["session"])
    assert is_static(elsewhere.client())
