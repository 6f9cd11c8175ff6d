"""Makes programs inside trust the sandbox's own authority, through the variables that they obey."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import glob
from collections.abc import MutableMapping

#: Where systems keep what they trust: Debian and Alpine, Red Hat, SUSE, others.
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

#: Read by: OpenSSL (Python's ssl, urllib, httpx, aiohttp), Go, uv; requests, conda; curl; pip; git;
#: the AWS libraries; cargo; Deno. Each takes the place of what the program trusts otherwise.
_WHOLE = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
)
#: Beside what Node and Deno bring along.
_MORE = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")

#: Bytes of a file of certificates that are read.
_MOST = 4 << 20


def trust(certificate: str, environ: MutableMapping[str, str], prefix: str) -> None:
    """Write what is trusted besides, and that together with the system's, and set the variables.

    prefix: of the language kernel, where certifi lies if the system trusts nobody.
    Before the language kernel starts: it, and every command, inherits them. Raises OSError.
    """
    folder = environ["REPRISE_RUNTIME"]
    own, all_ = f"{folder}/authority.pem", f"{folder}/trusted.pem"
    known = _known(environ, prefix)
    for path, text in ((own, certificate), (all_, f"{known.rstrip()}\n{certificate}".lstrip())):
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    # wget obeys no variable but the one that names its settings.
    wgetrc = f"{folder}/wgetrc"
    with open(wgetrc, "w", encoding="utf-8") as file:
        file.write(f"ca_certificate = {all_}\n")
    environ["SYSTEM_WGETRC"] = wgetrc
    for name in _WHOLE:
        environ[name] = all_
    for name in _MORE:
        environ[name] = own


def _known(environ: MutableMapping[str, str], prefix: str) -> str:
    """What programs here trust already: what a variable says, else the system, else certifi."""
    said = [environ[name] for name in _WHOLE if environ.get(name)]
    certifi = glob.iglob(f"{prefix}/lib/python3*/site-packages/certifi/cacert.pem")
    for path in (*said, *_SYSTEM, *certifi):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(_MOST)
        except OSError:
            continue
    return ""
