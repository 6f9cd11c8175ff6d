"""docs/dagger.md says what the shim does: its examples are good, its tables complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from reprise.sandbox.runtime_shim import APPLIED, CAPABILITIES, PREFIX, RANGES, VERSION, Policy

PAGE = (Path(__file__).parents[2] / "docs" / "dagger.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_each_setting_is_in_the_table_with_its_range() -> None:
    rows = {
        name: row
        for row in PAGE.splitlines()
        if (name := "".join(re.findall(rf"^\| `({PREFIX}\w*)`", row)))
    }
    wanted = {PREFIX, *(f"{PREFIX}_{name.upper()}" for name in (*RANGES, "network", "runtime"))}
    assert set(rows) == wanted
    for name, (least, most) in RANGES.items():
        assert str(least) in rows[f"{PREFIX}_{name.upper()}"]
        if name != "memory":
            assert (
                f"{most:g}" in rows[f"{PREFIX}_{name.upper()}"]
                or str(most) in rows[f"{PREFIX}_{name.upper()}"]
            )
    for capability in CAPABILITIES:
        assert f"`{capability}`" in PAGE


def test_the_example_of_what_was_applied_is_of_this_version() -> None:
    (example,) = re.findall(r'^    (\{"shim".*\})$', PAGE, re.MULTILINE)
    assert json.loads(example)["shim"] == VERSION
    assert f"`{APPLIED}`" in PAGE


def test_the_policies_of_the_page_are_good() -> None:
    (policy,) = blocks("json")
    read = Policy(json.loads(policy))
    assert (read.runtime, read.network) == ("runsc", "none")
    for key in json.loads(policy):
        assert f"| `{key}` |" in PAGE
    (manifest,) = blocks("yaml")
    *_, settings = yaml.safe_load_all(manifest)
    assert Policy(json.loads(settings["data"]["reprise-shim.json"])).networks == ["none"]


def test_the_manifest_is_one_of_kubernetes_and_names_fit_together() -> None:
    (manifest,) = blocks("yaml")
    parts = {part["kind"]: part for part in yaml.safe_load_all(manifest)}
    assert set(parts) == {"StatefulSet", "Service", "NetworkPolicy", "ConfigMap"}
    label = parts["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert parts["StatefulSet"]["spec"]["selector"]["matchLabels"] == label
    assert parts["Service"]["spec"]["selector"] == label
    assert parts["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == label
    assert parts["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    volumes = parts["StatefulSet"]["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["configMap"]["name"] == parts["ConfigMap"]["metadata"]["name"]
