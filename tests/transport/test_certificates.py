"""The founder signs what a member asked for, and nothing else."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peerwise.errors import ConfigError, NotTrusted
from peerwise.transport import certificate_facts, make_authority, make_request, sign_request


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, Path]:
    return make_authority(tmp_path / "founder", "ab" * 32)


def request_of(name: x509.Name, *hosts: x509.GeneralName, key: object = None, ca: bool = False) -> bytes:
    own = key or ec.generate_private_key(ec.SECP256R1())
    asked = x509.CertificateSigningRequestBuilder().subject_name(name)
    if hosts:
        asked = asked.add_extension(x509.SubjectAlternativeName(list(hosts)), critical=False)
    if ca:
        asked = asked.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return asked.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]


def common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def test_a_member_gets_a_certificate_for_both_ends_of_a_line(tmp_path: Path, authority: tuple[Path, Path]) -> None:
    key, asked = make_request(tmp_path / "member", "ward-7", ["peer.hospital.org", "10.1.2.3", "::1"])
    path = tmp_path / "ward-7.crt"
    path.write_bytes(sign_request(asked.read_bytes(), "ward-7", *authority))
    facts = certificate_facts(path)
    assert (facts.name, facts.hosts) == ("ward-7", ("peer.hospital.org", "10.1.2.3", "::1"))
    assert facts.begins < time.time() < facts.expires
    made = x509.load_pem_x509_certificate(path.read_bytes())
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority[1].read_bytes()))
    for private in (key, authority[0]):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_key_that_is_there_is_never_replaced(tmp_path: Path, authority: tuple[Path, Path]) -> None:
    before = authority[0].read_bytes()
    with pytest.raises(ConfigError, match="there already"):
        make_authority(authority[0].parent, "ab" * 32)
    assert authority[0].read_bytes() == before


def test_requests_that_are_not_what_they_should_be_are_refused(authority: tuple[Path, Path]) -> None:
    host = x509.DNSName("peer.hospital.org")
    good = request_of(common("ward"), host)
    two = x509.Name([*common("ward"), x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    short = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    cases = {
        "another name": request_of(common("other"), host),
        "two names": request_of(two, host),
        "no host": request_of(common("ward")),
        "a mail address": request_of(common("ward"), x509.RFC822Name("me@hospital.org")),
        "many hosts": request_of(common("ward"), *[x509.DNSName(f"h{number}.org") for number in range(9)]),
        "another kind of key": request_of(common("ward"), host, key=short),
        "nonsense": b"nonsense",
        "too long": good + b"\n" * 70_000,
        "a changed byte": good[:150] + (b"A" if good[150:151] != b"A" else b"B") + good[151:],
    }
    for data in cases.values():
        with pytest.raises(NotTrusted):
            sign_request(data, "ward", *authority)
    assert sign_request(good, "ward", *authority).startswith(b"-----BEGIN CERTIFICATE")


def test_who_asks_to_be_an_authority_becomes_none(authority: tuple[Path, Path]) -> None:
    asked = request_of(common("ward"), x509.DNSName("peer.hospital.org"), ca=True)
    made = x509.load_pem_x509_certificate(sign_request(asked, "ward", *authority))
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_a_certificate_ends_no_later_than_its_authority(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, "ab" * 32, days=2)
    made = sign_request(request_of(common("ward"), x509.DNSName("a.org")), "ward", *authority, days=900)
    (tmp_path / "ward.crt").write_bytes(made)
    assert certificate_facts(tmp_path / "ward.crt").expires <= certificate_facts(authority[1]).expires


def test_the_wrong_key_of_an_authority_is_noticed(tmp_path: Path, authority: tuple[Path, Path]) -> None:
    other, _ = make_authority(tmp_path / "other", "cd" * 32)
    with pytest.raises(ConfigError, match="is not the key of"):
        sign_request(request_of(common("ward"), x509.DNSName("a.org")), "ward", other, authority[1])


@pytest.mark.parametrize("hosts", [[], [""], ["a b"], ["http://a.org"], ["*.org"], ["a.org:7447"], ["x"] * 9])
def test_hosts_that_are_none_are_refused_before_a_key_is_made(tmp_path: Path, hosts: list[str]) -> None:
    with pytest.raises(ConfigError, match="host"):
        make_request(tmp_path, "ward", hosts)
    assert not list(tmp_path.iterdir())
