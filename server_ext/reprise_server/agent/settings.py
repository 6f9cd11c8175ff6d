"""What an operator sets of the agent in `jupyter_server_config.py`, or a person by variables."""

from __future__ import annotations

import os
from typing import Any, Final, NoReturn

from traitlets import Bool, Dict, Enum, Float, Int, Integer, List, TraitError, Unicode, default
from traitlets.config import LoggingConfigurable

#: The key is read from here and from nowhere else by default; it is never written anywhere.
KEY: Final = "ANTHROPIC_API_KEY"


class Secret(Unicode[str, str]):
    """A text that no error repeats."""

    def error(self, obj: Any, value: Any, error: Any = None, info: Any = None) -> NoReturn:
        del obj, value, error, info
        raise TraitError(f"{self.name} must be a text (what was given is not repeated here)")


class SecretDict(Dict):
    """A dictionary whose values may be secrets: no error repeats them."""

    def error(self, obj: Any, value: Any, error: Any = None, info: Any = None) -> NoReturn:
        del obj, value, error, info
        raise TraitError(f"{self.name} must be a dict (what was given is not repeated here)")


class RepriseAgent(LoggingConfigurable):
    """Settings of the agent: `c.RepriseAgent.model = "claude-opus-5-5"`."""

    model = Unicode("claude-sonnet-5-5", config=True, help="The model of new conversations.")
    provider = Enum(
        ["anthropic", "bedrock", "vertex"],
        "anthropic",
        config=True,
        help="Whose clients speak with the model: Anthropic's API (or any endpoint that speaks it),"
        " Amazon Bedrock, Google Vertex AI.",
    )
    base_url = Unicode(
        "", config=True, help="Another endpoint of the Messages API (default: ANTHROPIC_BASE_URL)."
    )
    api_key = Secret(
        "",
        config=True,
        help=f"The key of the API (default: the variable {KEY}; of Bedrock and Vertex: what their"
        " own libraries find). It stays in this process.",
    )
    region = Unicode(
        "", config=True, help="Of Bedrock or Vertex (default: AWS_REGION or CLOUD_ML_REGION)."
    )
    project = Unicode(
        "", config=True, help="Of Vertex (default: ANTHROPIC_VERTEX_PROJECT_ID, or as signed in)."
    )
    max_tokens = Integer(16_000, min=1, config=True, help="Tokens of one answer, at most.")
    context_tokens = Integer(
        200_000, min=10_000, config=True, help="The model's context; near it, it is compacted."
    )
    thinking = Bool(True, config=True, help="Adaptive thinking; off for models that know none.")
    effort = Enum(
        ["", "low", "medium", "high", "xhigh", "max"],
        "",
        config=True,
        help="How much effort an answer takes; empty: as the API sees fit.",
    )
    strict_tools = Bool(
        True, config=True, help="Tools are declared strict; off for endpoints that know it not."
    )
    context_management = Enum(
        ["api", "own"],
        config=True,
        help="Who keeps a long conversation within the context: the API (beta: old results are left"
        " out, then it is compacted) or Reprise alone (a summary that it asks the model for)."
        " Default: api with Anthropic's own endpoint, else own.",
    )
    turn_requests = Integer(50, min=1, config=True, help="Requests to the model in one turn.")
    turn_tokens = Integer(
        0, min=0, config=True, help="Tokens of one turn, in and out; 0: no bound."
    )
    money = Unicode(
        "",
        config=True,
        help='What one conversation may cost, such as "2.50 USD"; empty: no bound. A model without'
        " a price in `prices` is refused then.",
    )
    prices = Dict(
        config=True,
        help="What a million tokens cost, by model: {model: {input, output, cache_write,"
        ' cache_read, currency}}; amounts as texts ("3.00").',
    )
    attempts = Int(8, min=1, config=True, help="Times that one request is tried, waits between.")
    longest_wait = Float(
        300.0, min=0.0, config=True, help="Seconds of one wait, whatever the server asks for."
    )
    silence = Float(
        300.0,
        min=1.0,
        config=True,
        help="Seconds without a byte after which an attempt has failed.",
    )
    approval_patience = Float(
        300.0, min=1.0, config=True, help="Seconds after which an unanswered question is denied."
    )
    policy_file = Unicode(
        "", config=True, help="A policy of this server, above those of the organisation and teams."
    )
    mcp_servers = SecretDict(
        config=True,
        help="MCP servers whose tools are offered to the agent: {NAME: {command: [WORD, …], env}}"
        " or {NAME: {url, headers}}.",
    )
    untrusted_paths = List(
        Unicode(), config=True, help="Patterns of workspace paths whose content is not trusted."
    )

    @default("api_key")
    def _api_key(self) -> str:
        # Of another provider it would be sent to somebody whom it is not for.
        return os.environ.get(KEY, "") if self.provider == "anthropic" else ""

    @default("context_management")
    def _context_management(self) -> str:
        elsewhere = self.base_url or os.environ.get("ANTHROPIC_BASE_URL", "")
        return "api" if self.provider == "anthropic" and not elsewhere else "own"
