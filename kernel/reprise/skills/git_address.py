"""How a Git repository is named: which addresses are taken, and how they are shown (pure).

Taken: https, ssh (also written host:path), file, and a path on this machine. Not taken: what sends
content that anybody on the way could change (http, git), and what runs a program (ext::, as any
other remote helper).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from reprise.errors import UsageError
from reprise.workspace.manifest import shown

#: For GIT_ALLOW_PROTOCOL, which also holds for addresses that a server leads on to.
PROTOCOLS: Final = ("https", "ssh", "file")

_MAX: Final = 2_000
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HELPER: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::")
#: [user@]host:path of ssh; no "/" before the colon, or it is a path of this machine.
_SCP: Final = re.compile(r"(?:([^@:/\s]+)@)?([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):(?!//)(\S+)")
#: The page of a folder, as hosts of repositories show it: …/tree/REF/FOLDER.
_PAGE: Final = re.compile(
    r"(?P<repository>https://[^/]+/[^?#]+?)/(?:-/)?(?:tree|blob)/(?P<ref>[^/?#]+)(?:/(?P<folder>[^?#]*))?"
)


@dataclass(frozen=True)
class Address:
    """A repository.

    url: what git is given; may hold a password, so it is neither shown nor kept.
    shown: the same without one.  secrets: what must not be shown.
    ref, subfolder: when the address was that of a folder's page.
    """

    url: str
    shown: str
    secrets: tuple[str, ...] = ()
    ref: str = ""
    subfolder: str = ""

    def without_secrets(self, text: str) -> str:
        """What git said, without a password in it."""
        for secret in self.secrets:
            text = text.replace(secret, "****")
        return re.sub(r"(://)[^/@\s']+@", r"\1", text)


def is_address(text: str) -> bool:
    """Whether this names a repository elsewhere, rather than a path of this machine."""
    return bool(_URL.match(text) or _HELPER.match(text) or _SCP.fullmatch(text))


def address(text: str) -> Address:
    """The repository that a person named by an address. Raises UsageError."""
    if len(text) > _MAX or not text.isprintable() or text.startswith("-"):
        raise UsageError(f"{shown(text[:80])!r} is no address of a repository.")
    if _HELPER.match(text):
        raise UsageError(
            f"{text.partition('::')[0]}:: addresses run a program of their own choosing, so they "
            "are not taken. Name the repository by https or ssh."
        )
    if not _URL.match(text):
        return _by_ssh(text)
    try:
        parts = urlsplit(text)
        host, port, user, password = parts.hostname, parts.port, parts.username, parts.password
    except ValueError as error:
        raise UsageError(f"The address of the repository is none: {error}.") from error
    scheme = parts.scheme.lower()
    if scheme not in PROTOCOLS:
        raise UsageError(_not_taken(scheme))
    if parts.query or parts.fragment:
        raise UsageError(
            "An address of a repository has no ? and no #; this is one of a page. Name the "
            "repository, and a branch with --ref, a folder with --subfolder."
        )
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise UsageError("A file:// address names a path on this machine: file:///PATH.")
        return Address(text, text)
    if not host or host.startswith("-") or (user or "").startswith("-"):
        raise UsageError("The address of the repository names no host.")
    # The user of ssh is part of the address; with https it is often the token itself.
    kept = f"{user}@" if scheme == "ssh" and user else ""
    host = f"[{host}]" if ":" in host else host
    place = f"{kept}{host}" + (f":{port}" if port else "")
    plain = urlunsplit((scheme, place, parts.path, "", ""))
    hidden = [password] if scheme == "ssh" else [user, password]
    secrets = tuple(
        form for each in hidden if each for form in dict.fromkeys((each, unquote(each)))
    )
    if scheme == "https" and (page := _PAGE.fullmatch(plain)):
        credentials = parts.netloc.rpartition("@")[0]
        repository = page["repository"]
        url = repository.replace("://", f"://{credentials}@", 1) if credentials else repository
        folder = unquote(page["folder"] or "").strip("/")
        if folder.rpartition("/")[2].casefold() == "skill.md":
            folder = folder.rpartition("/")[0]
        return Address(url, repository, secrets, unquote(page["ref"]), folder)
    return Address(text, plain, secrets)


def _by_ssh(text: str) -> Address:
    """host:path, as ssh's users write it."""
    found = _SCP.fullmatch(text)
    if found is None or found[2].startswith("-") or (found[1] or "").startswith("-"):
        raise UsageError(f"{shown(text[:80])!r} is no address of a repository.")
    return Address(text, text)


def _not_taken(scheme: str) -> str:
    if scheme in ("http", "git"):
        return (
            f"{scheme}:// is not taken: anybody on the way could change what comes. Name the "
            "repository by https or ssh."
        )
    return f"{shown(scheme)}:// is not taken: {', '.join(PROTOCOLS)} are."


#: git-check-ref-format(1), and no more than one word of it: nothing that is an option, a range, a
#: refspec or a pattern.
_REF: Final = re.compile(
    r"(?![-/.])(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])"
)


def checked_ref(text: str) -> str:
    """A branch, a tag or a full commit id. Raises UsageError."""
    if len(text) > 250 or not text.isprintable() or not _REF.fullmatch(text) or text[0] == "+":
        raise UsageError(
            f"{shown(text[:80])!r} names no branch, tag or commit. Give one name, such as main, "
            "v1.2 or the full id of a commit."
        )
    return text


def is_commit(text: str) -> bool:
    """Whether this is the full id of a commit (SHA-1 or SHA-256)."""
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
