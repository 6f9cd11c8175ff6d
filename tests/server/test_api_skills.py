"""Skills over REST as three people, each with a server and a database login of his own."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

from reprise_server.api import parts
from tests.fixtures.agent_server import FRAME, PAGE
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer, Serve

SCRIPT = b"#!/usr/bin/env python3\nprint('hello')\n"


def skill_md(name: str, description: str = "Counts the rows of a table.", body: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n{body}\n".encode()


def zipped(**skills: dict[str, bytes]) -> bytes:
    """An archive with these skills: name → files; scripts below scripts/ are executable."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, files in skills.items():
            for path, data in files.items():
                info = zipfile.ZipInfo(f"{name.replace('_', '-')}/{path}")
                mode = 0o755 if path.startswith("scripts/") else 0o644
                info.external_attr = (0o100000 | mode) << 16
                archive.writestr(info, data)
    return packed.getvalue()


@dataclass
class Desk:
    """One person's server and client."""

    name: str
    server: JupyterServer
    client: httpx.Client

    def get(self, path: str, expected: int = 200, /, **params: Any) -> Any:
        answer = self.client.get(path, params=params)
        assert answer.status_code == expected, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, expected: int = 200, /, **params: Any) -> Any:
        answer = self.client.post(path, json=body, params=params)
        assert answer.status_code == expected, answer.text
        return answer.json()

    def add(self, name: str, body: str = "", **files: bytes) -> dict[str, Any]:
        """A skill of one's own, as JSON."""
        sent = {"SKILL.md": skill_md(name, body=body), **files}
        said = self.post(
            "skills",
            {
                "folder": name,
                "files": [
                    {"path": path, "base64": base64.b64encode(data).decode()}
                    for path, data in sent.items()
                ],
            },
            201,
        )
        (added,) = said["skills"]
        found: dict[str, Any] = added["version"]
        return found


@pytest.fixture(scope="module")
def desks(serve: Serve, database: Database) -> dict[str, Desk]:
    """alice is an admin of the organisation, bob and carol are members of the team `lab`."""
    name = database.dsn.split("dbname=")[1].split()[0]
    with database.server.admin(name) as admin:
        for person in ("alice", "bob", "carol"):
            if not admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [person]).rowcount:
                admin.execute(f"CREATE ROLE {person} LOGIN IN ROLE reprise_kernel")
        admin.execute("SELECT reprise.appoint_for_skills('alice', 'organisation', 'admin')")
    found = {}
    for person in ("alice", "bob", "carol"):
        dsn = database.dsn.replace("user=postgres", f"user={person}")
        server = serve(dsn=dsn, home=database.home)
        found[person] = Desk(person, server, server.client(person))
    alice = found["alice"]
    alice.post("skill-teams", {"team": "lab"}, 201)
    for person, role in (("bob", "reviewer"), ("carol", "member")):
        answer = alice.client.put(
            "skill-members", json={"scope": "team/lab", "login": person, "role": role}
        )
        assert answer.json() == {"login": person, "role": role}
    return found


@pytest.fixture
def alice(desks: dict[str, Desk]) -> Desk:
    return desks["alice"]


@pytest.fixture
def bob(desks: dict[str, Desk]) -> Desk:
    return desks["bob"]


@pytest.fixture
def carol(desks: dict[str, Desk]) -> Desk:
    return desks["carol"]


# adding and reading -------------------------------------------------------------------------------


def test_an_archive_of_several_skills_is_added_as_it_is(carol: Desk) -> None:
    sent = zipped(
        count_rows={"SKILL.md": skill_md("count-rows"), "scripts/count.py": SCRIPT},
        other_one={"SKILL.md": skill_md("other-one"), "data/x.bin": b"\0\xff"},
        broken={"SKILL.md": b"no frontmatter"},
    )
    answer = carol.client.post(
        "skills",
        content=sent,
        params={"filename": "mine.zip", "note": "first"},
        headers={"Content-Type": "application/zip"},
    )
    assert answer.status_code == 201, answer.text
    said = answer.json()
    assert {each["folder"]: each["what"] for each in said["skills"]} == {
        "broken": "refused",
        "count-rows": "new",
        "other-one": "new",
    }
    by_name = {each["name"]: each for each in said["skills"]}
    assert by_name["broken"]["problem"]
    first = by_name["count-rows"]["version"]
    assert first["scope"] == "personal"
    assert first["state"] == "draft"
    assert first["standing"] == "untrusted"
    assert first["note"] == "first"
    assert first["by"] == "carol"
    assert first["origin"] == {
        "kind": "archive",
        "where": "mine.zip",
        "commit": None,
        "subfolder": "count-rows",
        "ref": "",
    }
    # The same again is the same version.
    again = carol.client.post(
        "skills", content=sent, headers={"Content-Type": "application/zip"}
    ).json()
    assert {each["name"]: each["what"] for each in again["skills"]} == {
        "broken": "refused",
        "count-rows": "unchanged",
        "other-one": "unchanged",
    }

    files = carol.get("skills/count-rows/files")
    assert [(each["path"], each["executable"]) for each in files["files"]] == [
        ("SKILL.md", False),
        ("scripts/count.py", True),
    ]
    got = carol.client.get("skills/count-rows/archive", params={"format": "tar.gz"})
    with tarfile.open(fileobj=io.BytesIO(got.content)) as archive:
        packed = {each.name: each.mode & 0o777 for each in archive if each.isfile()}
        assert packed == {"count-rows/SKILL.md": 0o644, "count-rows/scripts/count.py": 0o755}
    # What was sent out comes in again as the same content.
    back = carol.client.post(
        "skills", content=got.content, headers={"Content-Type": "application/gzip"}
    ).json()
    assert [(each["what"], each["digest"]) for each in back["skills"]] == [
        ("unchanged", first["digest"])
    ]


def test_a_file_is_saved_and_never_shown(carol: Desk) -> None:
    page = b"<script>alert(1)</script>"
    carol.add("with-page", **{"assets/page.html": page, "assets/odd ;x=é.html": page})
    for path in ("assets/page.html", "assets/odd ;x=é.html"):
        answer = carol.client.get("skills/with-page/file", params={"path": path})
        assert answer.content == page
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"].startswith("attachment; filename*=utf-8''")
        assert answer.headers["Content-Disposition"].isascii()
        assert answer.headers["Content-Disposition"].count(";") == 1
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_what_comes_with_reprise_is_looked_at_without_adding_it(alice: Desk) -> None:
    shipped = {each["name"]: each for each in alice.get("skills")["shipped"]}
    assert "profile-dataset" in shipped
    said = alice.get("skills/profile-dataset")
    assert (said["version"], said["standing"]) == (None, "trusted")
    assert said["skill"]["digest"] == shipped["profile-dataset"]["digest"]
    files = [each["path"] for each in alice.get("skills/profile-dataset/files")["files"]]
    assert "SKILL.md" in files
    assert alice.get("skills/profile-dataset/findings")["findings"] == []
    assert alice.get("skills/profile-dataset/cost")["loaded"] > 100
    body = alice.get("skills/profile-dataset/body")
    assert body["reference"] == "profile-dataset"
    assert body["shown_to_models"]
    got = alice.client.get("skills/profile-dataset/file", params={"path": "SKILL.md"})
    assert body["body"].strip() in got.text
    # Looking added nothing, and other names of it are not there.
    assert "profile-dataset" in {each["name"] for each in alice.get("skills")["shipped"]}
    for path in ("profile-dataset@1", "profile-dataset/versions", "profile-dataset/history"):
        assert alice.get(f"skills/{path}", 404)["error"]["code"] == "skill-not-found"
    alice.get("skills/profile-dataset", 404, scope="team/lab")


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "assets/../SKILL.md",
        "assets",
        "SKILL.md/",
        "./SKILL.md",
        "skill.md",
        "..",
        "SKILL.md%00",
    ],
)
def test_a_path_leads_to_a_file_of_the_skill_or_nowhere(carol: Desk, path: str) -> None:
    carol.add("with-page", **{"assets/page.html": b"x"})
    assert carol.get("skills/with-page/file", 404, path=path)["error"]["code"] == "file-not-found"


def test_reading_a_body_is_counted_and_looking_at_a_skill_is_not(carol: Desk) -> None:
    carol.add("counted", body="Read me.\n<script>x</script>")
    carol.get("skills/counted")
    carol.get("skills/counted/files")
    before = carol.get("skills/counted/usage")["versions"][0]
    assert (before["loads"], before["last_at"]) == (0, None)
    said = carol.get("skills/counted/body")
    assert "<script>x</script>" in said["body"]
    assert "Nobody with the right has approved this skill" in said["shown_to_models"]
    assert carol.get("skills/counted/usage")["versions"][0]["loads"] == 1
    cost = carol.get("skills/counted/cost")
    assert not cost["counted"]
    assert 0 < cost["listed"] < cost["loaded"]


def test_versions_history_and_differences(carol: Desk) -> None:
    one = carol.add("grows", body="one")
    two = carol.add("grows", body="two", **{"scripts/x.py": SCRIPT})
    assert [each["number"] for each in carol.get("skills/grows/versions")["versions"]] == [2, 1]
    assert [each["act"] for each in carol.get("skills/grows/history")["events"]] == ["add", "add"]
    said = carol.get("skill-differences", old="grows@1", new="grows@2")
    assert [(each["path"], each["what"]) for each in said["files"]] == [
        ("SKILL.md", "changed"),
        ("scripts/x.py", "added"),
    ]
    assert "-one" in said["files"][0]["diff"]
    assert "+two" in said["files"][0]["diff"]
    some = carol.get("skill-differences", old="grows@1", new="grows@2", limit=1, offset=1)
    assert [each["path"] for each in some["files"]] == ["scripts/x.py"]
    assert some["total"] == 2
    assert carol.get("skills/grows@1")["version"]["digest"] == one["digest"]
    assert carol.get(f"skills/sha256:{two['digest']}")["version"]["number"] == 2
    restored = carol.post("skills/grows@1/restoration", {"digest": one["digest"]}, 201)
    assert (restored["number"], restored["digest"]) == (3, one["digest"])


def test_lists_come_in_pages(bob: Desk) -> None:
    for number in range(5):
        bob.add(f"page-{number}")
    names, offset = [], 0
    while offset is not None:
        said = bob.get("skills", scope="personal", limit=2, offset=offset)
        assert len(said["skills"]) <= 2
        names += [each["name"] for each in said["skills"]]
        offset = said["next_offset"]
    assert names == sorted(names)
    assert {f"page-{number}" for number in range(5)} <= set(names)
    assert said["total"] == len(names)
    bob.add("findable", body="Untangles hydrographs.")
    found = bob.get("skills", q="hydrographs")
    assert [each["name"] for each in found["skills"]] == ["findable"]


def test_the_check_keeps_nothing(carol: Desk) -> None:
    sent = zipped(
        tidy={"SKILL.md": skill_md("tidy")}, odd_name={"SKILL.md": skill_md("Other_Name")}
    )
    said = carol.client.post(
        "skill-checks", content=sent, headers={"Content-Type": "application/zip"}
    )
    assert said.status_code == 200, said.text
    by_folder = {each["folder"]: each for each in said.json()["skills"]}
    assert by_folder["tidy"]["why_not"] is None
    assert any(each["severity"] == "error" for each in by_folder["odd-name"]["findings"])
    assert carol.get("skills/tidy", 404)["error"]["code"] == "skill-not-found"


def test_who_writes_a_skill_is_told_its_lines_and_what_it_costs(carol: Desk) -> None:
    text = skill_md("half-done", body="Word. " * 200).decode()
    files = [{"path": "SKILL.md", "text": text}, {"path": "a.bin", "base64": "AAEC/w=="}]
    (said,) = carol.post("skill-checks", {"folder": "half-done", "files": files})["skills"]
    assert (said["why_not"], said["findings"]) == (None, [])
    assert said["cost"]["listed"] > 0
    assert said["cost"]["loaded"] > 200
    assert said["cost"]["files"] == [{"path": "a.bin", "tokens": None}]
    aliased = "---\nname: half-done\ndescription: *other\n---\nText.\n"
    broken = [{"path": "SKILL.md", "text": aliased}]
    (said,) = carol.post("skill-checks", {"folder": "half-done", "files": broken})["skills"]
    assert said["why_not"]
    assert said["cost"] is None
    (finding,) = said["findings"]
    assert (finding["rule"], finding["path"], finding["line"]) == ("yaml", "SKILL.md", 3)


def test_who_presses_trust_reads_the_names_of_the_files(carol: Desk) -> None:
    files = [
        {"path": "SKILL.md", "text": skill_md("pressed").decode()},
        {"path": "scripts/run.py", "text": SCRIPT.decode(), "executable": True},
        {"path": "notes\u202e.md", "text": "x"},
    ]
    (added,) = carol.post("skills", {"folder": "pressed", "files": files}, 201)["skills"]
    version = added["version"]
    body = {"digest": version["digest"], "scope": "personal"}
    answer = carol.client.post("skills/pressed@1/trust", json=body, headers=PAGE)
    assert answer.status_code == 428
    frame = answer.json()["error"]["frame"]
    shown = carol.client.get(carol.server.url.removesuffix("/base/") + frame, headers=FRAME).text
    assert "personal:pressed@1" in shown
    assert "Exactly 3 files, and no other" in shown
    assert f"scripts/run.py  {len(SCRIPT)} B, can run" in shown
    assert "\u202e" not in shown
    assert r"notes<b>\u202e</b>.md  1 B" in shown
    assert version["digest"] in shown


@pytest.mark.parametrize(
    "name",
    ["../escape", "/etc/passwd", "C:/x", "a/../../b", "con", "x\\..\\y", "a:b", "e\u0301/\u00e9"],
)
def test_files_that_could_not_be_kept_everywhere_are_refused(carol: Desk, name: str) -> None:
    files = [
        {"path": "SKILL.md", "text": skill_md("paths").decode()},
        {"path": name, "text": "x"},
        *([{"path": "\u00e9/\u00e9", "text": "x"}] if "\u0301" in name else []),
    ]
    said = carol.post("skills", {"files": files}, 400)
    assert said["error"]["code"] == "bad-skill"


def test_archives_of_attackers_are_refused(carol: Desk) -> None:
    bomb = zipped(bomb={"SKILL.md": skill_md("bomb"), "big": b"\0" * (20 << 20)})
    escape = zipped(x={"../../evil": b"x", "SKILL.md": skill_md("x")})
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("x/SKILL.md", "x/link"):
            info = tarfile.TarInfo(name)
            if name.endswith("link"):
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(info)
            else:
                data = skill_md("x")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    for kind, data in (
        ("application/zip", bomb),
        ("application/zip", escape),
        ("application/x-tar", tar.getvalue()),
        ("application/zip", b"no archive at all"),
        ("application/gzip", b"\x1f\x8b" + b"\0" * 100),
        ("application/zip", zipped(empty={"README": b"no skill"})),
    ):
        answer = carol.client.post("skills", content=data, headers={"Content-Type": kind})
        assert answer.status_code in (400, 404), answer.text
        assert answer.json()["error"]["code"] in ("bad-skill", "skill-not-found")
        # Where it lay for a moment on the server says nothing to anybody.
        assert "/tmp" not in answer.text
        assert "reprise-upload" not in answer.text


# governance ---------------------------------------------------------------------------------------


def test_a_promotion_takes_a_second_person(alice: Desk, bob: Desk, carol: Desk) -> None:
    added = carol.add("shared", body="mine")
    promotion = carol.post(
        "skills/shared@1/promotions",
        {"digest": added["digest"], "to": "team/lab", "note": "please"},
        201,
    )
    decision = {"approve": True, "digest": added["digest"], "release": True}
    path = f"skill-promotions/{promotion['id']}"
    # Who asked may not, whatever the server thinks: Postgres says it.
    refused = carol.post(f"{path}/decision", decision, 403)["error"]
    assert refused["code"] == "not-allowed"
    assert carol.get(path)["decided"] is None

    waiting = bob.get("skill-promotions")["promotions"]
    assert promotion["id"] in [each["id"] for each in waiting]
    compared = bob.get(f"{path}/differences")
    assert compared["old"] is None
    assert [each["path"] for each in compared["files"]] == ["SKILL.md"]
    # What is approved is what was looked at.
    other = {**decision, "digest": "0" * 64}
    assert bob.post(f"{path}/decision", other, 409)["error"]["code"] == "content-changed"
    decided = bob.post(f"{path}/decision", decision)
    assert (decided["decided"], decided["decided_by"]) == ("approved", "bob")
    assert alice.get("skills/shared", scope="team/lab")["version"]["standing"] == "trusted"
    shown = alice.get("skills/shared", scope="team/lab")["version"]
    assert shown["state"] == "published"

    # Taken back: it beats every trust, for all who are in that scope.
    judged = bob.post(
        f"skills/sha256:{added['digest']}/revoke",
        {"digest": added["digest"], "scope": "team/lab", "reason": "it deletes files"},
    )
    assert judged["standing"] == "revoked"
    # People may read what it says, marked; no model is given it.
    read = carol.get("skills/shared/body")
    assert (read["standing"], read["shown_to_models"]) == ("revoked", None)
    assert read["body"]
    mine = {"digest": added["digest"], "scope": "personal"}
    assert carol.post("skills/shared/trust", mine, 403)["error"]["code"] == "skill-revoked"
    said = carol.get("skill-standings", digest=[added["digest"]])
    assert said == {"standings": {added["digest"]: "revoked"}}


def test_what_one_may_not_see_is_not_there(alice: Desk, carol: Desk) -> None:
    added = carol.add("private-thing", body="secret words")
    for path in (
        "skills/private-thing",
        f"skills/sha256:{added['digest']}",
        f"skills/sha256:{added['digest']}/body",
        "skills/private-thing/versions",
    ):
        said = alice.get(path, 404)["error"]
        assert said["code"] == "skill-not-found"
        assert "secret" not in json.dumps(said)
    assert alice.get("skills", q="secret words")["skills"] == []
    # Also after its owner's server has it in memory: each server keeps its own.
    carol.get("skills/private-thing/files")
    assert alice.get("skills/private-thing/files", 404)["error"]["code"] == "skill-not-found"


def test_acts_need_the_very_version_and_digest(carol: Desk) -> None:
    added = carol.add("pinned", body="one")
    carol.add("pinned", body="two")
    for path in ("release", "restoration", "deprecation", "promotions"):
        body = {"digest": added["digest"]}
        if path == "promotions":
            body["to"] = "team/lab"
        said = carol.post(f"skills/pinned/{path}", body, 400)["error"]
        assert "NAME@NUMBER" in said["message"]
        said = carol.post(f"skills/pinned@2/{path}", body, 409)["error"]
        assert said["code"] == "content-changed"
    said = carol.post("skills/pinned/trust", {**body, "scope": "personal"} | {"to": 1}, 400)
    assert said["error"]["code"] == "invalid-request"
    trust = {"digest": added["digest"], "scope": "personal"}
    assert carol.post("skills/pinned/trust", trust, 409)["error"]["code"] == "content-changed"
    assert carol.post("skills/pinned@1/trust", trust)["standing"] == "trusted"
    assert carol.post("skills/pinned@1/distrust", trust)["standing"] == "untrusted"
    released = carol.post("skills/pinned@1/release", {"digest": added["digest"]})
    assert released["state"] == "published"


def test_a_guest_does_not_act_with_the_rights_of_the_servers_owner(
    alice: Desk, carol: Desk
) -> None:
    """bob, whom Jupyter lets in on alice's server, reads there and rules nothing."""
    added = alice.add("of-alice")
    guest = Desk("bob", alice.server, alice.server.client("bob"))
    assert guest.get("skills/of-alice")["version"]["by"] == "alice"
    said = guest.get("me")
    assert (said["name"], said["login"]) == ("bob", "alice")
    assert not said["governance"]["may"]
    assert not said["personal"]["may"]
    waiting = carol.add("waiting-for-alice")
    promotion = carol.post(
        "skills/waiting-for-alice@1/promotions",
        {"digest": waiting["digest"], "to": "team/lab"},
        201,
    )
    exact = {"digest": added["digest"]}
    trust = {**exact, "scope": "personal", "reason": "x"}
    places = {"places": ["example.org"]}
    new = {"files": [{"path": "SKILL.md", "text": skill_md("of-bob").decode()}]}
    attempts: dict[str, tuple[str, str, Any]] = {
        "addSkills": ("POST", "skills", new),
        "importSkills": ("POST", "skill-imports", {"source": "https://example.org/x"}),
        "trustSkill": ("POST", "skills/of-alice/trust", trust),
        "distrustSkill": ("POST", "skills/of-alice/distrust", trust),
        "revokeSkill": ("POST", "skills/of-alice/revoke", {**trust, "scope": "organisation"}),
        "reinstateSkill": ("POST", "skills/of-alice/reinstate", trust),
        "releaseSkill": ("POST", "skills/of-alice@1/release", exact),
        "deprecateSkill": ("POST", "skills/of-alice@1/deprecation", {**exact, "reason": "x"}),
        "restoreSkill": ("POST", "skills/of-alice@1/restoration", exact),
        "requestPromotion": ("POST", "skills/of-alice@1/promotions", {**exact, "to": "team/lab"}),
        "decidePromotion": (
            "POST",
            f"skill-promotions/{promotion['id']}/decision",
            {"approve": True, "digest": waiting["digest"]},
        ),
        "createTeam": ("POST", "skill-teams", {"team": "guests"}),
        "appointMember": (
            "PUT",
            "skill-members",
            {"scope": "team/lab", "login": "bob", "role": "admin"},
        ),
        "dismissMember": ("DELETE", "skill-members?scope=team/lab&login=carol", None),
        "allowHosts": ("POST", "environments/default/network/allow", places),
        "denyHosts": ("POST", "environments/default/network/deny", places),
        "createEnvironment": ("POST", "environments", {"environment": "x", "from": "default"}),
        "removeEnvironment": ("DELETE", "environments/default", None),
        "setPolicy": ("PUT", "policies", {"scope": "personal", "policy": "rules: []"}),
        "allowSessionHosts": ("POST", f"sessions/{uuid.uuid4()}/network/allow", places),
        "moveSession": (
            "POST",
            f"sessions/{uuid.uuid4()}/environment",
            {"environment": "default"},
        ),
    }
    # Whatever widens rights is tried here: a new one cannot be forgotten.
    widening = {
        said["operationId"]
        for item in parts.document().value["paths"].values()
        for said in item.values()
        if "x-jupyter" in said and said["x-jupyter"]["widens"]
    }
    assert widening <= set(attempts)
    for method, path, body in attempts.values():
        answer = guest.client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not-allowed"), path
        assert "c.RepriseApi.logins" in answer.json()["error"]["message"]
    assert alice.get(f"skill-promotions/{promotion['id']}")["decided"] is None
    assert alice.get("skills/of-alice")["version"]["standing"] == "untrusted"
    assert alice.get("skills/of-alice/history")["total"] == 1
    assert "places" not in json.dumps(alice.get("environments/default/network"))
    members = alice.get("skill-members", scope="team/lab")["members"]
    assert {each["login"]: each["role"] for each in members} == {
        "alice": "admin",
        "bob": "reviewer",
        "carol": "member",
    }


def test_scopes_are_those_of_the_login(alice: Desk, bob: Desk, carol: Desk) -> None:
    assert [each["scope"] for each in bob.get("skill-scopes")["scopes"]] == [
        "personal",
        "team/lab",
        "organisation",
    ]
    assert carol.get("skill-members", 403, scope="team/nobody")["error"]["code"] == "not-allowed"


def test_what_a_stranger_says_of_his_disk_is_not_passed_on(bob: Desk, carol: Desk) -> None:
    sent = zipped(from_disk={"SKILL.md": skill_md("from-disk")})
    carol.client.post(
        "skills",
        content=sent,
        params={"filename": "secret-project.zip"},
        headers={"Content-Type": "application/zip"},
    )
    version = carol.get("skills/from-disk")["version"]
    assert version["origin"]["where"] == "secret-project.zip"
    carol.post(
        "skills/from-disk@1/promotions", {"digest": version["digest"], "to": "team/lab"}, 201
    )
    (found,) = [
        each
        for each in bob.get("skill-promotions")["promotions"]
        if each["version"]["name"] == "from-disk"
    ]
    assert "secret-project" not in json.dumps(found)


def test_two_at_once_decide_one_promotion_once(alice: Desk, bob: Desk, carol: Desk) -> None:
    added = carol.add("raced")
    promotion = carol.post(
        "skills/raced@1/promotions", {"digest": added["digest"], "to": "team/lab"}, 201
    )
    path = f"skill-promotions/{promotion['id']}/decision"

    def decide(desk: Desk, approve: bool) -> int:
        body = {"approve": approve, "digest": added["digest"], "reason": "x"}
        return desk.client.post(path, json=body).status_code

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(decide, [alice, bob, alice, bob], [True, False, False, True]))
    assert sorted(found) == [200, 400, 400, 400]
    assert carol.get(f"skill-promotions/{promotion['id']}")["decided"] in ("approved", "refused")
    events = [each["act"] for each in carol.get("skills/raced/history", scope="team/lab")["events"]]
    assert len([each for each in events if each in ("approve", "refuse")]) == 1


def test_the_login_cannot_do_by_rest_what_postgres_refuses(carol: Desk, database: Database) -> None:
    """The gate of the server is one wall; the database is the other, and stands alone."""
    dsn = database.dsn.replace("user=postgres", "user=carol")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET ROLE reprise_kernel")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT reprise.create_skill_team('mine')")
    assert carol.post("skill-teams", {"team": "mine"}, 403)["error"]["code"] == "not-allowed"
