"""Serving certificate and client authorities: one live context, reloaded when files or trust change.

Client certificates are asked for and not required. Python aborts the handshake of a client whose
certificate chains to none of the authorities loaded, so both pools (front proxy and clients) are in
the context; which of them a peer chains to is found afterwards by `Pool`. An authority can be added to
a live context and not removed: what a peer may claim is decided by the current `Pool`, never by the
handshake alone.
"""

import _ssl
import asyncio
import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from prometheus_client import Counter

log = structlog.get_logger(__name__)

HTTP2: Final = "h2"
HTTP1: Final = "http/1.1"
RELOAD_EVERY: Final = 10.0
"""Seconds between looks at the files: kubelet swaps a symlink, which file watches miss."""


class Serving:
    """The TLS context of the listener and the files behind it."""

    def __init__(
        self, certificate: Path, key: Path, errors: Counter | None = None, *, http2: bool = True
    ) -> None:
        self._files = (certificate, key)
        self._errors = errors
        self._seen = self._stamp()
        self.context = _context(http2=http2)
        self.context.load_cert_chain(certificate, key)

    def trust(self, authorities: str) -> None:
        """Let clients present certificates of these authorities too (PEM)."""
        if authorities.strip():
            self.context.load_verify_locations(cadata=authorities)

    async def watch(self) -> None:
        """Reload the pair when a file changes, until cancelled; a bad pair leaves the old one."""
        while True:
            await asyncio.sleep(RELOAD_EVERY)
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Load certificate and key again if they changed; True when a new pair is in use."""
        stamp = self._stamp()
        if stamp == self._seen or not stamp:
            return False
        try:
            # Into a context of its own first: a live one keeps half of a pair that does not match.
            _context().load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            log.exception("serving certificate not reloaded", error=type(error).__name__)
            if self._errors is not None:
                self._errors.inc()
            return False
        self._seen = stamp
        log.info("serving certificate reloaded")
        return True

    def not_after(self) -> datetime:
        """Return when the certificate on disk ends."""
        return x509.load_pem_x509_certificate(self._files[0].read_bytes()).not_valid_after_utc

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        try:
            stats = [path.stat() for path in self._files]
        except OSError:
            return ()
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)


def _context(*, http2: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    # Upstream's Go server takes what OpenSSL 3.13's strict default would not: CN-only leaves, old CAs.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    # kube-apiserver never resumes a session, and over HTTP/1.1 opens a connection for each request beyond
    # 25 in flight: tickets, with the client's certificate in each, were a quarter of a handshake's time.
    context.num_tickets = 0
    context.set_alpn_protocols([HTTP2, HTTP1] if http2 else [HTTP1])
    return context


class Pool:
    """A set of authorities; tells whether a client certificate chains to one of them."""

    def __init__(self, pem: str) -> None:
        self.pem = pem
        self.roots = tuple(x509.load_pem_x509_certificates(pem.encode())) if pem.strip() else ()

    def __len__(self) -> int:
        return len(self.roots)

    def shares_with(self, other: "Pool") -> bool:
        """Say whether both trust a common authority."""
        return not set(self.roots).isdisjoint(other.roots)

    def verify(
        self, leaf: x509.Certificate, between: Sequence[x509.Certificate], now: datetime
    ) -> bool:
        """Say whether the leaf is a valid client certificate under this pool at a time."""
        if not self.roots:
            return False
        verifier = (
            verification.PolicyBuilder()
            .store(verification.Store(list(self.roots)))
            .time(now)
            .extension_policies(ca_policy=_authority_policy(), ee_policy=_client_policy())
            .build_client_verifier()
        )
        try:
            verifier.verify(leaf, list(between))
        except verification.VerificationError:
            return False
        return True


def _authority_policy() -> verification.ExtensionPolicy:
    """Take what says it is an authority: hand-made ones lack a key usage."""
    return (
        verification.ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, verification.Criticality.AGNOSTIC, _is_authority)
        .may_be_present(x509.KeyUsage, verification.Criticality.AGNOSTIC, _may_sign)
    )


def _client_policy() -> verification.ExtensionPolicy:
    """Ask for client authentication, not for an alternative name: kubeadm's leaf has none."""
    return verification.ExtensionPolicy.permit_all().require_present(
        x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, _is_for_clients
    )


def _is_authority(
    _policy: verification.Policy, _cert: x509.Certificate, constraints: x509.BasicConstraints
) -> None:
    if not constraints.ca:
        raise ValueError("not an authority")


def _may_sign(
    _policy: verification.Policy, _cert: x509.Certificate, usage: x509.KeyUsage | None
) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("may not sign certificates")


def _is_for_clients(
    _policy: verification.Policy, _cert: x509.Certificate, usage: x509.ExtendedKeyUsage
) -> None:
    if not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(
        usage
    ):
        raise ValueError("not for client authentication")


def peer_certificates(connection: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """Return the peer's certificates as DER, the leaf first; empty when it presented none."""
    if connection is None:
        return ()
    leaf = connection.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    # Public from Python 3.13; before that on the private object. Without it: no intermediates.
    chain = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", None)
    presented = (chain() if chain is not None else None) or ()
    others = [one.public_bytes(_ssl.ENCODING_DER) for one in presented]
    return (leaf, *(one for one in others if one != leaf))


def common_name(subject: x509.Name) -> str:
    """Return the first CN of a name, empty when there is none."""
    return _first(subject, NameOID.COMMON_NAME)


def organizations(subject: x509.Name) -> tuple[str, ...]:
    """Return every O of a name: the groups of a client certificate."""
    found = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return tuple(str(one.value) for one in found)


def _first(subject: x509.Name, oid: x509.ObjectIdentifier) -> str:
    return next((str(one.value) for one in subject.get_attributes_for_oid(oid)), "")
