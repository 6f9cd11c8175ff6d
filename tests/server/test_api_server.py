"""The API answers as its document says, to those who may ask, whatever they send."""

from __future__ import annotations

from tests.fixtures.server import JupyterServer


def test_the_document_is_served_for_this_very_server(api: JupyterServer) -> None:
    answer = api.client("alice").get("openapi.json")
    assert answer.status_code == 200
    said = answer.json()
    assert said["openapi"].startswith("3.1.")
    assert said["servers"] == [{"url": "/base/reprise/api"}]
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_person_hears_who_he_is_here(api: JupyterServer) -> None:
    said = api.client("alice").get("me").json()
    assert said["name"] == "alice"
    assert not said["anonymous"]
    assert said["login"] == "postgres"
    assert not said["governance"]["may"]
    assert "c.RepriseApi.logins" in said["governance"]["why"]
