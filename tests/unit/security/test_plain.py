"""PLAIN (RFC 4616): valid credentials, and everything that must be rejected."""

from __future__ import annotations

import hmac

import pytest

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.plain import MESSAGE_BYTES_MAX, authenticate_plain, encode_plain

USERS = {"alice": "geheim", "märta": "lösen"}


@pytest.mark.parametrize("user", USERS)
def test_the_right_password_authenticates(user: str) -> None:
    assert authenticate_plain(encode_plain(user, USERS[user]), USERS) == user


def test_the_own_name_is_allowed_as_authorization_id() -> None:
    assert authenticate_plain(b"alice\0alice\0geheim", USERS) == "alice"


def test_cve_2017_12610_a_user_cannot_act_as_another_one() -> None:
    with pytest.raises(AuthenticationError, match="authorization id"):
        authenticate_plain(b"admin\0alice\0geheim", USERS)


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_cve_2021_38153_secrets_are_compared_in_constant_time(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with pytest.raises(AuthenticationError):
        authenticate_plain(encode_plain(user, "geheim"), USERS)
    assert compared == [(32, 32)]


def test_unknown_user_and_wrong_password_have_the_same_error() -> None:
    texts = set()
    for message in (b"\0alice\0wrong", b"\0bob\0geheim", b"\0bob\0absent", b"admin\0alice\0wrong"):
        with pytest.raises(AuthenticationError) as raised:
            authenticate_plain(message, USERS)
        texts.add((str(raised.value), raised.value.client_text))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"alice\0geheim",
        b"\0alice\0geheim\0",
        b"\0" * 50_000,
        b"\0\0geheim",
        b"\0alice\0",
        b"\0alice\0\xff\xfe",
        b"\0alice\0" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_an_invalid_message_is_rejected(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        authenticate_plain(message, USERS)


def test_an_error_does_not_contain_the_password() -> None:
    for message in (b"\0alice\0canary", b"\0canary", b"\0alice\0canary\xff", b"canary\0alice\0geheim"):
        with pytest.raises(AuthenticationError) as raised:
            authenticate_plain(message, USERS)
        error = raised.value
        assert "canary" not in str(error) + str(error.client_text)
        assert error.__cause__ is None and error.__suppress_context__ in (True, False)
