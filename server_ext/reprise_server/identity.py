"""Writes the session of a notebook's running kernel into the notebook when it is saved.

With `metadata.reprise.session` in the file, the next kernel of that notebook finds its session
(`reprise.jupyter.attachment`), whatever became of the server, its kernels or this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprise.jupyter.sidecar import read_sidecar

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def register(serverapp: ServerApp) -> None:
    """Have every save of a notebook write its session. Hooks that a user set stay."""
    manager = serverapp.contents_manager
    if not hasattr(manager, "register_pre_save_hook"):
        serverapp.log.warning(
            "Reprise: %s has no pre-save hooks, so notebooks do not name their sessions. A kernel"
            " finds its session while it lives, and by REPRISE_SESSION.",
            type(manager).__name__,
        )
        return

    def reprise_session_hook(model: dict[str, Any], path: str, **_: Any) -> None:
        # Jupyter Server logs whatever a hook raises (but an HTTPError) and saves all the same.
        write_session(model, session_of(serverapp, path))

    manager.register_pre_save_hook(reprise_session_hook)  # type: ignore[no-untyped-call]


def write_session(model: dict[str, Any], session: str | None) -> None:
    """Name a session in a notebook's model. What stands there stays when none is known."""
    content = model.get("content")
    if session is None or model.get("type") != "notebook" or not isinstance(content, dict):
        return
    metadata = content.setdefault("metadata", {})
    known = metadata.get("reprise")
    kept = dict(known) if isinstance(known, dict) else {}
    if kept.get("session", session) != session:
        # Up to where a page showed the session; of another one that says nothing.
        for name in ("step", "outputs"):
            kept.pop(name, None)
    metadata["reprise"] = {**kept, "session": session}


def session_of(serverapp: ServerApp, path: str) -> str | None:
    """The Reprise session of the kernel that runs for a notebook; None for other kernels."""
    kernels = serverapp.kernel_manager
    for kernel_id in _kernels_of(serverapp, path):
        if kernel_id in kernels:
            connection = getattr(kernels.get_kernel(kernel_id), "connection_file", None)
            found = read_sidecar(Path(connection)) if connection else None
            if found is not None:
                return str(found["session"])
    return None


def _kernels_of(serverapp: ServerApp, path: str) -> list[str]:
    """Ids of the kernels that clients started for a path, the newest first.

    Hooks are called synchronously and the session manager's methods are coroutines, so this
    asks its table. The path of a collaborative document has a drive's name before it.
    """
    bare = path.strip("/")
    manager = serverapp.session_manager
    _ = manager.cursor  # makes the table; a cursor of our own disturbs no query of the manager's
    cursor = manager.connection.cursor()
    cursor.execute(
        "SELECT kernel_id FROM session WHERE trim(path, '/') IN (?, ?) ORDER BY rowid DESC",
        (bare, f"RTC:{bare}"),
    )
    found = [str(row[0]) for row in cursor.fetchall()]
    cursor.close()
    return found
