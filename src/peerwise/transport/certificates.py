"""Certificates of live peers: the founder's authority, a member's key and request, and the signature under it.

They prove who is at the other end of a connection, nothing more: what a site publishes is signed besides.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peerwise.errors import ConfigError, NotTrusted
from peerwise.parcels import write_atomic

EARLIER = datetime.timedelta(minutes=10)  # a member's clock may be behind
AUTHORITY_DAYS, MEMBER_DAYS = 3650, 397
MOST_HOSTS, MOST_REQUEST_BYTES = 8, 64 * 1024
USES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


@dataclass(frozen=True)
class CertificateFiles:
    """What a live peer needs: the authority's certificate, its own, and its private key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class CertificateFacts:
    """What a certificate holds."""

    name: str
    hosts: tuple[str, ...]
    begins: int
    expires: int


def make_authority(folder: str | Path, federation: str, *, days: int = AUTHORITY_DAYS) -> tuple[Path, Path]:
    """``ca.key``, which stays with the founder, and ``ca.crt``, which every member gets."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(f"Peerwise {federation[:16]}")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    made = _certificate(name, name, key.public_key(), days).add_extension(usage, critical=True)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    private, public = Path(folder) / "ca.key", Path(folder) / "ca.crt"
    _write_private(private, key)
    write_atomic(public, made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return private, public


def make_request(folder: str | Path, name: str, hosts: Iterable[str]) -> tuple[Path, Path]:
    """``<name>.key``, which never leaves this site, and ``<name>.csr``, which the founder signs. Other members find
    this one at ``hosts``: names or addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    request = request.add_extension(_hosts(list(hosts)), critical=False)
    private, asked = Path(folder) / f"{name}.key", Path(folder) / f"{name}.csr"
    _write_private(private, key)
    write_atomic(asked, request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return private, asked


def sign_request(
    request: bytes, name: str, authority_key: str | Path, authority: str | Path, *, days: int = MEMBER_DAYS
) -> bytes:
    """The certificate of member ``name``, as PEM. A request in another name, or one that its own key did not sign, is
    refused; of what it asks for, only its key and its hosts are taken over."""
    asked = _request(request, name)
    key = serialization.load_pem_private_key(Path(authority_key).read_bytes(), None)
    issuer = x509.load_pem_x509_certificate(Path(authority).read_bytes())
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != issuer.public_key():
        raise ConfigError(
            f"{authority_key} is not the key of {authority}: expected the pair that make_authority wrote."
        )
    public = asked.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    made = _certificate(issuer.subject, asked.subject, public, days, issuer.not_valid_after_utc)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(digital_signature=True), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage(USES), critical=False)
    made = made.add_extension(_hosts(_asked_hosts(asked)), critical=False)
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    made = made.add_extension(issued_by, critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def certificate_facts(path: str | Path) -> CertificateFacts:
    """Whose it is, where that member is found, and how long it holds."""
    try:
        found = x509.load_pem_x509_certificate(Path(path).read_bytes())
        hosts = _host_names(found.extensions) if found.extensions else []
    except (ValueError, UnsupportedAlgorithm, OSError) as error:
        raise ConfigError(
            f"{path} is no certificate ({error}): expected the PEM file that the founder sent."
        ) from error
    dates = found.not_valid_before_utc, found.not_valid_after_utc
    return CertificateFacts(_common_name(found.subject), tuple(hosts), *(int(date.timestamp()) for date in dates))


def _request(data: bytes, name: str) -> x509.CertificateSigningRequest:
    try:
        if len(data) > MOST_REQUEST_BYTES:
            raise ValueError(f"{len(data)} bytes")
        asked = x509.load_pem_x509_csr(data)
        public, signed = asked.public_key(), asked.is_signature_valid
        hosts = _asked_hosts(asked)
    except (ValueError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise NotTrusted(
            f"the request of {name!r} cannot be read ({error}): expected the .csr that init wrote."
        ) from error
    if not signed:
        raise NotTrusted(f"the request of {name!r} is not signed by its own key: it was changed. Ask for it again.")
    if asked.subject != _name(name):
        subject = asked.subject.rfc4514_string()
        raise NotTrusted(
            f"the request says {subject!r}: expected 'CN={name}'. Sign it in that name, or ask for another."
        )
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name not in ("secp256r1", "secp384r1"):
        raise NotTrusted(f"the request of {name!r} has a key of another kind: expected an elliptic curve, P-256.")
    if not 1 <= len(hosts) <= MOST_HOSTS:
        raise NotTrusted(f"the request of {name!r} names {len(hosts)} hosts: expected 1 to {MOST_HOSTS}.")
    return asked


def _asked_hosts(asked: x509.CertificateSigningRequest) -> list[str]:
    return _host_names(asked.extensions)


def _host_names(extensions: x509.Extensions) -> list[str]:
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    found = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    if len(found) != len(list(names)):
        raise ValueError("names that are neither hosts nor addresses")
    return found


def _hosts(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    if not 1 <= len(hosts) <= MOST_HOSTS:
        raise ConfigError(f"{len(hosts)} hosts: expected 1 to {MOST_HOSTS} names or addresses at which others find us.")
    return x509.SubjectAlternativeName([_host(host) for host in hosts])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not host.isascii() or not 0 < len(host) <= 253 or set(host) & set(" /:*@") or host.startswith("."):
        raise ConfigError(f"host {host[:80]!r}: expected a name such as 'peer.hospital.org', or an address.")
    return x509.DNSName(host)


def _certificate(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    until: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    expires = now + datetime.timedelta(days=days)
    made = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject).public_key(key)
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - EARLIER)
    made = made.not_valid_after(min(expires, until) if until else expires)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _common_name(subject: x509.Name) -> str:
    return "".join(str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already: expected none. Move it away if it is to be replaced.")
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    write_atomic(path, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain), private=True)
