"""SSL contexts of servers and clients, from TLS settings.

As in Java, each certificate of a trust store is trusted, even if it is that of an intermediate issuer.

Errors: ConfigError. I/O: reads the stores. A private key reaches OpenSSL in a temporary file, because the ssl
module reads keys from files only; there it is encrypted with a random password, and the file is removed.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tidelog.base.config_definition import ConfigError
from tidelog.security.tls.cipher_suites import (
    DEFAULT_TLS_1_2_SUITES,
    TLS_1_2_SUITES,
    TLS_1_3_SUITES,
    openssl_names,
)
from tidelog.security.tls.settings import ClientAuth, TlsSettings
from tidelog.security.tls.stores import KeyStore, read_key_store, read_trust_store

_VERIFY_MODES: Final = {
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.NONE: ssl.CERT_NONE,
}
_PASSWORD_BYTES: Final = 32


def server_context(settings: TlsSettings) -> tuple[ssl.SSLContext, x509.Certificate]:
    """Return the context of a listener, and the certificate that it presents."""
    if settings.key_store is None:
        key = settings.name("ssl.keystore.location")
        allowed = "a listener with TLS needs a key store file, or PEM text in ssl.keystore.key"
        raise ConfigError(key, None, allowed)
    context = _configured(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        # A client that resumes a session would not be verified again, even after its certificate has expired.
        context.num_tickets = 0
    if settings.trust_store is not None:
        _load_trust_store(context, settings)
    elif settings.client_auth is not ClientAuth.NONE:
        key = settings.name("ssl.truststore.location")
        allowed = f"needed with ssl.client.auth={settings.client_auth.value}"
        raise ConfigError(key, None, allowed)
    return context, _load_key_store(context, settings)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client; without a trust store, it trusts the certificates of the system."""
    context = _configured(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), settings)
    context.check_hostname = settings.verifies_host_name
    if settings.trust_store is not None:
        _load_trust_store(context, settings)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.key_store is not None:
        _load_key_store(context, settings)
    return context


def _configured(context: ssl.SSLContext, settings: TlsSettings) -> ssl.SSLContext:
    """Set what contexts of servers and clients have in common; return the context."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = _usable_versions(settings)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in versions else ssl.TLSVersion.TLSv1_2
    names = openssl_names(settings.cipher_suites) or openssl_names(DEFAULT_TLS_1_2_SUITES)
    context.set_ciphers(names)
    return context


def _usable_versions(settings: TlsSettings) -> tuple[str, ...]:
    """Return the enabled versions for which a cipher suite is enabled."""
    suites = settings.cipher_suites
    if not suites:
        return settings.versions
    key = settings.name("ssl.cipher.suites")
    for suite in suites:
        if suite not in TLS_1_2_SUITES and suite not in TLS_1_3_SUITES:
            raise ConfigError(
                key, suite, f"allowed is one of: {', '.join((*TLS_1_3_SUITES, *TLS_1_2_SUITES))}"
            )
    found = set(TLS_1_3_SUITES) & set(suites)
    if "TLSv1.3" in settings.versions and found and len(found) < len(TLS_1_3_SUITES):
        allowed = f"allowed are all suites of TLS 1.3 or none of them: {', '.join(TLS_1_3_SUITES)}"
        raise ConfigError(key, ",".join(suites), allowed)
    has_suite = {"TLSv1.2": bool(set(TLS_1_2_SUITES) & set(suites)), "TLSv1.3": bool(found)}
    versions = tuple(version for version in settings.versions if has_suite[version])
    if not versions:
        allowed = f"allowed is at least one suite of an enabled version: {', '.join(settings.versions)}"
        raise ConfigError(key, ",".join(suites), allowed)
    return versions


def _load_trust_store(context: ssl.SSLContext, settings: TlsSettings) -> None:
    assert settings.trust_store is not None
    trusted = b"".join(each.public_bytes(Encoding.DER) for each in read_trust_store(settings.trust_store))
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise settings.trust_store.content_error(f"cannot use its certificates: {error.reason}") from None


def _load_key_store(context: ssl.SSLContext, settings: TlsSettings) -> x509.Certificate:
    assert settings.key_store is not None
    store = read_key_store(settings.key_store)
    password = secrets.token_hex(_PASSWORD_BYTES).encode()
    try:
        with tempfile.NamedTemporaryFile(prefix="tidelog-", suffix=".pem") as file:
            file.write(_encrypted_pem(store, password))
            file.flush()
            context.load_cert_chain(file.name, password=password)
    except ssl.SSLError as error:
        raise settings.key_store.content_error(f"cannot use its private key: {error.reason}") from None
    return store.chain[0]


def _encrypted_pem(store: KeyStore, password: bytes) -> bytes:
    key = store.private_key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)
    )
    return key + b"".join(each.public_bytes(Encoding.PEM) for each in store.chain)
