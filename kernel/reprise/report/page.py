"""A verify report as one self-contained HTML page: nothing is loaded, nothing of a session runs.

Everything in a report comes from a session and is untrusted. It is escaped wherever it stands
(`markup`), images are pictures only, and the page's policy lets no script run but its own.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from reprise import __version__
from reprise.replay.report import VERDICTS, Report
from reprise.report.markup import Html, join, short, tag
from reprise.report.states import section
from reprise.report.steps import MARKS, Room, card, css_class, duration, moment

#: What the language kernels of Python are called.
_PYTHON: Final = ("reprise", "python", "ipykernel")

#: Sentences of one kind on the page.
NOTED: Final = 100

_KEYS: Final = (
    ("j", "next step"),
    ("k", "step before"),
    ("n", "next difference"),
    ("o", "open or close"),
    ("0", "show all again"),
)


def page(report: Report, *, notebook: str | None, kernel: str) -> str:
    """The whole page. notebook: its path, for the title; kernel: the session's kernelspec."""
    room = Room()
    python = kernel.startswith(_PYTHON)
    # What differs comes first to whatever room there is.
    order = sorted(report.steps, key=lambda step: step.verdict in ("same", "skipped"))
    cards = {step.seq: card(step, room, python=python) for step in order}
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    name = short(PurePath(notebook).name, 120) if notebook else f"session {str(report.session)[:8]}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{'✓' if report.ok else '≠'} {name}: verified"),
        Html(f"<style>{style}</style>"),
    )
    body = tag(
        "body",
        tag("a", "Skip to the steps", href="#steps", class_="skip"),
        _header(report, name),
        tag(
            "main",
            _states(report),
            tag(
                "section",
                tag("h2", "Steps", id="steps"),
                _filters(report),
                tag("div", *(cards[step.seq] for step in report.steps), class_="steps"),
            ),
            _notes(report),
        ),
        _footer(report),
        Html(f"<script>{script}</script>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


@cache
def _resource(name: str) -> str:
    return files("reprise.report").joinpath(name).read_text("utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _header(report: Report, name: str) -> Html:
    recorded = sum(step.recorded_s for step in report.steps)
    facts = [
        ("Session", str(report.session)),
        ("Verified", moment(report.began_at)),
        ("Sandbox", short(report.backend, 40)),
        ("Replays", "two" if report.replays == 2 else "one"),
        ("First run", duration(recorded)),
        ("Took", duration(report.took_s)),
    ]
    if report.start:
        facts.append(("Compared from", f"step {report.start}"))
    mark = "✓" if report.ok else "≠"
    return tag(
        "header",
        tag(
            "div",
            tag(
                "div",
                tag("p", "Reprise ", tag("span", "verify"), class_="brand"),
                _contents(report),
                class_="top",
            ),
            tag(
                "div",
                tag("span", mark, class_="seal", aria_hidden="true"),
                tag("div", tag("p", name, class_="name"), tag("h1", report.sentence)),
                class_="verdict",
            ),
            _strip(report),
            tag(
                "dl",
                *(tag("div", tag("dt", key), tag("dd", value)) for key, value in facts),
                class_="about",
            ),
            class_="wide",
        ),
        class_="ok" if report.ok else "not-ok",
    )


def _contents(report: Report) -> Html:
    parts = [("#steps", "Steps"), ("#notes", "Notes")]
    if report.states:
        parts.insert(0, ("#left", "Left behind"))
    links = (tag("a", title, href=href) for href, title in parts)
    return tag("nav", *links, class_="sections", aria_label="On this page")


def _strip(report: Report) -> Html | None:
    """One mark a step: its height and its colour say the verdict, its name says both."""
    if not report.steps:
        return None
    marks = [
        tag(
            "a",
            href=f"#step-{step.seq}",
            class_=css_class(step.verdict),
            title=f"step {step.seq}: {step.verdict}",
            aria_label=f"step {step.seq}: {step.verdict}",
        )
        for step in report.steps
    ]
    # Hundreds of links help nobody who listens; the steps themselves follow below.
    quiet = len(marks) > 60
    return tag(
        "nav",
        *marks,
        class_="strip many" if len(marks) > 150 else "strip",
        aria_label="All steps",
        aria_hidden="true" if quiet else None,
    )


def _filters(report: Report) -> Html:
    """Buttons that the page's script brings to life; without it, all is shown."""
    buttons = []
    for verdict in VERDICTS:
        count = report.count(verdict)
        if count:
            mark = tag("span", MARKS[verdict], class_="mark", aria_hidden="true")
            label = (mark, verdict, " ", tag("b", str(count)))
            named = css_class(verdict)
            buttons.append(
                tag(
                    "button",
                    *label,
                    type="button",
                    class_=f"badge {named}",
                    data_show=named,
                    aria_pressed="true",
                )
            )
    keys = [join(tag("kbd", key), f" {what} ") for key, what in _KEYS]
    return tag(
        "div",
        tag("div", *buttons, class_="filters", role="group", aria_label="Show steps that are"),
        tag("p", *keys, class_="keys"),
        class_="tools",
    )


def _states(report: Report) -> Html | None:
    if not report.states:
        return None
    return tag(
        "section",
        tag("h2", "What the steps left behind", id="left"),
        section(report.states),
        class_="states",
    )


def _notes(report: Report) -> Html | None:
    parts: list[Html] = []
    if report.outside:
        items = (tag("li", short(each)) for each in report.outside[:NOTED])
        parts += [
            tag("h3", "The environment is not the one of the record"),
            tag("ul", *items),
        ]
    if report.unsaid:
        items = (tag("li", short(each)) for each in report.unsaid[:NOTED])
        parts += [tag("h3", "What was not compared"), tag("ul", *items)]
    scope = f" --from {report.start}" if report.start else ""
    last = report.steps[-1].seq if report.steps else 0
    twice = " --twice" if report.replays == 2 else ""
    command = f"reprise verify {report.session}{scope} --to {last}{twice} --html report.html"
    parts += [
        tag("h3", "To see this again"),
        tag("pre", tag("code", command), class_="source", tabindex="0"),
        tag(
            "p",
            "A step is played again in a fresh sandbox and compared with what was recorded when it"
            " first ran. “Volatile” means equal but for times, addresses and the like. Where a"
            " difference may come from is a guess made from the code and from what differs.",
            class_="reason",
        ),
    ]
    return tag("section", tag("h2", "Notes", id="notes"), *parts, class_="notes")


def _footer(report: Report) -> Html:
    return tag(
        "footer",
        tag(
            "p",
            f"Made by Reprise {__version__} on {moment(report.began_at)}. This page loads nothing"
            " and sends nothing.",
        ),
    )
