"""SCRAM exchanges (RFC 5802): the example of RFC 7677, both sides against each other, hostile peers."""

from __future__ import annotations

import hmac
import random
import tracemalloc
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.scram.client import SERVER_ITERATIONS_MAX, ScramClient
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramKeys,
    ScramMechanism,
    ScramToken,
    derive_keys,
    random_text,
    salt_password,
)
from tidelog.security.scram.messages import MESSAGE_BYTES_MAX, parse_client_first
from tidelog.security.scram.server import ScramServer, ScramState

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = CLIENT_NONCE + SERVER_NONCE
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(
    mechanism: ScramMechanism = SHA_256, password: str = "pencil", iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    salted = salt_password(mechanism, password, SALT, iterations)
    return ScramCredential(SALT, iterations, derive_keys(mechanism, salted))


def no_token(token_id: str) -> ScramToken:
    raise AssertionError("the client does not use a token")


def server(
    mechanism: ScramMechanism = SHA_256, stored: ScramCredential | None = None, nonce: str = SERVER_NONCE
) -> ScramServer:
    credentials = stored or credential(mechanism)
    return ScramServer(mechanism, nonce, lambda user: credentials, no_token)


def test_the_example_of_rfc_7677_as_a_client() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.respond(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)


def test_the_example_of_rfc_7677_as_a_server() -> None:
    exchange = server()
    assert exchange.evaluate(CLIENT_FIRST) == SERVER_FIRST
    assert exchange.evaluate(CLIENT_FINAL) == SERVER_FINAL
    assert (exchange.state, exchange.user) == (ScramState.COMPLETE, "user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "=3D,"])
def test_both_sides_agree(mechanism: ScramMechanism, user: str) -> None:
    requested: list[str] = []

    def credential_of(name: str) -> ScramCredential:
        requested.append(name)
        return credential(mechanism, "lösen ord")

    exchange = ScramServer(mechanism, random_text(random.Random(1)), credential_of, no_token)
    client = ScramClient(mechanism, user, "lösen ord", random_text(random.Random(2)))
    client.verify(exchange.evaluate(client.respond(exchange.evaluate(client.first()))))
    assert (requested, exchange.user) == ([user], user)


# The characters of Kafka's extension, which Java parses with Boolean.parseBoolean.
@pytest.mark.parametrize("value", ["true", "TRUE"])
@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_client_with_a_token_is_its_owner(mechanism: ScramMechanism, value: str) -> None:
    token = ScramToken(credential(mechanism, "aGVsbG8="), "alice", 99)
    exchange = ScramServer(
        mechanism, SERVER_NONCE, lambda user: credential(mechanism), {"token-1": token}.__getitem__
    )
    client = ScramClient(mechanism, "token-1", "aGVsbG8=", CLIENT_NONCE, is_token=True)
    first = client.first()
    assert first == f"n,,n=token-1,r={CLIENT_NONCE},tokenauth=true".encode()
    client.verify(exchange.evaluate(client.respond(exchange.evaluate(first))))
    assert (exchange.user, exchange.token) == ("alice", token)
    other = ScramServer(
        mechanism, SERVER_NONCE, lambda user: credential(mechanism), {"token-1": token}.__getitem__
    )
    assert other.evaluate(first.replace(b"=true", b"=" + value.encode())).startswith(b"r=")
    assert other.token is token


@pytest.mark.parametrize("extension", ["", ",tokenauth=false", ",tokenauth=1", ",other=true"])
def test_a_client_without_the_extension_uses_a_password(extension: str) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST + extension.encode())
    assert exchange.token is None


def test_a_token_is_no_password_of_its_owner() -> None:
    token = ScramToken(credential(password="hmac"), "user", 99)
    exchange = ScramServer(SHA_256, SERVER_NONCE, lambda user: credential(), lambda token_id: token)
    client = ScramClient(SHA_256, "user", "hmac", CLIENT_NONCE)
    with pytest.raises(AuthenticationError):
        exchange.evaluate(client.respond(exchange.evaluate(client.first())))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_wrong_password_fails(mechanism: ScramMechanism) -> None:
    exchange = server(mechanism)
    client = ScramClient(mechanism, "user", "pencil2", "abc")
    final = client.respond(exchange.evaluate(client.first()))
    with pytest.raises(AuthenticationError) as raised:
        exchange.evaluate(final)
    assert raised.value.client_text is None
    assert exchange.state is ScramState.FAILED
    with pytest.raises(AuthenticationError):
        exchange.evaluate(client.first())


def test_cve_2017_12610_a_user_cannot_act_as_another_one() -> None:
    with pytest.raises(AuthenticationError, match="authorization id"):
        server().evaluate(b"n,a=admin,n=user,r=abc")


def test_the_own_name_is_allowed_as_authorization_id() -> None:
    assert server().evaluate(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


@pytest.mark.parametrize(
    "nonce", [CLIENT_NONCE, SERVER_NONCE, "x" + NONCE, NONCE + "x", NONCE.swapcase(), "x"]
)
def test_cve_2024_56128_the_final_nonce_must_be_that_of_the_exchange(nonce: str) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationError, match="nonce"):
        exchange.evaluate(CLIENT_FINAL.replace(NONCE.encode(), nonce.encode()))


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    compare = hmac.compare_digest

    def record_and_compare(one: Any, other: Any) -> bool:
        compared.append(other)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", record_and_compare)
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    exchange.evaluate(CLIENT_FINAL)
    assert compared == [NONCE, credential().keys.stored_key]


def test_a_final_message_cannot_be_replayed_in_another_exchange() -> None:
    exchange = server(nonce="another")
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationError, match="nonce"):
        exchange.evaluate(CLIENT_FINAL)


def test_the_channel_binding_must_be_that_of_the_first_message() -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationError, match="channel binding"):
        exchange.evaluate(CLIENT_FINAL.replace(b"biws", b64encode(b"y,,")))


def test_an_exchange_ends_with_its_last_message() -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    exchange.evaluate(CLIENT_FINAL)
    with pytest.raises(AuthenticationError, match="unexpected"):
        exchange.evaluate(CLIENT_FIRST)
    assert exchange.state is ScramState.COMPLETE


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=a=b,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=us\xc3\xa9r,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=mandatory,n=user,r=abc",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=abc\n",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc,1=2",
        b"n,,n=" + b"=2C" * MESSAGE_BYTES_MAX + b",r=abc",
        b"n,,n=user,r=" + b"a" * MESSAGE_BYTES_MAX,
    ],
)
def test_an_invalid_first_message_fails(message: bytes) -> None:
    exchange = server()
    with pytest.raises(AuthenticationError) as raised:
        exchange.evaluate(message)
    assert exchange.state is ScramState.FAILED
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        CLIENT_FIRST,
        CLIENT_FINAL[:-1],
        CLIENT_FINAL + b",x=y",
        f"c=biws,r={NONCE},p=".encode(),
        f"c=biws,r={NONCE},p=AAAA".encode(),
        f"c=biws,r={NONCE},p=A===".encode(),
        f"c=biws,r={NONCE},p={b64encode(bytes(64)).decode()}".encode(),
        f"c=biws,r={NONCE},p={b64encode(bytes(32)).decode()}".encode(),
        f"c=!,r={NONCE},p=AAAA".encode(),
        f"r={NONCE},p=AAAA".encode(),
    ],
)
def test_an_invalid_final_message_fails(message: bytes) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationError):
        exchange.evaluate(message)
    assert exchange.state is ScramState.FAILED


def test_a_credential_with_few_iterations_fails() -> None:
    weak = ScramCredential(SALT, ITERATIONS_MIN - 1, ScramKeys(b"", b""))
    with pytest.raises(AuthenticationError, match="iterations"):
        server(stored=weak).evaluate(CLIENT_FIRST)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        SERVER_FIRST.replace(CLIENT_NONCE.encode(), b"other"),
        f"r={CLIENT_NONCE},s=AAAA,i=4096".encode(),
        f"r={NONCE},s=AAAA,i={ITERATIONS_MIN - 1}".encode(),
        f"r={NONCE},s=AAAA,i={SERVER_ITERATIONS_MAX + 1}".encode(),
        f"r={NONCE},s=AAAA,i=99999999999999".encode(),
        f"r={NONCE},s=A,i=4096".encode(),
    ],
)
def test_a_client_rejects_an_invalid_server(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).respond(message)


@pytest.mark.parametrize("message", [b"", b"v=AAAA", b"e=other-error", SERVER_FINAL[:-2]])
def test_a_client_verifies_the_server(message: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.respond(SERVER_FIRST)
    with pytest.raises(AuthenticationError):
        client.verify(message)


def test_a_client_accepts_no_signature_before_its_proof() -> None:
    with pytest.raises(AuthenticationError):
        ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).verify(b"v=")


def test_the_mechanisms_are_those_of_kafka() -> None:
    assert {"SCRAM-SHA-256": SHA_256, "SCRAM-SHA-512": SHA_512} == SCRAM_MECHANISMS


def test_credentials_do_not_show_their_keys() -> None:
    stored = credential()
    assert repr(stored) == "ScramCredential(iterations=4096, keys=ScramKeys())"


@pytest.mark.parametrize("character", ["x", "=2C"])
def test_a_long_user_name_without_an_end_is_rejected_without_keeping_positions(character: str) -> None:
    message = b"n,,n=" + character.encode() * ((MESSAGE_BYTES_MAX - 5) // len(character))
    tracemalloc.start()
    try:
        with pytest.raises(AuthenticationError):
            parse_client_first(message)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(message)
    finally:
        tracemalloc.stop()
