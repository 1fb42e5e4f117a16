"""Certificate authorities and certificates for development and tests, not for production.

Private keys are EC keys on the curve P-256. Files with private keys have mode 0600.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tidelog.base.clock import SYSTEM_CLOCK

DAY: Final = datetime.timedelta(days=1)
_CA_USAGE: Final = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def common_name(text: str) -> x509.Name:
    """Return the name CN=text."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Identity:
    """A private key, its certificate, and the certificates of its issuers without the root."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    def key_pem(self, password: str | None = None) -> str:
        """Return the private key, encrypted if there is a password."""
        cipher = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher).decode()

    def chain_pem(self) -> str:
        """Return the certificate and those of its issuers."""
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.issuers))

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Write key and chain to one file, which replaces an existing file atomically."""
        new = path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(self.key_pem(password) + self.chain_pem())
        return new.replace(path)


@dataclass(frozen=True)
class Authority:
    """An issuer of certificates."""

    identity: Identity

    @classmethod
    def create(
        cls,
        name: str = "Test CA",
        issuer: Authority | None = None,
        *,
        lifetime: datetime.timedelta = DAY,
    ) -> Authority:
        """Return a root authority, or one whose certificate is issued by `issuer`."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer = issuer.identity if issuer is not None else None
        certificate = (
            _builder(common_name(name), signer.certificate.subject if signer else common_name(name), lifetime)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_issuer_key(signer.key if signer else key), critical=False)
            .sign(signer.key if signer else key, SHA256())
        )
        issuers = () if issuer is None else issuer.own_chain()
        return cls(Identity(key, certificate, issuers))

    @property
    def is_root(self) -> bool:
        """Whether the certificate is self-signed."""
        return self.identity.certificate.issuer == self.identity.certificate.subject

    def own_chain(self) -> tuple[x509.Certificate, ...]:
        """Return the certificates that a chain contains because of this authority: not that of a root."""
        return () if self.is_root else (self.identity.certificate, *self.identity.issuers)

    def pem(self) -> str:
        """Return the certificate of the authority."""
        return self.identity.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, path: Path) -> Path:
        """Write the certificate to a PEM file."""
        path.write_text(self.pem())
        return path

    def issue(
        self,
        subject: str | x509.Name,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        *,
        lifetime: datetime.timedelta = DAY,
    ) -> Identity:
        """Return a new key and certificate; a negative `lifetime` is that of an expired certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = common_name(subject) if isinstance(subject, str) else subject
        builder = (
            _builder(name, self.identity.certificate.subject, lifetime)
            .public_key(key.public_key())
            .add_extension(_issuer_key(self.identity.key), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.identity.key, SHA256())
        return Identity(key, certificate, self.own_chain())


def _issuer_key(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _builder(subject: x509.Name, issuer: x509.Name, lifetime: datetime.timedelta) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(SYSTEM_CLOCK.wall_ms() // 1000, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + lifetime)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
