"""MCP servers as configured: what is wrong is said before anything starts, and no value is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise_server.agent.mcp.configured import ConfiguredServer, configured_servers


def test_a_program_and_an_address_are_read():
    program, address = configured_servers(
        {
            "tickets": {
                "url": "https://tickets.example.org/mcp",
                "headers": {"Authorization": {"variable": "TOKEN"}},
                "tools": ["search"],
            },
            "files": {"command": ["server", "--root", "/data"], "env": {"MODE": "r"}, "timeout": 5},
        },
        {"TOKEN": "Bearer abcdefgh"},
    )
    assert program == ConfiguredServer(
        "files", command=("server", "--root", "/data"), env={"MODE": "r"}, timeout_s=5.0
    )
    assert address.secrets == {"Bearer abcdefgh", "abcdefgh"}
    assert address.headers == {"Authorization": "Bearer abcdefgh"}
    assert address.tools == {"search"}
    assert (program.host, address.host) == (None, "tickets.example.org")


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({}, "either `command`"),
        ({"command": ["x"], "url": "https://a.example"}, "either `command`"),
        ({"command": "x --flag"}, "list of words"),
        ({"command": []}, "list of words"),
        ({"command": [""]}, "list of words"),
        ({"command": ["x", "a\0b"]}, "list of words"),
        ({"command": ["x"], "headers": {}}, "belong to a `url`"),
        ({"url": "https://a.example", "env": {}}, "belongs to a `command`"),
        ({"url": "ftp://a.example"}, "https://"),
        ({"url": "https://"}, "https://"),
        ({"url": "https://me:pass@a.example"}, "holds a user"),
        ({"url": "https://a.example:99999"}, "no URL"),
        ({"url": "https://a.example/\nx"}, "control character"),
        ({"url": "https://a.example", "headers": {"Host": "b.example"}}, "set by the protocol"),
        ({"url": "https://a.example", "headers": {"X": "a\r\nY: b"}}, "no header may"),
        ({"url": "https://a.example", "headers": {"X Y": "a"}}, "is no name"),
        ({"command": ["x"], "env": {"A=B": "c"}}, "is no name"),
        ({"command": ["x"], "env": {"A": 1}}, "must be a text"),
        ({"command": ["x"], "env": {"A": {"variable": "ABSENT"}}}, "not set"),
        ({"command": ["x"], "timeout": 0}, "seconds"),
        ({"command": ["x"], "timeout": True}, "seconds"),
        ({"command": ["x"], "timeout": 10**9}, "seconds"),
        ({"command": ["x"], "tools": "all"}, "names of tools"),
        ({"command": ["x"], "cwd": "/"}, "knows no 'cwd'"),
        (["x"], "dictionary"),
    ],
)
def test_what_is_wrong_is_named(server, words):
    with pytest.raises(UsageError, match="mcp_servers") as raised:
        configured_servers({"odd": server}, {})
    assert words in str(raised.value)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a" * 25, "é", 3, "a b"])
def test_a_name_that_could_be_read_two_ways_is_refused(name):
    with pytest.raises(UsageError, match="no name for a server"):
        configured_servers({name: {"command": ["x"]}}, {})


def test_no_secret_is_shown():
    secret = "s3cr3t-value"
    server = configured_servers(
        {
            "one": {"command": ["x"], "env": {"KEY": secret}},
            "two": {"url": "https://a.example", "headers": {"Authorization": f"Bearer {secret}"}},
        },
        {},
    )
    plain = configured_servers(
        {
            "a": {"command": ["x"], "env": {"MODE": "readonly"}},
            "b": {"command": ["x"], "env": {"MODE": {"variable": "M"}}},
        },
        {"M": "readonly"},
    )
    assert [each.hide("it is readonly") for each in plain] == ["it is readonly", "it is [hidden]"]
    for each in server:
        assert secret not in repr(each)
        assert each.hide(f"failed with {secret}, alas") == "failed with [hidden], alas"
        schema = {"enum": [secret, 1], "properties": {secret: {"description": f"is {secret}"}}}
        assert secret not in str(each.hidden_in(schema))
    with pytest.raises(UsageError) as raised:
        configured_servers({"one": {"command": ["x"], "env": {"KEY": secret, "BAD NAME": "y"}}}, {})
    assert secret not in str(raised.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(["command", "url", "env", "headers", "timeout", "tools", "x"])


@given(st.dictionaries(st.text(max_size=6), st.dictionaries(KEYS, json_values) | json_values))
def test_whatever_is_configured_is_read_or_refused(settings):
    try:
        found = configured_servers(settings, {})
    except UsageError:
        return
    assert [each.name for each in found] == sorted(settings)
