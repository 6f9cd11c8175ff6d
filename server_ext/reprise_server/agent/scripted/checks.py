"""What the Messages API refuses of a request, with its words as far as they are known (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from reprise_server.agent.scripted.check_messages import check_content, check_messages
from reprise_server.agent.scripted.check_tools import check_tools
from reprise_server.agent.scripted.models import traits
from reprise_server.agent.scripted.refusal import Invalid, known, object_of, whole

_BOTH: Final = frozenset(
    {
        "cache_control",
        "messages",
        "model",
        "output_config",
        "speed",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
_CREATE: Final = _BOTH | {
    "container",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "metadata",
    "service_tier",
    "stop_sequences",
    "stream",
}
#: Fields that a beta's header brings.
_BETA: Final = {
    "context_management": ("context-management-2025-06-27", "compact-2026-01-12"),
    "compaction": ("compact-2026-09-04",),
}
#: Betas that this server takes; the API refuses names that it does not know, too.
BETAS: Final = frozenset(
    {
        "cache-diagnosis-2026-04-07",
        "compact-2026-01-12",
        "compact-2026-09-04",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "extended-cache-ttl-2025-04-11",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "model-context-window-exceeded-2025-08-26",
        "prompt-caching-2024-07-31",
        "structured-outputs-2025-11-13",
        "token-counting-2024-11-01",
    }
)
_GONE: Final = ("temperature", "top_p", "top_k")
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
MAX_BREAKPOINTS: Final = 4


def check_create(body: Any, betas: Collection[str] = ()) -> dict[str, Any]:
    """A body of POST /v1/messages, as it came, if the API takes it. Raises Invalid."""
    given = _object(body, _CREATE, betas, needs=("model", "max_tokens", "messages"))
    most = traits(given["model"]).output
    limit = whole(given["max_tokens"], "max_tokens", least=0)
    if limit > most:
        raise Invalid(
            f"max_tokens: {limit} > {most}, which is the maximum allowed number of output tokens "
            f"for {given['model']}"
        )
    for name, choices in (("stream", (True, False)), ("service_tier", ("auto", "standard_only"))):
        if name in given and given[name] not in choices:
            raise Invalid(f"{name}: Input should be one of {choices}")
    if (stops := given.get("stop_sequences")) is not None and not (
        isinstance(stops, list) and all(isinstance(stop, str) and stop.strip() for stop in stops)
    ):
        raise Invalid("stop_sequences: each stop sequence must contain non-whitespace")
    if "metadata" in given:
        known(object_of(given["metadata"], "metadata"), {"user_id"}, "metadata")
    _check(given, betas)
    return given


def check_count(body: Any, betas: Collection[str] = ()) -> dict[str, Any]:
    """A body of POST /v1/messages/count_tokens, as it came. Raises Invalid."""
    given = _object(body, _BOTH, betas, needs=("model", "messages"))
    _check(given, betas)
    return given


def check_betas(header: str) -> frozenset[str]:
    """The betas that a header `anthropic-beta` names. Raises Invalid for one that nobody knows."""
    named = frozenset(name.strip() for name in header.split(",") if name.strip())
    if odd := sorted(named - BETAS):
        listed = ", ".join(f"`{name}`" for name in odd)
        raise Invalid(f"Unexpected value(s) {listed} for the `anthropic-beta` header.")
    return named


def _object(
    body: Any, names: Collection[str], betas: Collection[str], needs: tuple[str, ...]
) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Invalid("The request body is not valid JSON")
    for name in _GONE:
        if name in body:
            raise Invalid(f"`{name}` is not supported for this model.")
    open_now = {field for field, bring in _BETA.items() if any(beta in betas for beta in bring)}
    known(body, set(names) | open_now, "")
    for name in needs:
        if name not in body:
            raise Invalid(f"{name}: Field required")
    if not isinstance(body["model"], str) or not body["model"]:
        raise Invalid("model: Input should be a valid string")
    return body


def _check(given: Mapping[str, Any], betas: Collection[str]) -> None:
    marks: list[Any] = []
    names = check_tools(given, marks)
    system = given.get("system")
    if system is not None and not isinstance(system, str):
        if not isinstance(system, list):
            raise Invalid("system: Input should be a valid list")
        check_content(system, "system", {"text"}, marks)
    check_messages(given, names, marks)
    _check_caching(given, marks)
    _check_thinking(given)
    if (config := given.get("output_config")) is not None:
        known(object_of(config, "output_config"), {"effort", "format"}, "output_config")
        if config.get("effort", "high") not in _EFFORTS:
            raise Invalid(f"output_config.effort: Input should be one of {_EFFORTS}")
    if "compaction" in given:
        _check_compaction(given)
    if (managed := given.get("context_management")) is not None:
        _check_edits(object_of(managed, "context_management"), betas)


def _check_caching(given: Mapping[str, Any], marks: list[Any]) -> None:
    """At most four places, those of an hour before those of five minutes (docs, prompt caching)."""
    if (top := given.get("cache_control")) is not None:
        marks = [*marks, top]
    ttls = []
    for mark in marks:
        known(object_of(mark, "cache_control"), {"type", "ttl"}, "cache_control")
        if mark.get("type") != "ephemeral":
            raise Invalid("cache_control.type: Input should be 'ephemeral'")
        if mark.get("ttl", "5m") not in ("5m", "1h"):
            raise Invalid("cache_control.ttl: Input should be '5m' or '1h'")
        ttls.append(mark.get("ttl", "5m"))
    if len(marks) > MAX_BREAKPOINTS:
        raise Invalid(
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {len(marks)}."
        )
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        raise Invalid(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
        )


def _check_thinking(given: Mapping[str, Any]) -> None:
    if (thinking := given.get("thinking")) is None:
        return
    kind = object_of(thinking, "thinking").get("type")
    if kind == "enabled":
        raise Invalid(
            "thinking: `enabled` is not supported for this model. Use `adaptive` with "
            "`output_config.effort`."
        )
    if kind not in ("adaptive", "disabled", "between_tools"):
        raise Invalid("thinking.type: Input should be 'adaptive', 'between_tools' or 'disabled'")
    known(thinking, {"type", "display"} if kind == "adaptive" else {"type"}, f"thinking.{kind}")
    if thinking.get("display", "summarized") not in ("summarized", "omitted", None):
        raise Invalid("thinking.display: Input should be 'summarized' or 'omitted'")
    choice = (given.get("tool_choice") or {}).get("type")
    if kind != "disabled" and choice in ("any", "tool"):
        raise Invalid("Thinking may not be enabled when tool_choice forces tool use.")


def _check_compaction(given: Mapping[str, Any]) -> None:
    asked = object_of(given["compaction"], "compaction")
    known(asked, {"type", "instructions"}, "compaction")
    if asked.get("type") != "summarize":
        raise Invalid("compaction.type: Input should be 'summarize'")
    if given.get("context_management") is not None:
        raise Invalid("compaction: cannot be combined with context_management")


_EDITS: Final = {
    "clear_tool_uses_20250919": {
        "type",
        "trigger",
        "keep",
        "clear_at_least",
        "exclude_tools",
        "clear_tool_inputs",
    },
    "clear_thinking_20251015": {"type", "keep"},
    "compact_20260112": {"type", "trigger", "instructions", "pause_after_compaction"},
}


def _check_edits(managed: Mapping[str, Any], betas: Collection[str]) -> None:
    known(managed, {"edits"}, "context_management")
    seen: list[str] = []
    edits = managed.get("edits") or []
    if not isinstance(edits, list):
        raise Invalid("context_management.edits: Input should be a valid list")
    for number, edit in enumerate(edits):
        where = f"context_management.edits.{number}"
        kind = object_of(edit, where).get("type")
        if not isinstance(kind, str) or kind not in _EDITS:
            raise Invalid(f"{where}: Input tag '{kind}' found does not match any of the tags")
        needed = _BETA["context_management"][kind == "compact_20260112"]
        if needed not in betas:
            raise Invalid(f"{where}: '{kind}' needs the beta header {needed}")
        known(edit, _EDITS[kind], where)
        for name in ("trigger", "keep", "clear_at_least"):
            if edit.get(name) not in (None, "all"):
                amount = object_of(edit[name], f"{where}.{name}")
                known(amount, {"type", "value"}, f"{where}.{name}")
                if amount.get("type") != "all":
                    whole(amount.get("value"), f"{where}.{name}.value", least=0)
        seen.append(kind)
    if "clear_thinking_20251015" in seen[1:]:
        raise Invalid("context_management.edits: clear_thinking_20251015 must be the first edit")
    if len(set(seen)) < len(seen):
        raise Invalid("context_management.edits: each strategy may be given once")
