"""The package index is the one that uv or pip are configured with, read from where they look."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprise.environments.index import package_index, shown


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables of a person who has configured nothing."""
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CONFIG_DIRS": str(tmp_path / "xdg"),
        "PIP_CONFIG_FILE": "/dev/null",
    }


def test_nothing_configured_names_no_index(places: dict[str, str]) -> None:
    found = package_index(places)
    assert (found.default, found.extra, found.find_links, found.no_index) == (None, (), (), False)
    assert found.described == "the default of pip"


def test_what_pip_is_configured_with(places: dict[str, str]) -> None:
    found = package_index(
        {
            **places,
            "PIP_INDEX_URL": "https://me:secret@example.org/simple",
            "PIP_EXTRA_INDEX_URL": "https://a.example.org/ https://b.example.org/",
            "PIP_FIND_LINKS": "/wheels https://example.org/wheels",
            "PIP_CERT": "/etc/own.pem",
        }
    )
    assert found.default == "https://me:secret@example.org/simple"
    assert found.described == "https://****@example.org/simple, as pip is configured"
    assert found.extra == ("https://a.example.org/", "https://b.example.org/")
    assert found.find_links == ("/wheels", "https://example.org/wheels")
    assert found.certificates == "/etc/own.pem"


def test_uv_counts_before_pip_where_it_says_anything(
    places: dict[str, str], tmp_path: Path
) -> None:
    places["PIP_INDEX_URL"] = "https://pip.example.org"
    path = tmp_path / "config/uv/uv.toml"
    path.parent.mkdir(parents=True)
    path.write_text('python-preference = "system"\n')
    assert package_index(places).tool == "pip"
    path.write_text('[[index]]\nurl="https://uv.example.org/simple"\ndefault=true\n')
    found = package_index(places)
    assert (found.tool, found.default) == ("uv", "https://uv.example.org/simple")
    assert package_index({**places, "UV_NO_CONFIG": "1"}).default == "https://pip.example.org"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:secret@example.org/simple", "https://****@example.org/simple"),
        ("https://to@ken@example.org", "https://****@example.org"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("/wheels", "/wheels"),
    ],
)
def test_credentials_are_not_shown(url: str, told: str) -> None:
    assert shown(url) == told
