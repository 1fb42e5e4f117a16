"""The arguments of `tidelog storage format --add-scram`: credentials of the first users of a cluster.

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="<base64>",saltedpassword="<base64>"]

As in Kafka, a value may be in double quotes and contains no comma.

Errors: ScramArgumentError, whose text contains no value. Source: KIP-900; ScramParser of Apache Kafka 4.3.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.security.scram.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    derive_keys,
    random_text,
    salt_password,
)

_NAMES: Final = frozenset({"name", "password", "salt", "iterations", "saltedpassword"})


class ScramArgumentError(Exception):
    """An argument of --add-scram that cannot be used; the text is one line without values."""


def parse_scram_argument(argument: str, randomness: Randomness) -> UserScramCredentialRecord:
    """Return the credential in an argument; a missing salt is random."""
    name, equals, rest = argument.strip().partition("=")
    mechanism = SCRAM_MECHANISMS.get(name)
    if not equals or mechanism is None:
        allowed = ", ".join(SCRAM_MECHANISMS)
        raise ScramArgumentError(f"--add-scram does not begin with MECHANISM=; allowed are: {allowed}")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ScramArgumentError(f"--add-scram {name}: the values must be in brackets, [name=...,...]")
    values = _values(rest[1:-1])
    if not values.get("name"):
        raise ScramArgumentError(f"--add-scram {name}: name is missing")
    iterations = _iterations(values)
    salt = _decode(values, "salt") if "salt" in values else random_text(randomness).encode()
    if "password" in values:
        salted_password = salt_password(mechanism, values["password"], salt, iterations)
    elif "saltedpassword" not in values:
        raise ScramArgumentError("--add-scram: one of password and saltedpassword is required")
    elif "salt" not in values:
        raise ScramArgumentError("--add-scram: saltedpassword requires salt")
    else:
        salted_password = _decode(values, "saltedpassword")
    keys = derive_keys(mechanism, salted_password)
    return UserScramCredentialRecord(
        name=values["name"],
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _values(text: str) -> dict[str, str]:
    """Return the values between the brackets by name. Raise ScramArgumentError for an unknown name."""
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in _NAMES:
            allowed = ", ".join(sorted(_NAMES))
            raise ScramArgumentError(f"--add-scram: a value is not NAME=VALUE; allowed names are: {allowed}")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        values[name] = value
    return values


def _iterations(values: dict[str, str]) -> int:
    text = values.get("iterations", str(ITERATIONS_MIN))
    if not (text.isascii() and text.isdecimal() and ITERATIONS_MIN <= int(text[:9]) <= ITERATIONS_MAX):
        raise ScramArgumentError(f"--add-scram: iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _decode(values: dict[str, str], name: str) -> bytes:
    try:
        value = b64decode(values[name], validate=True)
    except Base64Error:
        value = b""
    if not value:
        raise ScramArgumentError(f"--add-scram: {name} is not base64")
    return value
