"""SSL contexts from `ssl.*` keys: stores of each type, versions, cipher suites, and handshakes."""

from __future__ import annotations

import datetime
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from tests.support.security.handshakes import handshake
from tidelog.base.config_definition import ConfigError
from tidelog.security.certificate_authority import Authority, Identity
from tidelog.security.tls.contexts import client_context, server_context
from tidelog.security.tls.settings import KeyNames, parse_tls_settings

AUTHORITY = Authority.create()
SERVER = AUTHORITY.issue("broker")
CLIENT = AUTHORITY.issue("alice", ())
OTHER_AUTHORITY = Authority.create("Another CA")


def inline_key_store(identity: Identity, **more: str) -> dict[str, str]:
    """Return settings with a key store inside the configuration."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def trust_settings(authority: Authority, **more: str) -> dict[str, str]:
    """Return settings with a trust store inside the configuration."""
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem(),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def server(texts: dict[str, str]) -> ssl.SSLContext:
    return server_context(parse_tls_settings(texts))[0]


def client(texts: dict[str, str]) -> ssl.SSLContext:
    return client_context(parse_tls_settings(texts))


def test_a_handshake_succeeds_with_a_trusted_certificate() -> None:
    assert handshake(server(inline_key_store(SERVER)), client(trust_settings(AUTHORITY))).version == "TLSv1.3"


def test_the_own_certificate_is_returned() -> None:
    assert server_context(parse_tls_settings(inline_key_store(SERVER)))[1] == SERVER.certificate


def test_an_untrusted_certificate_is_rejected() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(server(inline_key_store(SERVER)), client(trust_settings(OTHER_AUTHORITY)))


def test_an_expired_certificate_is_rejected() -> None:
    expired = AUTHORITY.issue("broker", lifetime=-datetime.timedelta(hours=1))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(server(inline_key_store(expired)), client(trust_settings(AUTHORITY)))


def test_the_host_name_is_verified() -> None:
    other = inline_key_store(AUTHORITY.issue("broker", ("other.example",)))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server(other), client(trust_settings(AUTHORITY)))
    without = {**trust_settings(AUTHORITY), "ssl.endpoint.identification.algorithm": ""}
    handshake(server(other), client(without))


def test_a_required_certificate_of_the_client_is_verified() -> None:
    listener = server(
        {**inline_key_store(SERVER), **trust_settings(AUTHORITY), "ssl.client.auth": "required"}
    )
    result = handshake(listener, client({**inline_key_store(CLIENT), **trust_settings(AUTHORITY)}))
    assert result.client_certificate is not None
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        handshake(listener, client(trust_settings(AUTHORITY)))
    with pytest.raises(ssl.SSLError, match="unable to get local issuer"):
        handshake(
            listener,
            client({**inline_key_store(OTHER_AUTHORITY.issue("mallory")), **trust_settings(AUTHORITY)}),
        )


def test_a_requested_certificate_of_the_client_may_be_missing() -> None:
    listener = server(
        {**inline_key_store(SERVER), **trust_settings(AUTHORITY), "ssl.client.auth": "requested"}
    )
    assert handshake(listener, client(trust_settings(AUTHORITY))).client_certificate is None
    with pytest.raises(ssl.SSLError, match="unable to get local issuer"):
        handshake(
            listener,
            client({**inline_key_store(OTHER_AUTHORITY.issue("mallory")), **trust_settings(AUTHORITY)}),
        )


def test_a_listener_that_verifies_clients_needs_a_trust_store() -> None:
    with pytest.raises(ConfigError, match=r"ssl.truststore.location; needed with ssl.client.auth=req"):
        server({**inline_key_store(SERVER), "ssl.client.auth": "requested"})


def test_a_chain_of_certificates_is_sent() -> None:
    intermediate = Authority.create("Intermediate", AUTHORITY)
    listener = server(inline_key_store(intermediate.issue("broker")))
    assert handshake(listener, client(trust_settings(AUTHORITY))).version == "TLSv1.3"


def test_a_certificate_of_an_intermediate_authority_can_be_trusted() -> None:
    intermediate = Authority.create("Intermediate", AUTHORITY)
    listener = server(inline_key_store(intermediate.issue("broker")))
    assert handshake(listener, client(trust_settings(intermediate))).version == "TLSv1.3"


def test_stores_can_be_pem_files_with_an_encrypted_key(tmp_path: Path) -> None:
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(SERVER.write_pem(tmp_path / "server.pem", "secret")),
        "ssl.key.password": "secret",
    }
    trusted = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(AUTHORITY.write(tmp_path / "ca.pem")),
    }
    assert handshake(server(keys), client(trusted)).version == "TLSv1.3"


def write_pkcs12(identity: Identity, path: Path, password: str) -> Path:
    """Write key and chain to a PKCS12 file."""
    cipher = BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"kafka", identity.key, identity.certificate, identity.issuers[::-1], cipher
        )
    )
    return path


def test_stores_can_be_pkcs12_files(tmp_path: Path) -> None:
    intermediate = Authority.create("Second", Authority.create("First", AUTHORITY))
    identity = intermediate.issue("broker")
    keys = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(write_pkcs12(identity, tmp_path / "server.p12", "secret")),
        "ssl.keystore.password": "secret",
    }
    handshake(server(keys), client(trust_settings(AUTHORITY)))
    handshake(server({**keys, "ssl.key.password": "secret"}), client(trust_settings(AUTHORITY)))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_enabled_versions_limit_both_sides(version: str) -> None:
    limited = {"ssl.enabled.protocols": version}
    assert (
        handshake(server({**inline_key_store(SERVER), **limited}), client(trust_settings(AUTHORITY))).version
        == version
    )
    assert (
        handshake(server(inline_key_store(SERVER)), client({**trust_settings(AUTHORITY), **limited})).version
        == version
    )


@pytest.mark.parametrize(
    "suites, version",
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2"),
        ("TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256", "TLSv1.3"),
    ],
)
def test_versions_without_an_enabled_cipher_suite_are_not_used(suites: str, version: str) -> None:
    listener = server({**inline_key_store(SERVER), "ssl.cipher.suites": suites})
    result = handshake(listener, client(trust_settings(AUTHORITY)))
    assert result.version == version
    if version == "TLSv1.2":
        assert result.cipher == "ECDHE-ECDSA-AES128-GCM-SHA256"


PEM = inline_key_store(SERVER)


@pytest.mark.parametrize(
    "texts, problem",
    [
        ({}, r"ssl.keystore.location; "),
        ({"ssl.keystore.location": "a.jks"}, r"ssl.keystore.type=JKS; .*keytool -importkeystore"),
        (
            {"ssl.keystore.location": "a", "ssl.keystore.type": "BKS"},
            r"ssl.keystore.type=BKS; allowed is PEM",
        ),
        (
            {"ssl.keystore.location": "a", "ssl.keystore.type": "PKCS12"},
            r"ssl.keystore.password; ",
        ),
        ({"ssl.keystore.password": "canary"}, r"ssl.keystore.password=\[hidden\]; allowed only with"),
        ({**PEM, "ssl.keystore.password": "canary"}, r"ssl.keystore.password=\[hidden\]; not allowed"),
        ({**PEM, "ssl.keystore.location": "a"}, r"ssl.keystore.location=a; .*not both"),
        ({**PEM, "ssl.keystore.type": "PKCS12"}, r"ssl.keystore.type=PKCS12; allowed is PEM"),
        ({**PEM, "ssl.key.password": "canary"}, r"certificate.chain=\[hidden\]; .*remove ssl.key.password"),
        (
            {**PEM, "ssl.keystore.key": SERVER.key_pem("canary")},
            r"encrypted, and ssl.key.password is not set",
        ),
        (
            {**PEM, "ssl.keystore.key": SERVER.key_pem("canary"), "ssl.key.password": "canary2"},
            r"cannot load the private key",
        ),
        ({**PEM, "ssl.keystore.key": CLIENT.key_pem()}, r"cannot use its private key"),
        ({**PEM, "ssl.keystore.key": ""}, r"found 0 private keys"),
        ({**PEM, "ssl.keystore.certificate.chain": "canary"}, r"cannot be parsed"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "canary"},
            r"ssl.keystore.certificate.chain; ",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/no/such/file"},
            r"location=/no/such/file; cannot read the file: No such file",
        ),
        (
            {**PEM, "ssl.client.auth": "yes"},
            r"ssl.client.auth=yes; allowed is one of: required, requested, none",
        ),
        ({**PEM, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, r"ssl.enabled.protocols=TLSv1.1; allowed is"),
        ({**PEM, "ssl.protocol": "SSLv3"}, r"ssl.protocol=SSLv3; allowed is one of: TLS, TLSv1.2, TLSv1.3"),
        ({**PEM, "ssl.cipher.suites": "TLS_NULL"}, r"ssl.cipher.suites=TLS_NULL; allowed is one of"),
        ({**PEM, "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, r"all suites of TLS 1.3 or none of them"),
        (
            {
                **PEM,
                "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ssl.enabled.protocols": "TLSv1.3",
            },
            r"at least one suite of an enabled version: TLSv1.3",
        ),
        ({**PEM, "ssl.endpoint.identification.algorithm": "ldaps"}, r"allowed is https, or an empty text"),
        ({**PEM, "ssl.engine.factory.class": "a.B"}, r"ssl.engine.factory.class=a.B; not supported"),
        ({**PEM, "ssl.provider": "BC"}, r"ssl.provider=BC; not supported"),
        (
            {**PEM, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "canary"},
            r"ssl.truststore.certificates=\[hidden\]; cannot be parsed",
        ),
        (
            {**PEM, "ssl.truststore.location": "/no/store", "ssl.truststore.type": "PKCS12"},
            r"ssl.truststore.location=/no/store; cannot read the file",
        ),
    ],
)
def test_invalid_settings_are_rejected_in_one_line_without_secrets(
    texts: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        server(texts)
    assert "canary" not in str(raised.value) and "\n" not in str(raised.value)
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_a_pkcs12_file_with_a_wrong_password_is_rejected(tmp_path: Path) -> None:
    path = write_pkcs12(SERVER, tmp_path / "server.p12", "right")
    texts = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": "canary",
    }
    with pytest.raises(ConfigError, match=r"check the file and ssl.keystore.password") as raised:
        server(texts)
    assert "canary" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"allowed for PKCS12 is the value of ssl.keystore.password"):
        server({**texts, "ssl.key.password": "other"})


def test_the_default_algorithms_of_java_are_accepted() -> None:
    algorithms = {"ssl.keymanager.algorithm": "SunX509", "ssl.trustmanager.algorithm": "PKIX"}
    listener = server({**inline_key_store(SERVER), **algorithms})
    assert handshake(listener, client(trust_settings(AUTHORITY))).version == "TLSv1.3"


def test_the_name_of_a_key_in_errors_has_the_prefix_of_its_listener() -> None:
    with pytest.raises(ConfigError, match=r" listener\.name\.in\.ssl\.protocol=SSLv3;"):
        parse_tls_settings(
            {"ssl.protocol": "SSLv3"}, KeyNames("listener.name.in.", frozenset({"ssl.protocol"}))
        )


def test_settings_do_not_show_secrets() -> None:
    settings = parse_tls_settings({**inline_key_store(SERVER), **trust_settings(AUTHORITY)})
    assert "PRIVATE KEY" not in repr(settings) and "CERTIFICATE" not in repr(settings)


def test_a_private_key_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server(inline_key_store(SERVER))
    assert list(tmp_path.iterdir()) == []


def resumable(
    server_side: ssl.SSLContext, client_side: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return both sides of a connection; the client has read the session tickets of the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting = server_side.wrap_bio(to_server, to_client, server_side=True)
    connecting = client_side.wrap_bio(to_client, to_server, server_hostname="localhost", session=session)
    for _ in range(4):
        for side in (connecting, accepting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    accepting.write(b"data")
    assert connecting.read(4) == b"data"
    return accepting, connecting


def test_a_client_with_a_certificate_cannot_resume_a_session_of_tls_1_3() -> None:
    """Without a new handshake, its certificate would not be verified again."""
    first = server({**inline_key_store(SERVER), **trust_settings(AUTHORITY), "ssl.client.auth": "required"})
    with_certificate = client({**inline_key_store(CLIENT), **trust_settings(AUTHORITY)})
    _, connection = resumable(first, with_certificate)
    _, again = resumable(first, with_certificate, connection.session)
    assert not again.session_reused


def test_a_client_without_a_certificate_resumes_its_session() -> None:
    first = server(inline_key_store(SERVER))
    without_certificate = client(trust_settings(AUTHORITY))
    _, connection = resumable(first, without_certificate)
    _, again = resumable(first, without_certificate, connection.session)
    assert again.session_reused


def test_a_resumed_session_has_the_certificate_of_its_client_and_is_unknown_to_other_listeners() -> None:
    """Another listener, or one with replaced certificates, must verify the client again."""
    texts = {**inline_key_store(SERVER), **trust_settings(AUTHORITY), "ssl.client.auth": "required"}
    first, other = (server({**texts, "ssl.enabled.protocols": "TLSv1.2"}) for _ in range(2))
    with_certificate = client({**inline_key_store(CLIENT), **trust_settings(AUTHORITY)})
    _, connection = resumable(first, with_certificate)
    accepted, resumed = resumable(first, with_certificate, connection.session)
    assert resumed.session_reused
    assert accepted.getpeercert(binary_form=True) == CLIENT.certificate.public_bytes(Encoding.DER)
    _, verified_again = resumable(other, with_certificate, connection.session)
    assert not verified_again.session_reused
