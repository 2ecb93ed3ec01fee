"""Certificates of every good and bad kind, made with cryptography."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate, its key, and who issued it."""

    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuer: "Issued | None" = None

    @property
    def pem(self) -> str:
        return self.cert.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.cert.public_bytes(serialization.Encoding.DER)

    def save(self, folder: Path, name: str, *between: "Issued") -> tuple[Path, Path]:
        """Write certificate (with intermediates) and key; return their paths."""
        cert, key = folder / f"{name}.crt", folder / f"{name}.key"
        cert.write_text("".join(one.pem for one in (self, *between)))
        key.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert, key


def _name(common: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def issue(
    common: str,
    issuer: Issued | None = None,
    *,
    is_ca: bool = False,
    key_usage: bool = True,
    purposes: tuple[x509.ObjectIdentifier, ...] = (CLIENT,),
    organizations: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    start: dt.datetime = NOW - 400 * DAY,
    end: dt.datetime = NOW + 4000 * DAY,
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common, organizations)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.cert.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
    if is_ca:
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if key_usage:
            builder = builder.add_extension(_signing(), critical=True)
    elif purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if hosts:
        names = [x509.DNSName(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if issuer:
        public = issuer.key.public_key()
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
        builder = builder.add_extension(above, critical=False)
    signed = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    return Issued(signed, key, issuer)


def _signing() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def authority(common: str, issuer: Issued | None = None, **how) -> Issued:
    return issue(common, issuer, is_ca=True, **how)
