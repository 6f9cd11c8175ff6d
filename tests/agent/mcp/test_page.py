"""docs/mcp.md says what is: its settings are read, its tools are listed, its policy is one."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

from reprise_server.agent.contract import Act, Situation
from reprise_server.agent.mcp.configured import LONGEST_TIMEOUT_S, TIMEOUT_S, configured_servers
from reprise_server.agent.mcp.listed import MOST_TOOLS, wire_name
from reprise_server.agent.mcp.server import serve
from reprise_server.agent.mcp.stdio import LONGEST_MESSAGE
from reprise_server.agent.policy.engine import evaluate
from reprise_server.agent.policy.reading import parse_policy
from reprise_server.agent.policy.rules import Level
from tests.agent.mcp.offered import offering_of

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()


def block(language: str) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)[0]


def test_the_settings_are_read():
    c = SimpleNamespace(RepriseAgent=SimpleNamespace())
    exec(block("python"), {"c": c})
    tickets, clock = configured_servers(
        c.RepriseAgent.mcp_servers, {"TICKETS_AUTHORIZATION": "Bearer abcdefgh"}
    )
    assert tickets.tools == {"search_tickets", "read_ticket"}
    assert tickets.headers == {"Authorization": "Bearer abcdefgh"}
    assert (clock.command, clock.timeout_s) == (("mcp-server-time",), TIMEOUT_S)
    assert f"({TIMEOUT_S:.0f}; at most" in PAGE
    assert f"at most {LONGEST_TIMEOUT_S:,.0f}" in PAGE
    assert f"up to {MOST_TOOLS} of them" in PAGE
    assert f"{LONGEST_MESSAGE >> 20} MiB" in PAGE
    assert f"`{wire_name('tickets', 'search_tickets')}`" in PAGE


def test_the_policy_allows_what_it_says():
    levels = [Level("personal", parse_policy(block("yaml"), "mcp.md"))]
    situation = Situation("me", "default", isolated=True)

    def decision(tool: str) -> str:
        act = Act(tool, "outside", {}, "use a tool", carries_out=True)
        return evaluate(levels, (), act, situation).decision

    assert decision("mcp/tickets/search_tickets") == "allow"
    assert decision("mcp/tickets/close_ticket") == "ask"


async def test_every_tool_has_its_place_in_the_table(log, tmp_path):
    json.loads(block("json"))
    table = PAGE.partition("| tool | what it does |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", table))
    server = await serve(offering_of(log, tmp_path))
    listed = await server.get_request_handler("tools/list").handler(None, None)
    assert {tool.name for tool in listed.tools} == named
