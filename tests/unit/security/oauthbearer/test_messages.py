"""The messages of OAUTHBEARER: RFC 7628 and SASL extensions (KIP-342)."""

from __future__ import annotations

import tracemalloc

import pytest

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.oauthbearer.messages import (
    encode_client_first,
    encode_failure,
    invalid_extension,
    parse_client_first,
)

TOKEN = "canary.aa-_~+/.bb="


def test_the_first_message_is_that_of_kafka() -> None:
    message = encode_client_first("a.b.c", {"traceId": "123", "other": "x y"})
    assert message == b"n,,\x01auth=Bearer a.b.c\x01traceId=123\x01other=x y\x01\x01"
    assert encode_client_first("a.b.c", {}) == b"n,,\x01auth=Bearer a.b.c\x01\x01"


def test_the_server_reads_what_the_client_writes() -> None:
    first = parse_client_first(encode_client_first(TOKEN, {"traceId": "1=2"}))
    assert (first.token, first.authorization_id, first.extensions) == (TOKEN, "", {"traceId": "1=2"})
    assert "canary" not in repr(first)


@pytest.mark.parametrize(
    ("message", "authorization_id"),
    [
        (b"n,a=alice,\x01auth=bearer a.b.c\x01\x01", "alice"),
        (b"n,a=a=2Cb=3D,\x01host=h\x01port=1\x01auth=BEARER  a.b.c\x01\x01", "a=2Cb=3D"),
    ],
)
def test_other_clients_send_an_authorization_id_and_other_cases(
    message: bytes, authorization_id: str
) -> None:
    first = parse_client_first(message)
    assert (first.token, first.authorization_id) == ("a.b.c", authorization_id)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"garbage",
        b"\xff\xfe\x00",
        b"n,,\x01auth=Bearer canary\x01",
        b"n,,auth=Bearer canary\x01\x01",
        b"y,,\x01auth=Bearer canary\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth=Basic canary\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer can ary\x01\x01",
        b"n,,\x01auth=Bearer canary\xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer canary\x01na2me=x\x01\x01",
        b"n,,\x01auth=Bearer canary\x01name=\x01\x01",
        b"n,a=x,y,\x01auth=Bearer canary\x01\x01",
        b"n,,\x01auth=Bearer canary\x01\x01more",
        b"n,,\x01auth=Bearer " + b"c" * 65_536 + b"\x01\x01",
    ],
)
def test_an_invalid_first_message_is_rejected_without_showing_it(message: bytes) -> None:
    with pytest.raises(AuthenticationError) as raised:
        parse_client_first(message)
    assert "canary" not in str(raised.value) and raised.value.client_text is None
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("extensions", "problem"),
    [
        ({}, None),
        ({"traceId": "a b\tc"}, None),
        ({"auth": "x"}, "the extension name 'auth' is invalid"),
        ({"trace1": "x"}, "the extension name 'trace1' is invalid"),
        ({"trace": ""}, "the value of the extension trace is invalid"),
        ({"trace": "canary\x01auth=Bearer other"}, "the value of the extension trace is invalid"),
    ],
)
def test_extensions_cannot_replace_the_token(extensions: dict[str, str], problem: str | None) -> None:
    error = invalid_extension(extensions)
    assert error is None if problem is None else problem in str(error)
    assert "canary" not in str(error)


def test_the_failure_is_the_json_of_kafka() -> None:
    assert encode_failure("invalid_token") == b'{"status":"invalid_token"}'
    expected = b'{"status":"insufficient_scope", "scope":"[a, b]"}'
    assert encode_failure("insufficient_scope", "[a, b]") == expected


@pytest.mark.parametrize(
    "message", [b"n,a=" + b"x" * 60_000, b"n,a=" + b"=2C" * 20_000, b"n,,\x01" + b"a=b\x01" * 15_000]
)
def test_a_long_message_that_does_not_match_is_rejected_without_keeping_positions(message: bytes) -> None:
    # A pattern that stores a position per character for backtracking needs megabytes and 50 ms.
    tracemalloc.start()
    try:
        with pytest.raises(AuthenticationError):
            parse_client_first(message)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(message)
    finally:
        tracemalloc.stop()
