"""The typed errors of Reprise, each written for the person who reads it.

Every message says what happened, to which thing, what state things are in now and what
to do. One subclass for each thing a caller can react to differently.
"""

from __future__ import annotations


class RepriseError(Exception):
    """Base of all errors that Reprise raises on purpose.

    `exit_code` is what the command line ends with when this error reaches it:
    1 the thing asked about is not so, 2 wrong use, 3 a part is unavailable.
    """

    exit_code = 1


class UsageError(RepriseError):
    """The request itself is wrong: a bad argument, an unknown name, a malformed value."""

    exit_code = 2


class UnavailableError(RepriseError):
    """A part that is needed is not there: no database, no sandbox backend, a full disk."""

    exit_code = 3


class DatabaseUnavailable(UnavailableError):
    """Postgres cannot be reached; nothing was run, or an outcome still waits to be stored."""


class LogCorrupt(RepriseError):
    """The digest chain of a session does not add up; names the first bad step."""


class SessionNotFound(UsageError):
    """No session of this owner has that id."""


class KeyInUse(UsageError):
    """A step with this idempotency key is already in the session; nothing was run twice."""


class SessionNeeded(RepriseError):
    """A session cannot be deleted while forks need its steps; nothing was deleted."""


class LeaseHeld(UnavailableError):
    """Another process writes this session; says who and since when."""


class LeaseLost(RepriseError):
    """This process no longer writes the session: another took over or the log moved on."""


class SandboxError(UnavailableError):
    """A sandbox could not be started or reached; says which backend and why."""


class UntrustedCode(UsageError):
    """Code that nobody vouches for was to run where nothing isolates it; it was not let in."""


class SandboxDied(RepriseError):
    """The sandbox ended while it was needed; `cause` is the `DeathCause` of sandbox.contract."""

    def __init__(self, message: str, cause: object = None) -> None:
        super().__init__(message)
        self.cause = cause


class ProtocolViolation(SandboxDied):
    """The guest sent bytes that the frame protocol does not allow; the sandbox was ended."""


class GuestCallFailed(RepriseError):
    """The guest answered a call with an error (a path that is not there, a full disk, …).

    `kind` is for programs, "" when the guest named none; the kinds are in sandbox.contract.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ResumeCancelled(RepriseError):
    """An interrupt stopped a resume; the log is whole and the resume can be started again."""


class BadBundle(RepriseError):
    """A bundle that is none, is not whole or says what cannot be; nothing of it was imported."""


class TooLarge(UsageError):
    """Something offered is over its bound: a cell, a file, a folder; says the bound."""


class BadSkill(UsageError):
    """A folder that is no skill, or cannot be taken as one; names the file and what to mend."""


class SkillNotFound(UsageError):
    """No skill that this person may see has that name or digest."""


class SkillNotTrusted(UntrustedCode):
    """A skill that nobody with the right has approved was to run; it was not let in."""


class SkillRevoked(UntrustedCode):
    """Somebody with the right took this content of a skill back; it is not mounted any more."""


class NotAllowed(UsageError):
    """Whoever asks has not the right to do this; says who has. Nothing was changed."""
