"""The certificate authority of one sandbox: made anew for it, trusted in it, known nowhere else."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reprise.egress.policy import NoHost, normal_host

#: Sandboxes live for hours or weeks. Not before yesterday: their clocks are this machine's, but
#: programs in them may set one back.
_BEFORE: Final = dt.timedelta(days=1)
_AUTHORITY_DAYS: Final = dt.timedelta(days=3650)
#: Some clients refuse a server's certificate that is valid for more than 398 days.
_LEAF_DAYS: Final = dt.timedelta(days=390)
_RENEWED: Final = dt.timedelta(days=30)

#: Hosts whose certificates are kept; a wildcard rule may name any number of them.
_KEPT: Final = 256

#: What we speak with programs inside, whatever else they offer.
_ALPN: Final = ["http/1.1"]


class Authority:
    """Issues certificates for the hosts whose connections the proxy opens.

    Both keys lie in the memory of this process only. Of a long name only the subject is short: a
    common name has 64 characters at most, and clients look at the alternative names.

    certificate: PEM, for the sandbox to trust.
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._own()
        self.certificate = self._certificate.public_bytes(Encoding.PEM).decode("ascii")
        self._contexts: OrderedDict[str, tuple[ssl.SSLContext, dt.datetime]] = OrderedDict()

    def _own(self) -> x509.Certificate:
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Reprise"),
                x509.NameAttribute(NameOID.COMMON_NAME, "Reprise: this sandbox only"),
            ]
        )
        now = _now()
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    def context(self, host: str) -> ssl.SSLContext:
        """What a server that is `host` (a name, or an IP address) shakes hands with."""
        kept = self._contexts.pop(host, None)
        now = _now()
        if kept is None or kept[1] - now < _RENEWED:
            kept = self._context(host, now), now + _LEAF_DAYS
        self._contexts[host] = kept
        while len(self._contexts) > _KEPT:
            self._contexts.popitem(last=False)
        return kept[0]

    def _context(self, host: str, now: dt.datetime) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(_ALPN)
        context.sni_callback = _only(host)
        pem = self.leaf(host, now).public_bytes(Encoding.PEM) + self._leaf_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        # OpenSSL takes a certificate from a path only; this one leads into our own memory.
        descriptor = os.memfd_create("reprise-leaf")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as memory:
                memory.write(pem)
            context.load_cert_chain(Path(f"/proc/self/fd/{descriptor}"))
        finally:
            os.close(descriptor)
        return context

    def leaf(self, host: str, now: dt.datetime | None = None) -> x509.Certificate:
        """A certificate for one host, signed by this authority."""
        now = now or _now()
        return (
            x509.CertificateBuilder()
            .subject_name(
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
                if len(host) <= 64
                else x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Reprise")])
            )
            .issuer_name(self._certificate.subject)
            .public_key(self._leaf_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _LEAF_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._leaf_key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def _only(host: str) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], int | None]:
    """Ends handshakes that name another host than the one the connection was opened to."""

    def named(_tls: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        try:
            same = name is None or normal_host(name) == host
        except NoHost:
            same = False
        return None if same else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return named


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
