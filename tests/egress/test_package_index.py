"""package-index is what pip and uv are configured with here, as they read it themselves."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from reprise.egress.package_index import PackageIndex, index_for, package_index
from reprise.egress.policy import normal_host
from reprise.environments import index_settings
from reprise.environments.index_settings import (
    pip_configured,
    pip_default,
    uv_configured,
    uv_default,
)
from reprise.sandbox.network import NetworkRules, parse_rules


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds all configuration there is."""
    monkeypatch.setattr(index_settings, "PIP_SYSTEM", tmp_path / "none")
    monkeypatch.setattr(index_settings, "UV_SYSTEM", tmp_path / "none")
    for folder in (
        "home/.config/pip",
        "home/.config/uv",
        "home/.pip",
        "xdg/pip",
        "xdg/uv",
        "prefix",
    ):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home / "home"), "XDG_CONFIG_DIRS": str(home / "xdg"), "PATH": "", **more}


def index(home: Path, **more: str) -> PackageIndex:
    return package_index(environ(home, **more), home / "prefix")


def test_pips_files_count_in_pips_order(home: Path) -> None:
    files = [
        home / "xdg/pip/pip.conf",
        home / "home/.pip/pip.conf",
        home / "home/.config/pip/pip.conf",
        home / "prefix/pip.conf",
        home / "named.conf",
    ]
    variables = environ(home, PIP_CONFIG_FILE=str(files[-1]))
    for number, file in enumerate(files):
        file.write_text(f"[global]\nindex-url = https://h{number}.example/simple\n")
        found = pip_configured(variables, home / "prefix")
        assert found.index == f"https://h{number}.example/simple"
        # pip itself says the same.
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            env={**variables, "PATH": os.environ["PATH"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
        if number != 3:  # the prefix of the Python that runs this is another one
            assert f"global.index-url='{found.index}'" in said.stdout
    variables["PIP_INDEX_URL"] = "https://variable.example/simple"
    assert pip_configured(variables, home / "prefix").index == "https://variable.example/simple"
    variables = environ(home, PIP_CONFIG_FILE=os.devnull)
    assert pip_configured(variables, home / "prefix").index is None


def test_a_files_section_for_install_counts_more_than_the_global_one(home: Path) -> None:
    (home / "home/.config/pip/pip.conf").write_text(
        "[global]\nindex_url = https://a.example/simple\ntrusted-host = a.example\n b.example\n"
        "[install]\nindex-url = https://b.example/simple\n[download]\nindex-url = https://c.example\n"
    )
    found = pip_configured(environ(home), home / "prefix")
    assert found.index == "https://b.example/simple"
    assert found.trusted == ("a.example", "b.example")


@pytest.mark.parametrize("text", ["[global\nindex-url=x", "\0\0", "index-url = x"])
def test_a_file_that_pip_could_not_read_says_nothing(home: Path, text: str) -> None:
    (home / "home/.config/pip/pip.conf").write_text(text)
    assert pip_configured(environ(home), home / "prefix").index is None


def test_uvs_files_and_variables_count_in_uvs_order(home: Path) -> None:
    system, user = home / "xdg/uv/uv.toml", home / "home/.config/uv/uv.toml"
    system.write_text('index-url = "https://system.example/simple"\n')
    assert uv_configured(environ(home)).index == "https://system.example/simple"
    user.write_text(
        '[[index]]\nname = "own"\nurl = "https://user.example/simple"\ndefault = true\n'
        '[[index]]\nurl = "https://more.example/simple"\n'
        '[pip]\nextra-index-url = ["https://piped.example/simple"]\n'
    )
    found = uv_configured(environ(home))
    assert found.index == "https://user.example/simple"
    assert found.extra == ("https://more.example/simple", "https://piped.example/simple")
    variables = environ(
        home,
        UV_INDEX_URL="https://old.example/simple",
        UV_INDEX="n=https://x.example/simple https://y.example/simple",
    )
    found = uv_configured(variables)
    assert found.index == "https://old.example/simple"
    assert found.extra[-2:] == ("n=https://x.example/simple", "https://y.example/simple")
    variables["UV_DEFAULT_INDEX"] = "https://new.example/simple"
    assert uv_configured(variables).index == "https://new.example/simple"
    assert uv_configured(environ(home, UV_NO_CONFIG="1")).index is None


def test_what_goes_inside_leads_to_the_same_indexes(home: Path) -> None:
    (home / "home/.config/pip/pip.conf").write_text(
        "[global]\nindex-url = http://127.0.0.1:3141/root/+simple/\n"
        "extra-index-url =\n    https://extra.example/simple\n    https://EXTRA.example:8443/two\n"
        "trusted-host = 127.0.0.1\n"
    )
    found = index(
        home, UV_DEFAULT_INDEX="https://uv.example/simple", UV_INDEX="n=https://m.example/s"
    )
    assert found.variables == {
        "PIP_INDEX_URL": "http://127.0.0.1:3141/root/+simple/",
        "PIP_EXTRA_INDEX_URL": "https://extra.example/simple https://EXTRA.example:8443/two",
        "PIP_TRUSTED_HOST": "127.0.0.1",
        "UV_DEFAULT_INDEX": "https://uv.example/simple",
        "UV_INDEX": "n=https://m.example/s",
    }
    assert found.places == (
        "127.0.0.1:3141",
        "extra.example:443",
        "extra.example:8443",
        "uv.example:443",
        "m.example:443",
    )
    assert found.said == ()


def test_a_password_stays_outside_and_is_added_by_the_proxy(home: Path) -> None:
    url = "https://me%40work:p%3Ass@index.example/simple"
    found = index(home, PIP_INDEX_URL=url, UV_DEFAULT_INDEX=url)
    assert found.variables == {
        "PIP_INDEX_URL": "https://index.example/simple",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
    }
    assert "p:ss" not in repr(found)
    assert "p%3Ass" not in repr(found)
    rules = found.added_to(parse_rules({"allow": ["package-index"]}))
    assert rules.opens_tls
    [secret] = rules.secrets
    assert (secret.host, secret.header, secret.prefix) == (
        "index.example:443",
        "Authorization",
        "Basic ",
    )
    values = found.environ({"PATH": "/bin"})
    encoded = values[secret.source.removeprefix("env:")]
    assert base64.b64decode(encoded) == b"me@work:p:ss"
    assert values["PATH"] == "/bin"


def test_local_folders_and_other_schemes_stay_outside(home: Path) -> None:
    found = index(
        home,
        PIP_INDEX_URL="file:///srv/simple",
        PIP_FIND_LINKS="/opt/wheels https://links.example/wheels",
        UV_DEFAULT_INDEX="https://uv.example/simple",
    )
    assert "PIP_INDEX_URL" not in found.variables
    assert found.variables["PIP_FIND_LINKS"] == "https://links.example/wheels"
    assert any("file:///srv/simple" in sentence for sentence in found.said)


def test_certificates_go_inside_where_sandboxes_see_them(home: Path) -> None:
    shown = index(home, PIP_CERT="/etc/ssl/certs/ca-certificates.crt")
    assert shown.variables["PIP_CERT"] == "/etc/ssl/certs/ca-certificates.crt"
    hidden = index(home, PIP_CERT=str(home / "ca.pem"))
    assert "PIP_CERT" not in hidden.variables
    assert any("do not go inside" in sentence for sentence in hidden.said)


def test_where_nothing_is_configured_the_tools_own_default_counts(home: Path) -> None:
    default = pip_default()
    assert default is not None
    assert default.url.startswith("https://")
    assert default.files is not None
    found = index(home, PIP_CONFIG_FILE=os.devnull)
    assert found.variables == {}
    host = normal_host(default.url.split("/")[2])
    assert found.places == (f"{host}:443", f"{normal_host(default.files)}:443")


def test_the_default_is_also_found_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    import ensurepip

    wheels = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python bundles no pip")
    with zipfile.ZipFile(wheels[0]) as archive:
        assert "pip/_internal/models/index.py" in archive.namelist()
    with_pip = pip_default()
    found = index_settings.find_spec
    monkeypatch.setattr(
        index_settings, "find_spec", lambda name: None if name == "pip" else found(name)
    )
    assert pip_default() == with_pip


def test_uv_says_its_own_default() -> None:
    folder = Path(sys.executable).parent
    if not (folder / "uv").exists():
        pytest.skip("no uv stands beside the Python that runs the tests")
    found = uv_default({"PATH": str(folder), "HOME": "/"})
    assert found is not None
    assert found.url.startswith("https://")
    assert uv_default({"PATH": "", "HOME": "/"}) is None


def test_a_machine_without_indexes_allows_none(home: Path) -> None:
    found = index(home, PIP_NO_INDEX="1", UV_NO_INDEX="true")
    assert found == PackageIndex()


def test_only_rules_that_name_it_look_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    assert index_for(NetworkRules(allow=("example.org",))) == PackageIndex()
    assert "index.example:443" in index_for(NetworkRules(allow=("package-index",))).places
