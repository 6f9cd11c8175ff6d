"""The parts of the API: each has its handlers in `NAME.py` and its paths in `openapi/NAME.yaml`."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from jupyter_server.base.handlers import JupyterHandler

from reprise_server.api import (
    agent,
    bundles,
    conversation_socket,
    conversations,
    decisions,
    environments,
    job_reports,
    jobs,
    outputs,
    policies,
    policy_trials,
    server,
    session_acts,
    session_environment,
    session_files,
    session_notebook,
    session_rows,
    session_status,
    session_steps,
    session_uploads,
    sessions,
    skill_governance,
    skill_past,
    skills,
)
from reprise_server.api.base import Endpoint
from reprise_server.api.document import Document, assembled, parts_paths

#: A part adds its endpoints here, and its name below. (`server` is in openapi/base.yaml.)
ENDPOINTS: Final[tuple[type[Endpoint], ...]] = (
    *server.ENDPOINTS,
    *environments.ENDPOINTS,
    *skills.ENDPOINTS,
    *skill_past.ENDPOINTS,
    *skill_governance.ENDPOINTS,
    *sessions.ENDPOINTS,
    *session_steps.ENDPOINTS,
    *outputs.ENDPOINTS,
    *session_rows.ENDPOINTS,
    *session_files.ENDPOINTS,
    *session_uploads.ENDPOINTS,
    *session_acts.ENDPOINTS,
    *session_environment.ENDPOINTS,
    *session_status.ENDPOINTS,
    *session_notebook.ENDPOINTS,
    *bundles.ENDPOINTS,
    *jobs.ENDPOINTS,
    *job_reports.ENDPOINTS,
    *decisions.ENDPOINTS,
    *conversations.ENDPOINTS,
    *agent.ENDPOINTS,
    *policies.ENDPOINTS,
    *policy_trials.ENDPOINTS,
)
PARTS: Final[tuple[str, ...]] = (
    "environments",
    "skills",
    "skill_governance",
    "sessions",
    "session_rows",
    "session_environment",
    "session_status",
    "outputs",
    "jobs",
    "job_reports",
    "decisions",
    "conversations",
    "policies",
)

ROOT: Final = "/reprise/api"


@cache
def document() -> Document:
    """The whole document. What an Authorizer is asked about is said by the handlers alone."""
    found = assembled(PARTS)
    for endpoint in ENDPOINTS:
        for method, made in endpoint.operations.items():
            found.value["paths"][endpoint.path][method]["x-jupyter"] = {
                "action": made.action,
                "resource": made.resource or endpoint.auth_resource,
                "widens": made.widens,
            }
    return found


def routes() -> list[tuple[str, type[JupyterHandler]]]:
    """Patterns without the server's base URL, and their handlers, in the order to be tried in."""
    by_path = {endpoint.path: endpoint for endpoint in ENDPOINTS}
    found: list[tuple[str, type[JupyterHandler]]] = [
        (pattern(path), by_path[path]) for path in parts_paths(by_path)
    ]
    socket = pattern(conversation_socket.PATH)
    return [
        (socket, conversation_socket.ConversationSocket),
        *found,
        (f"{ROOT}(?:/.*)?", server.Nothing),
    ]


def pattern(template: str) -> str:
    """A template's regular expression; a parameter is one piece between slashes."""
    pieces = [
        "([^/]+)" if each.startswith("{") else re.escape(each) for each in template.split("/")
    ]
    return ROOT + "/".join(pieces)
