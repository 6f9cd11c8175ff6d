"""A kernel whose environment allows a network: cells reach it, refusals are told, all is in the log."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from reprise.log.store import NetworkRow
from tests.fixtures.commands import Reprise
from tests.fixtures.kernel import Kernel, Kernels
from tests.fixtures.site import ADDRESS, Site


def environment(kernels: Kernels, name: str, **network: Any) -> str:
    folder = kernels.database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"network": network}))
    return name


def rows(kernels: Kernels, kernel: Kernel) -> list[NetworkRow]:
    return kernels.database.network(kernel.session)


def test_cells_and_commands_reach_what_is_allowed(kernels: Kernels, site: Site) -> None:
    name = environment(kernels, f"n-{site.place[-5:]}", private=[site.place])
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    url = f"http://{site.place}/"
    cells = [
        f"import urllib.request; print(urllib.request.urlopen({url!r}).read())",
        f"import requests; print(requests.get({url!r}).content)",
        f"!curl -sS {url} -w '\\n'",
    ]
    shown = [client.prints(cell) for cell in cells]
    assert shown == ["b'hello'", "b'hello'", "hello"]
    assert site.asked == ["/", "/", "/"]
    found = rows(kernels, kernel)
    assert [row.seq for row in found] == [0, 1, 2]
    assert {(row.host, str(row.port)) for row in found} == {tuple(site.place.rsplit(":", 1))}
    assert {(row.verdict, row.address, row.replay) for row in found} == {
        ("allowed", ADDRESS, False)
    }
    assert all(row.bytes_up > 0 and row.bytes_down > len("hello") for row in found)
    assert kernels.read(kernel).report.ok


def test_a_refusal_is_told_where_it_happened_and_in_the_log(kernels: Kernels, site: Site) -> None:
    name = environment(kernels, f"r-{site.place[-5:]}", allow=["example.org"])
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    sentence = (
        f"{site.place} is not allowed here; allow it with: "
        f"reprise env allow {site.place} --private --environment {name}"
    )
    shown = client.prints(f"import requests; print(requests.get('http://{site.place}/').text)")
    assert shown == sentence
    ran = client.run(f"requests.get('https://{site.place}/')")
    assert ran.error == "ProxyError"
    assert sentence in ran.reply["evalue"]
    assert site.asked == []
    found = rows(kernels, kernel)
    assert [(row.seq, row.verdict, row.reason) for row in found] == [
        (0, "refused", sentence),
        (1, "refused", sentence),
    ]
    notices = [n for n in kernels.read(kernel).notices if n.code == "network-refused"]
    assert [(n.seq, n.text) for n in notices] == [(0, f"{sentence}."), (1, f"{sentence}.")]


def test_without_rules_there_is_no_proxy_and_no_way_out(kernels: Kernels, site: Site) -> None:
    client = kernels("bubblewrap").client()
    assert (
        client.prints("import os; print([n for n in os.environ if 'proxy' in n.lower()])") == "[]"
    )
    assert client.run(f"import urllib.request; urllib.request.urlopen('http://{site.place}')").error
    assert site.asked == []


def test_a_replay_asks_again_and_says_so(kernels: Kernels, site: Site) -> None:
    name = environment(kernels, f"a-{site.place[-5:]}", private=[site.place])
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    code = f"import urllib.request; seen = urllib.request.urlopen('http://{site.place}/').read()"
    client.run(code)
    kernel.kill("router")
    kernel = kernels.again(kernel, REPRISE_ENVIRONMENT=name)
    assert kernel.client().prints("print(seen)") == "b'hello'"
    assert [(row.seq, row.replay) for row in rows(kernels, kernel)] == [(0, False), (0, True)]


INSTALLS = {
    "pip": "%pip install --quiet reprise-greeting",
    "uv": "!uv pip install --quiet reprise-greeting",
}


@pytest.mark.parametrize("site", ["127.0.0.1", ADDRESS], indirect=True)
@pytest.mark.parametrize("tool", INSTALLS)
def test_packages_are_installed_from_the_index_of_the_host(
    kernels: Kernels, site: Site, tool: str
) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    if tool == "uv" and uv is None:
        pytest.skip("no uv stands beside the Python that runs the tests")
    name = environment(kernels, f"i-{site.place[-5:]}", allow=["package-index"])
    index = f"http://{site.place}/simple"
    host = site.place.partition(":")[0]
    settings = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index,
        "PIP_TRUSTED_HOST": host,
        "PIP_FIND_LINKS": "",
        "UV_DEFAULT_INDEX": index,
    }
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name, **settings)
    client = kernel.client()
    ran = client.run(INSTALLS[tool])
    assert ran.status == "ok"
    assert client.prints("import reprise_greeting; print(reprise_greeting.text)") == "greetings", (
        ran.outputs
    )
    assert any(path.startswith("/files/") for path in site.asked)
    found = rows(kernels, kernel)
    assert {row.verdict for row in found} == {"allowed"}
    assert {row.seq for row in found} == {0}
    # Nothing else is allowed by it.
    assert "is not allowed here" in client.prints(
        "import requests; print(requests.get('http://example.org').text)"
    )


def test_reprise_log_shows_what_was_asked(kernels: Kernels, site: Site) -> None:
    name = environment(kernels, f"l-{site.place[-5:]}", private=[site.place])
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    client.run(f"import requests; requests.get('http://{site.place}/')")
    client.run("[requests.get('http://example.org') for _ in range(3)]")
    reprise = Reprise(kernels.database.home, {"REPRISE_DSN": kernels.database.dsn})
    table = reprise("log", str(kernel.session), "--network")
    assert table.returncode == 0, table.stderr
    lines = table.stdout.splitlines()
    assert site.place in lines[2]
    assert "allowed" in lines[2]
    assert "reprise env allow example.org" in table.stdout
    assert "2 times more" in table.stdout
    assert "1 allowed, 3 refused" in table.stdout
    told = json.loads(reprise("log", str(kernel.session), "--network", "--json").stdout)
    assert [(row["seq"], row["verdict"]) for row in told["network"]] == [
        (0, "allowed"),
        (1, "refused"),
        (1, "refused"),
    ]
    assert told["total"]["verdicts"] == {"allowed": 1, "refused": 3}
    assert told["total"]["bytes_down"] == sum(row["bytes_down"] for row in told["network"])
