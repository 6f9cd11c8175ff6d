"""How a request to a kernel can fail, and the error that a refusal of the kernel stands for."""

from __future__ import annotations

from collections.abc import Mapping

from reprise import errors
from reprise.errors import RepriseError, UnavailableError
from reprise.log.model import Json


class KernelGone(UnavailableError):
    """The kernel process ended, or does not answer any more; its session is whole in the log."""


class NoAnswer(UnavailableError):
    """The kernel lives, but did not answer within the time that the caller gave."""


class ClientClosed(RepriseError):
    """The client was closed while, or before, this was asked."""


class DependenciesMissing(UnavailableError):
    """What a script says it needs is not in the session, and could not be brought there.

    `requirements` names it (PEP 508). The script was not run.
    """

    def __init__(self, message: str, requirements: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.requirements = requirements


class ProgramMissing(UnavailableError):
    """No program in the session runs this script, or none of the version that it needs."""


class Refused(RepriseError):
    """The kernel took no step for this request; says why. Nothing was run."""


def refusal(content: Mapping[str, Json]) -> RepriseError:
    """The error that a reply without a step tells, of the class that it names where that is ours.

    The name comes from another process, so it chooses among our errors and nothing else.
    """
    name, text = str(content.get("ename", "")), str(content.get("evalue") or "")
    found = getattr(errors, name, None)
    if found is errors.GuestCallFailed:
        return errors.GuestCallFailed(text, str(content.get("kind", "")))
    if isinstance(found, type) and issubclass(found, RepriseError):
        return found(text)
    said = f"{name}: {text}".strip(": ") or "it gave no reason"
    return Refused(f"The kernel did not do it: {said}")
