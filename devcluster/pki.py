"""The certificates of one control plane: ECDSA P-256 throughout, made in about 40 ms.

Three authorities besides the cluster's client CA, because a real cluster keeps them apart and the
product must not mix them up: serving, front-proxy (who may speak for others), and ext (what
signs aggregated servers; its certificate is the APIService's caBundle).
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

SERVICE_IP = "10.96.0.1"
_KUBERNETES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_CLIENT = oid.ExtendedKeyUsageOID.CLIENT_AUTH
_SERVER = oid.ExtendedKeyUsageOID.SERVER_AUTH
_LIFE = timedelta(days=3650)
_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, PEM, by path."""

    crt: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authorities:
    """The folder of one plane's PKI; every name is a fixed place in it."""

    folder: Path

    def pair(self, name: str) -> Pair:
        """Return where the pair `name` lies, made or not."""
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    @property
    def client_ca(self) -> Pair:
        """Signs client certificates: a user is its CN, groups are its Os."""
        return self.pair("ca")

    @property
    def serving_ca(self) -> Pair:
        """Signs what the control plane serves with."""
        return self.pair("serving-ca")

    @property
    def front_proxy_ca(self) -> Pair:
        """Signs only the aggregator's own client certificate."""
        return self.pair("front-proxy-ca")

    @property
    def front_proxy_client(self) -> Pair:
        """The certificate kube-apiserver shows to aggregated servers."""
        return self.pair("front-proxy-client")

    @property
    def ext_ca(self) -> Pair:
        """Signs aggregated servers and webhooks."""
        return self.pair("ext-ca")

    @property
    def service_account_key(self) -> Path:
        """Private key that signs ServiceAccount tokens."""
        return self.folder / "sa.key"

    @property
    def service_account_public_key(self) -> Path:
        """Public key that verifies ServiceAccount tokens."""
        return self.folder / "sa.pub"

    def sign_client(self, name: str, *, user: str, groups: Sequence[str], now: datetime) -> Pair:
        """Make a client certificate for `user` in `groups`, as the pair `name`."""
        subject = _subject(user, groups)
        return _leaf(self.client_ca, self.pair(name), subject, purpose=_CLIENT, now=now)

    def sign_proxy(self, name: str, *, user: str, now: datetime) -> Pair:
        """Make a client certificate of the front-proxy CA for another name than the aggregator's."""
        subject = _subject(user, ())
        return _leaf(self.front_proxy_ca, self.pair(name), subject, purpose=_CLIENT, now=now)

    def sign_server(self, name: str, *, names: Sequence[str], now: datetime) -> Pair:
        """Make a serving certificate of the ext CA for DNS `names`, localhost and 127.0.0.1."""
        everywhere = ("localhost", *names, "127.0.0.1")
        subject = _subject(name, ())
        return _leaf(
            self.ext_ca, self.pair(name), subject, names=everywhere, purpose=_SERVER, now=now
        )


def make(folder: Path, *, now: datetime) -> Authorities:
    """Make all authorities and the control plane's own certificates in `folder`."""
    folder.mkdir(parents=True, mode=0o700)
    made = Authorities(folder)
    for name in ("ca", "serving-ca", "front-proxy-ca", "ext-ca"):
        _authority(made.pair(name), name, now)
    for name in ("kube-apiserver", "kcm-serving", "sched-serving"):
        names = (*_KUBERNETES, "127.0.0.1", SERVICE_IP)
        subject = _subject(name, ())
        _leaf(made.serving_ca, made.pair(name), subject, names=names, purpose=_SERVER, now=now)
    subject = _subject("front-proxy-client", ())
    _leaf(made.front_proxy_ca, made.front_proxy_client, subject, purpose=_CLIENT, now=now)
    key = ec.generate_private_key(ec.SECP256R1())
    _write(made.service_account_key, _pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(made.service_account_public_key, public)
    return made


def _authority(pair: Pair, name: str, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name, ())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _dated(subject, subject, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write(pair.key, _pem(key))
    _write(pair.crt, _certificate(builder.sign(key, hashes.SHA256())))


def _leaf(
    issuer: Pair,
    pair: Pair,
    subject: x509.Name,
    *,
    names: Sequence[str] = (),
    purpose: x509.ObjectIdentifier,
    now: datetime,
) -> Pair:
    ca = x509.load_pem_x509_certificate(issuer.crt.read_bytes())
    ca_key = serialization.load_pem_private_key(issuer.key.read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _dated(subject, ca.subject, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        # OpenSSL 3 and Python refuse a leaf without it.
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if names:
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternative, critical=False)
    _write(pair.key, _pem(key))
    _write(pair.crt, _certificate(builder.sign(ca_key, hashes.SHA256())))
    return pair


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(oid.NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(oid.NameOID.COMMON_NAME, user)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The SEC1 form: kube-apiserver and KCM read ECDSA service account keys in it.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    """Write a file only its owner may read; replaces an older one whole."""
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    part.replace(path)
