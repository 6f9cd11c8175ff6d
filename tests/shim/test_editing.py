"""What the shim makes of a container's configuration, with any input: never looser, never half."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.sandbox.runtime_shim import (
    APPLIED,
    CAPABILITIES,
    MASKED,
    Policy,
    Refused,
    found_runtime,
)
from reprise.sandbox.runtime_shim import edited as edited_as_asked
from reprise.sandbox.runtime_shim import settings as asked_in
from tests.fixtures.shim import configuration, settings

MIB = 1 << 20

texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
#: Keys that the shim looks at, holding anything at all.
strange_configs = st.fixed_dictionaries(
    {},
    optional={
        "process": values
        | st.fixed_dictionaries(
            {"env": st.just(settings(MEMORY=64 * MIB, CPUS=1, PIDS=32, NETWORK="none"))},
            optional={"capabilities": values | st.dictionaries(texts, values, max_size=2)},
        ),
        "linux": values
        | st.fixed_dictionaries(
            {},
            optional={
                "namespaces": values | st.lists(st.dictionaries(st.just("type"), values)),
                "resources": values
                | st.dictionaries(st.sampled_from(["memory", "pids", "cpu"]), values),
            },
        ),
    },
)
other_variables = st.lists(
    st.tuples(st.text("ABCXYZ_", min_size=1, max_size=8), texts).map("=".join), max_size=5
)
asked = st.fixed_dictionaries(
    {},
    optional={
        "MEMORY": st.integers(16 * MIB, 1 << 50),
        "CPUS": st.decimals(min_value="0.01", max_value="1024", places=2),
        "PIDS": st.integers(16, 1 << 22),
        "NETWORK": st.sampled_from(["none", "engine"]),
        "RUNTIME": st.sampled_from(["runc", "crun", "runsc"]),
    },
)
#: What somebody may write behind a setting's name.
words = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.floats().map(str),
    st.text(max_size=20),
    st.sampled_from(["", "0", "1e9", "1_000", " 5", "0x10", "none", "٣", "inf", "nan", "1.", ".5"]),
)


def edited(config: Any, policy: Policy, *, swap: bool = False) -> dict[str, Any] | None:
    asked = asked_in(config)
    return None if asked is None else edited_as_asked(config, asked, policy, swap=swap)


@given(variables=other_variables, extra=st.dictionaries(texts, values, max_size=3))
def test_a_container_without_our_variables_is_left_as_it_is(
    variables: list[str], extra: dict[str, Any]
) -> None:
    config = {**extra, **configuration(variables)}
    before = copy.deepcopy(config)
    assert edited(config, Policy({"networks": ["none"], "maxima": {"pids": 16}})) is None
    assert json.dumps(config) == json.dumps(before)


@given(asked=asked, variables=other_variables)
def test_what_was_asked_for_is_set_and_nothing_else_is_changed(
    asked: dict[str, Any], variables: list[str]
) -> None:
    config = configuration([*variables, *settings(**asked), f"{APPLIED}=forged"])
    before = copy.deepcopy(config)
    got = edited(config, Policy({}))
    assert got is not None
    path, *kept, applied = config["process"]["env"]
    assert path.startswith("PATH=")
    assert kept == variables
    assert applied.startswith(f"{APPLIED}=")
    assert json.loads(applied.partition("=")[2]) == got
    resources = config["linux"]["resources"]
    is_runsc = got["runtime"] == "runsc"
    assert resources.get("memory") == ({"limit": asked["MEMORY"]} if "MEMORY" in asked else None)
    pids = (
        asked["PIDS"] * (6 if is_runsc else 1) + (64 if is_runsc else 0) if "PIDS" in asked else 0
    )
    assert resources.get("pids") == ({"limit": pids} if pids else None)
    if "CPUS" in asked:
        quota = resources["cpu"]["quota"]
        assert resources["cpu"]["period"] == 100_000
        assert quota == pytest.approx(float(asked["CPUS"]) * 100_000, abs=1)
    else:
        assert "cpu" not in resources
    networks = [each for each in config["linux"]["namespaces"] if each["type"] == "network"]
    path_kept = asked.get("NETWORK", "engine") == "engine"
    assert networks == [
        {"type": "network", "path": "/proc/self/ns/net"} if path_kept else {"type": "network"}
    ]
    allowed = {f"CAP_{name}" for name in CAPABILITIES}
    for name, held in config["process"]["capabilities"].items():
        assert set(held) == (allowed if name in ("bounding", "effective", "permitted") else set())
    assert config["process"]["noNewPrivileges"] is True
    assert set(config["linux"]["maskedPaths"]) >= set(MASKED)
    # All the rest is the engine's.
    for each in (config, before):
        for name in ("env", "capabilities", "noNewPrivileges"):
            each["process"].pop(name, None)
        each["linux"]["namespaces"] = [
            space for space in each["linux"]["namespaces"] if space["type"] != "network"
        ]
        for name in ("memory", "pids", "cpu"):
            each["linux"]["resources"].pop(name, None)
        each["linux"].pop("maskedPaths", None)
        each.pop("ociVersion")
    assert config == before


@given(memory=words, cpus=words, pids=words, maxima=st.booleans(), defaults=st.booleans())
def test_no_wording_gets_more_than_the_operator_allows(
    memory: str, cpus: str, pids: str, maxima: bool, defaults: bool
) -> None:
    most = {"memory": 256 * MIB, "cpus": 1.5, "pids": 64}
    policy = Policy({"maxima": most, "defaults": {"memory": 64 * MIB} if defaults else {}})
    config = configuration(settings(MEMORY=memory, CPUS=cpus, PIDS=pids))
    try:
        got = edited(config, policy)
    except Refused:
        return
    assert got is not None
    resources = config["linux"]["resources"]
    assert 16 * MIB <= resources["memory"]["limit"] <= most["memory"]
    assert 16 <= resources["pids"]["limit"] <= most["pids"]
    assert 1000 <= resources["cpu"]["quota"] <= 150_000


@given(asked=asked)
def test_asking_for_nothing_is_bounded_too(asked: dict[str, Any]) -> None:
    policy = Policy({"maxima": {"memory": 1 << 50, "cpus": 1024, "pids": 1 << 22}})
    config = configuration(settings(**asked))
    edited(config, policy)
    assert {"memory", "cpu", "pids"} <= set(config["linux"]["resources"])


@given(has=st.integers(-1, 1 << 40), wanted=st.integers(16 * MIB, 1 << 40))
def test_a_tighter_limit_of_the_engine_stays(has: int, wanted: int) -> None:
    config = configuration(settings(MEMORY=wanted, PIDS=64, CPUS=2))
    config["linux"]["resources"] |= {
        "memory": {"limit": has, "swap": -1, "disableOOMKiller": True, "reservation": 1},
        "pids": {"limit": 20},
        "cpu": {"quota": 30_000, "period": 50_000, "burst": 9, "shares": 2},
    }
    edited(config, Policy({}), swap=True)
    resources = config["linux"]["resources"]
    limit = min(has, wanted) if has > 0 else wanted
    assert resources["memory"] == {"limit": limit, "swap": limit}
    assert resources["pids"] == {"limit": 20}
    assert resources["cpu"] == {"quota": 60_000, "period": 100_000, "shares": 2}


@given(config=strange_configs | values)
def test_any_configuration_is_edited_or_refused(config: Any) -> None:
    try:
        got = edited(config, Policy({}))
    except Refused:
        return
    if got is not None:
        assert json.loads(json.dumps(config["process"]["env"]))[-1].startswith(APPLIED)
        assert config["process"]["noNewPrivileges"] is True


@given(
    told=values
    | st.dictionaries(st.sampled_from(["runtimes", "networks", "defaults", "maxima"]), values)
)
def test_any_policy_is_understood_or_refused(told: Any) -> None:
    try:
        policy = Policy(told)
    except Refused:
        return
    assert policy.runtime in policy.runtimes
    assert policy.network in policy.networks


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (["REPRISE_SHIM=1", "REPRISE_SHIM_MEMROY=5"], "REPRISE_SHIM_MEMROY is no setting"),
        (["REPRISE_SHIM=1", "REPRISE_SHIM_=5"], "no setting"),
        (["REPRISE_SHIM=1", "REPRISE_SHIM_memory=67108864"], "no setting"),
        (["REPRISE_SHIM=2"], "without REPRISE_SHIM=1"),
        (["REPRISE_SHIM="], "without REPRISE_SHIM=1"),
        (["REPRISE_SHIM_MEMORY=67108864"], "without REPRISE_SHIM=1"),
        (["REPRISE_SHIM=1", "REPRISE_SHIM=1"], "set twice"),
        (settings(MEMORY="64m"), "not a number from 16777216"),
        (settings(MEMORY=1), "not a number from 16777216"),
        (settings(MEMORY="-1"), "not a number"),
        (settings(MEMORY=""), "not a number"),
        (settings(MEMORY="٦٧١٠٨٨٦٤"), "not a number"),
        (settings(CPUS="1e3"), "not a number"),
        (settings(CPUS="inf"), "not a number"),
        (settings(CPUS="0"), "not a number from 0.01"),
        (settings(PIDS="64.0"), "not a number"),
        (settings(PIDS=8), "not a number from 16"),
        (settings(NETWORK="host"), "neither none nor engine"),
        (settings(RUNTIME="youki"), "'youki' is not allowed"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(variables: list[str], says: str) -> None:
    policy = Policy({})
    with pytest.raises(Refused, match=says):
        found_runtime(edited(configuration(variables), policy)["runtime"], policy)  # type: ignore[index]


def test_a_container_with_the_machines_capabilities_is_refused() -> None:
    config = configuration(settings())
    config["process"]["capabilities"]["bounding"].append("CAP_SYS_ADMIN")
    with pytest.raises(Refused, match="insecure root"):
        edited(config, Policy({}))


@pytest.mark.parametrize("kind", ["pid", "ipc", "mount"])
def test_a_container_in_the_engines_own_namespace_is_refused(kind: str) -> None:
    for path in (None, "/proc/1/ns/x"):
        config = configuration(settings())
        spaces = [each for each in config["linux"]["namespaces"] if each["type"] != kind]
        config["linux"]["namespaces"] = spaces + ([{"type": kind, "path": path}] if path else [])
        with pytest.raises(Refused, match=f"no {kind} namespace"):
            edited(config, Policy({}))


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ([], "no object"),
        ({"maximum": {}}, "unknown key 'maximum'"),
        ({"maxima": {"memory": "1GiB"}}, "maxima.memory is not a number"),
        ({"maxima": {"memory": True}}, "maxima.memory is not a number"),
        ({"maxima": {"pids": 1.5}}, "maxima.pids is not a number"),
        ({"maxima": {"network": "none"}}, "unknown key 'network'"),
        ({"defaults": {"pids": 64}, "maxima": {"pids": 32}}, "above maxima"),
        ({"networks": []}, "networks is a list"),
        ({"networks": ["host"]}, "something else"),
        ({"networks": ["none"], "defaults": {"network": "engine"}}, "not one of networks"),
        ({"runtimes": {}}, "at least one name"),
        ({"runtimes": {"kata": {}}}, "needs a path"),
        ({"runtimes": {"kata": {"path": "kata"}}}, "no absolute path"),
        ({"runtimes": {"../x": {"path": "/x"}}}, "strange name"),
        ({"runtimes": {"runsc": {"arguments": "--debug"}}}, "no list of options"),
        ({"runtimes": {"runsc": {"arguments": ["run"]}}}, "no list of options"),
        ({"runtimes": {"runsc": {}}, "defaults": {"runtime": "runc"}}, "not one of runtimes"),
    ],
)
def test_a_wrong_policy_is_refused_in_a_sentence(policy: Any, says: str) -> None:
    with pytest.raises(Refused, match=says):
        Policy(policy)
