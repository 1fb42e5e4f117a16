"""The credentials of delegation tokens, and those that unknown, expired and disabled tokens get."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.metadata.images import image_after_records, image_with_brokers
from tidelog.broker.security.authentication import token_credentials
from tidelog.broker.security.authentication.token_credentials import TokenCredentials
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.security.delegation_token import token_hmac, token_password
from tidelog.security.scram.credentials import ScramMechanism, derive_keys, salt_password

KEY = "key of all nodes"
SHA_256 = ScramMechanism.SCRAM_SHA_256


def record(token_id: str, max_ms: int = 50, expiration_ms: int = 20) -> DelegationTokenRecord:
    """Return the record of a token; its times are in milliseconds after the start of the test."""
    return DelegationTokenRecord(
        token_id=token_id,
        owner="User:a:b",
        requester="User:c",
        max_timestamp=NOW_MS + max_ms,
        expiration_timestamp=NOW_MS + expiration_ms,
    )


def image(*records: DelegationTokenRecord) -> MetadataImage:
    return image_after_records(records, image_with_brokers(1))


def credentials(
    credentials_of_image: MetadataImage, key: str | None = KEY, clock: ManualClock | None = None
) -> TokenCredentials:
    return TokenCredentials(lambda: credentials_of_image, key, random.Random(1), clock or ManualClock())


def is_password(
    credentials_of_image: TokenCredentials, token_id: str, mechanism: ScramMechanism = SHA_256
) -> bool:
    """Return whether the HMAC of the token is its password."""
    credential = credentials_of_image.find(token_id, mechanism).credential
    password = token_password(token_hmac(KEY, token_id))
    salted = salt_password(mechanism, password, credential.salt, credential.iterations)
    return credential.keys == derive_keys(mechanism, salted)


def test_the_hmac_is_that_of_kafka() -> None:
    # printf token-id | openssl dgst -sha512 -hmac secret -binary | base64
    expected = "XX8uVzOO8ffB9wVSkYk/+Uyfi+0JWexBTDsJGS4WsMhODpo6VQV5W0Xl2/ROpCmoRI8BuJWgH3uHTXELz3fZNA=="
    assert b64encode(token_hmac("secret", "token-id")).decode() == expected
    assert token_password(token_hmac("secret", "token-id")) == expected


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_password_of_a_token_is_its_hmac(mechanism: ScramMechanism) -> None:
    credentials_of_image = credentials(image(record("t")))
    assert is_password(credentials_of_image, "t", mechanism)
    token = credentials_of_image.find("t", mechanism)
    assert (token.owner, token.expires_ms, token.credential.iterations) == ("a:b", NOW_MS + 20, 4096)


@pytest.mark.parametrize("key", [None, ""])
def test_no_token_is_valid_without_a_secret_key(key: str | None) -> None:
    assert not is_password(credentials(image(record("t")), key), "t")


@pytest.mark.parametrize("expired", [record("t", max_ms=-1), record("t", expiration_ms=-1)])
def test_an_expired_token_has_no_password(expired: DelegationTokenRecord) -> None:
    assert not is_password(credentials(image(expired)), "t")


def test_a_token_of_an_owner_that_is_no_user_has_no_password() -> None:
    # Its client would become User:admins.
    assert not is_password(credentials(image(replace(record("t"), owner="Group:admins"))), "t")


def test_a_token_is_valid_up_to_its_expiration() -> None:
    clock = ManualClock()
    credentials_of_image = credentials(image(record("t")), clock=clock)
    clock.now_ms += 20
    assert is_password(credentials_of_image, "t")
    clock.now_ms += 1
    assert not is_password(credentials_of_image, "t")


def test_an_unknown_token_looks_like_a_known_one() -> None:
    known_token, unknown_token = credentials(image(record("t"))), credentials(image())
    one, other = (each.find("t", SHA_256).credential for each in (known_token, unknown_token))
    assert (one.salt, one.iterations, len(one.keys.stored_key)) == (
        other.salt,
        other.iterations,
        len(other.keys.stored_key),
    )
    assert one.salt != unknown_token.find("u", SHA_256).credential.salt


def test_keys_are_derived_once_and_at_most_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[object] = []

    def count_call(*arguments: Sequence[object]) -> bytes:
        derived.append(arguments)
        return b"salted"

    monkeypatch.setattr(token_credentials, "salt_password", count_call)
    monkeypatch.setattr(token_credentials, "CREDENTIALS_MAX", 2)
    credentials_of_image = credentials(image(record("a"), record("b"), record("c")))
    for token_id in ("a", "b", "a", "c", "a"):
        credentials_of_image.find(token_id, SHA_256)
    assert len(derived) == 3
    credentials_of_image.find("b", SHA_256)
    assert len(derived) == 4
