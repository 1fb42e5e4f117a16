"""Mechanisms and keys of SCRAM.

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)
    server key      = HMAC(salted password, "Server Key")

As in Kafka, a password is used as UTF-8 without the normalization of SASLprep.

Source: RFC 5802, RFC 7677, KIP-84, KIP-554; ScramFormatter and ScramMechanism of Apache Kafka 4.3.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import field
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
_NONCE_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms; the numbers of requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name of the SASL mechanism, for example SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash function for `hashlib`."""
        return _HASHES[self]


_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}

SCRAM_MECHANISMS: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
"""The SCRAM mechanisms by name."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The keys that are stored instead of a password; their representation hides them."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A user's stored credential for one mechanism."""

    salt: bytes = field(repr=False)
    iterations: int
    keys: ScramKeys


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. Takes a few milliseconds for 4096 iterations."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def derive_keys(mechanism: ScramMechanism, salted_password: bytes) -> ScramKeys:
    """Return the keys of a salted password."""
    name = mechanism.hash_name
    stored_key = hashlib.new(name, derive_client_key(mechanism, salted_password)).digest()
    return ScramKeys(stored_key, hmac.digest(salted_password, b"Server Key", name))


def derive_client_key(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    """Return the key with which a client proves that it has the password."""
    return hmac.digest(salted_password, b"Client Key", mechanism.hash_name)


def random_text(randomness: Randomness) -> str:
    """Return a nonce or salt of 130 random bits in base 36, as Kafka creates them."""
    number, digits = randomness.getrandbits(_NONCE_BITS), []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


class ScramToken(NamedTuple):
    """A delegation token as a credential: a client that has it is its owner until `expires_ms`, wall time."""

    credential: ScramCredential
    owner: str
    expires_ms: int


CredentialLookup = Callable[[str], ScramCredential]
"""Returns the credential of a user. For an unknown user, it returns one that no password matches."""

TokenLookup = Callable[[str], ScramToken]
"""Returns the token with an id. For an unknown id, it returns a credential that no password matches."""
