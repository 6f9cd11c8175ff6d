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


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_configured_names_no_index(places: dict[str, str]) -> None:
    found = package_index(places)
    assert (found.default, found.extra, found.find_links, found.source) == (None, (), (), "")


def test_variables_of_pip(places: dict[str, str]) -> None:
    found = package_index(
        {
            **places,
            "PIP_INDEX_URL": "https://example.org/simple",
            "PIP_EXTRA_INDEX_URL": "https://a.example.org/ https://b.example.org/",
            "PIP_FIND_LINKS": "/wheels https://example.org/wheels",
            "PIP_CERT": "/etc/own.pem",
        }
    )
    assert found.default == "https://example.org/simple"
    assert found.extra == ("https://a.example.org/", "https://b.example.org/")
    assert found.find_links == ("/wheels", "https://example.org/wheels")
    assert found.certificates == "/etc/own.pem"
    assert "PIP_INDEX_URL" in found.source


def test_the_stronger_file_of_pip_wins_and_a_variable_wins_over_it(
    places: dict[str, str], tmp_path: Path
) -> None:
    del places["PIP_CONFIG_FILE"]
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://weak.example.org\n")
    write(tmp_path / "config/pip/pip.conf", "[global]\nindex_url = https://user.example.org\n")
    assert package_index(places).default == "https://user.example.org"
    write(tmp_path / "prefix/pip.conf", "[install]\nindex-url = https://site.example.org\n")
    assert package_index(places).default == "https://site.example.org"
    places["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    write(tmp_path / "own.conf", "[global]\nindex-url = https://own.example.org\nno-index = yes\n")
    found = package_index(places)
    assert (found.default, found.no_index) == ("https://own.example.org", True)
    assert found.source == str(tmp_path / "own.conf")
    assert package_index({**places, "PIP_INDEX_URL": "https://v.example.org"}).default == (
        "https://v.example.org"
    )


def test_uv_counts_before_pip(places: dict[str, str], tmp_path: Path) -> None:
    places["PIP_INDEX_URL"] = "https://pip.example.org"
    write(
        tmp_path / "config/uv/uv.toml",
        '[[index]]\nname="own"\nurl="https://uv.example.org/simple"\ndefault=true\n'
        '[[index]]\nurl="https://more.example.org"\n[[index]]\nname="broken"\n',
    )
    found = package_index(places)
    assert found.tool == "uv"
    assert found.default == "https://uv.example.org/simple"
    assert found.extra == ("https://more.example.org",)
    named = package_index({**places, "UV_DEFAULT_INDEX": "name=https://v.example.org"})
    assert named.default == "https://v.example.org"
    assert package_index({**places, "UV_NO_CONFIG": "1"}).default == "https://pip.example.org"


@pytest.mark.parametrize("text", ["not = [toml", "index = 3", "[[index]]\nurl = 3", "\x00", ""])
def test_a_file_of_uv_that_is_broken_stops_nothing(
    places: dict[str, str], tmp_path: Path, text: str
) -> None:
    write(tmp_path / "config/uv/uv.toml", text)
    assert package_index(places).default is None


@pytest.mark.parametrize("text", ["no section", "[global]\nindex-url", "[global\n"])
def test_a_file_of_pip_that_is_broken_stops_nothing(
    places: dict[str, str], tmp_path: Path, text: str
) -> None:
    places["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    write(tmp_path / "own.conf", text)
    assert package_index(places).default is None


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
