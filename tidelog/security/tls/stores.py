"""Key stores and trust stores, read from PEM text, PEM files and PKCS12 files.

I/O: reads the files. Errors: ConfigError; texts of libraries that could contain secrets are not passed on.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from tidelog.base.dataclass import dataclass
from tidelog.security.tls.settings import StoreSettings

_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and its certificates: the own certificate first, then those of the issuers."""

    private_key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]


def read_key_store(settings: StoreSettings) -> KeyStore:
    """Return the private key and the certificate chain of a key store."""
    if settings.is_pem:
        data = None if settings.location is None else _read(settings)
        key_pem = data if data is not None else (settings.key_pem or "").encode()
        chain_pem = data if data is not None else (settings.pem or "").encode()
        return KeyStore(_private_key(settings, key_pem), _certificates(settings, chain_pem))
    store = _pkcs12(settings)
    if store.key is None or store.cert is None:
        raise settings.content_error("the key store must contain a private key and its certificate")
    others = [each.certificate for each in store.additional_certs]
    return KeyStore(store.key, _ordered_chain(store.cert.certificate, others))


def read_trust_store(settings: StoreSettings) -> tuple[x509.Certificate, ...]:
    """Return the trusted certificates of a trust store."""
    if settings.is_pem:
        data = (settings.pem or "").encode() if settings.location is None else _read(settings)
        return _certificates(settings, data)
    store = _pkcs12(settings)
    certificates = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
    if not certificates:
        raise settings.content_error("the trust store must contain at least one certificate")
    return tuple(each.certificate for each in certificates)


def _read(settings: StoreSettings) -> bytes:
    assert settings.location is not None
    try:
        # Not blocking: a path can be set by a request, and opening a named pipe would wait for its writer.
        descriptor = os.open(settings.location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise settings.content_error("allowed is a regular file")
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise settings.content_error(f"cannot read the file: {error.strerror}") from None
    if len(data) > _FILE_BYTES_MAX:
        raise settings.content_error(f"allowed is a file of at most {_FILE_BYTES_MAX} bytes")
    return data


def _certificates(settings: StoreSettings, pem: bytes) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        problem = "cannot be parsed; allowed is at least one certificate in PEM format"
        raise settings.content_error(problem) from None


def _private_key(settings: StoreSettings, pem: bytes) -> PrivateKeyTypes:
    blocks = [match[0] for match in _PRIVATE_KEY.finditer(pem)]
    if len(blocks) != 1:
        problem = f"found {len(blocks)} private keys; allowed is one private key in PEM format"
        raise settings.content_error(problem)
    password = None if settings.key_password is None else settings.key_password.encode()
    try:
        return load_pem_private_key(blocks[0], password)
    except TypeError:
        problem = (
            "the private key is encrypted, and ssl.key.password is not set"
            if password is None
            else "the private key is not encrypted; remove ssl.key.password"
        )
        raise settings.content_error(problem) from None
    # Any other error: the library raises ValueError and several errors of its own.
    except Exception:
        problem = "cannot load the private key; allowed are RSA and EC keys, and the right ssl.key.password"
        raise settings.content_error(problem) from None


def _pkcs12(settings: StoreSettings) -> PKCS12KeyAndCertificates:
    data = _read(settings)
    password = None if settings.password is None else settings.password.encode()
    try:
        return load_pkcs12(data, password)
    except Exception:
        problem = f"cannot load it as PKCS12; check the file and ssl.{settings.kind}.password"
        raise settings.content_error(problem) from None


def _ordered_chain(own: x509.Certificate, others: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Return `own` and then its issuers, in order; a file may have them in any order."""
    chain = [own]
    while True:
        last = chain[-1]
        issuers = [each for each in others if each.subject == last.issuer and each not in chain]
        if not issuers or last.issuer == last.subject:
            return tuple(chain)
        chain.append(issuers[0])
