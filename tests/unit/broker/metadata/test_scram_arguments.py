"""--add-scram: Kafka's syntax, one clear line for what is wrong, no password in it."""

from __future__ import annotations

import random
from base64 import b64encode

import pytest

from tidelog.broker.metadata.scram_arguments import ScramArgumentError, parse_scram_argument
from tidelog.security.scram.credentials import ScramKeys, ScramMechanism, derive_keys, salt_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64encode(b"some salt").decode()
SECRET = "canary-73aa"


def test_a_password_is_salted_with_4096_iterations() -> None:
    record = parse_scram_argument(f'SCRAM-SHA-256=[name=alice,password="{SECRET}"]', random.Random(1))
    assert (record.name, record.mechanism, record.iterations) == ("alice", SHA_256, 4096)
    salted = salt_password(SHA_256, SECRET, record.salt, 4096)
    assert ScramKeys(record.stored_key, record.server_key) == derive_keys(SHA_256, salted)
    assert len(record.salt) > 20


def test_a_salted_password_keeps_its_salt_and_iterations() -> None:
    salted = salt_password(SHA_512, SECRET, b"some salt", 8192)
    text = f'name=bob,salt="{SALT}",iterations=8192,saltedpassword="{b64encode(salted).decode()}"'
    record = parse_scram_argument(f"SCRAM-SHA-512=[{text}]", random.Random(1))
    assert (record.salt, record.iterations) == (b"some salt", 8192)
    assert ScramKeys(record.stored_key, record.server_key) == derive_keys(SHA_512, salted)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        SECRET,
        f"SCRAM-SHA-1=[name=a,password={SECRET}]",
        f"SCRAM-SHA-256=name=a,password={SECRET}",
        f"SCRAM-SHA-256=[password={SECRET}]",
        f"SCRAM-SHA-256=[name=,password={SECRET}]",
        "SCRAM-SHA-256=[name=a]",
        f"SCRAM-SHA-256=[name=a,{SECRET}]",
        f"SCRAM-SHA-256=[name=a,other={SECRET}]",
        f"SCRAM-SHA-256=[name=a,password={SECRET},iterations=4095]",
        f"SCRAM-SHA-256=[name=a,password={SECRET},iterations=16385]",
        f"SCRAM-SHA-256=[name=a,password={SECRET},iterations=x]",
        f"SCRAM-SHA-256=[name=a,password={SECRET},salt=!]",
        f"SCRAM-SHA-256=[name=a,saltedpassword={SECRET}]",
        f"SCRAM-SHA-256=[name=a,salt={SALT},saltedpassword={SECRET}!]",
    ],
)
def test_an_argument_that_cannot_be_used(argument: str) -> None:
    with pytest.raises(ScramArgumentError) as raised:
        parse_scram_argument(argument, random.Random(1))
    assert SECRET not in str(raised.value) and "\n" not in str(raised.value)
