"""The certificates: who signs what, and what a verifier would say."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509 import oid

from devcluster import kubeconfig, pki

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pki.Authorities:
    return pki.make(tmp_path_factory.mktemp("plane") / "pki", now=NOW)


def certificate(pair: pki.Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.crt.read_bytes())


@pytest.mark.parametrize(
    ("leaf", "authority"),
    [
        pytest.param("kube-apiserver", "serving-ca", id="api-server"),
        pytest.param("kcm-serving", "serving-ca", id="controller-manager"),
        pytest.param("sched-serving", "serving-ca", id="scheduler"),
        pytest.param("front-proxy-client", "front-proxy-ca", id="front-proxy"),
    ],
)
def test_each_certificate_is_of_its_own_authority_alone(made, leaf: str, authority: str):
    issued = certificate(made.pair(leaf))
    signers = []
    for name in ("ca", "serving-ca", "front-proxy-ca", "ext-ca"):
        try:
            issued.verify_directly_issued_by(certificate(made.pair(name)))
        except (ValueError, InvalidSignature):
            continue
        signers.append(name)
    assert signers == [authority]


def test_a_client_certificate_says_user_and_groups(made):
    pair = made.sign_client("alice", user="alice", groups=["one", "two"], now=NOW)
    subject = certificate(pair).subject
    assert (
        [a.value for a in subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)],
        [a.value for a in subject.get_attributes_for_oid(oid.NameOID.ORGANIZATION_NAME)],
    ) == (["alice"], ["one", "two"])


def test_a_server_certificate_names_its_service_and_this_machine(made):
    pair = made.sign_server("ours", names=["ours.space.svc", "10.1.2.3"], now=NOW)
    found = certificate(pair).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert (
        found.get_values_for_type(x509.DNSName),
        [str(address) for address in found.get_values_for_type(x509.IPAddress)],
    ) == (["localhost", "ours.space.svc"], ["10.1.2.3", "127.0.0.1"])


def test_certificates_are_good_an_hour_before_they_are_made(made):
    found = certificate(made.client_ca)
    assert (NOW - found.not_valid_before_utc).total_seconds() == 3600


def test_strict_verifiers_load_every_authority(made):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("ca", "serving-ca", "front-proxy-ca", "ext-ca"):
        context.load_verify_locations(str(made.pair(name).crt))
    assert len(context.get_ca_certs()) == 4


def test_keys_and_kubeconfigs_are_for_their_owner_only(made, tmp_path: Path):
    endpoint = kubeconfig.Endpoint("https://127.0.0.1:1", made.serving_ca.crt)
    config = kubeconfig.write_certificate(tmp_path / "k.yaml", endpoint, made.front_proxy_client)
    secret = [*made.folder.glob("*.key"), config]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
