"""Kafka's own validator of tokens accepts and rejects the same tokens as ours."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.security.identity_provider import (
    AUDIENCE,
    ISSUER,
    SigningKey,
    claims,
    key_set,
    unsecured_token,
)
from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.security.oauthbearer.key_set import ALGORITHMS, parse_key_set
from tidelog.security.oauthbearer.signed import verify_token
from tidelog.security.oauthbearer.token import TokenError, TokenRules

PROGRAM = Path(__file__).parent / "TokenValidation.java"
KEY = SigningKey()
KEYS = (KEY, *(SigningKey(f"key-{name}", name) for name in ALGORITHMS if name != KEY.algorithm))
NOW_S = int(time.time())

CHANGES: tuple[dict[str, Any], ...] = (
    *({"aud": value} for value in (None, "x", ["x", AUDIENCE], [], 5, [AUDIENCE, 5], "other")),
    *({"iss": value} for value in (None, "x", [ISSUER], ISSUER + "/")),
    *({"sub": value} for value in (None, "  ", 5, " alice ")),
    *({"jti": value} for value in (5, "x")),
    *({"scope": value} for value in ("a b", ["a", "b"], ["a", "a"], "", 5, [], [5], [" "])),
    *({"exp": value, "iat": NOW_S - 900} for value in (NOW_S - 600, NOW_S - 100, NOW_S + 600.5, "x", -5)),
    *({"exp": value} for value in (None, 10**15, str(NOW_S + 600))),
    *({"nbf": value} for value in (NOW_S + 900, NOW_S + 100, NOW_S - 600)),
    *({"iat": value} for value in (None, NOW_S + 600, NOW_S + 40_000)),
)


def tokens() -> list[str]:
    """Return tokens with every algorithm, other claims, other keys, and without a signature."""
    return [
        *(key.sign(claims()) for key in KEYS),
        *(KEY.sign(claims(**changes)) for changes in CHANGES),
        SigningKey("unknown", number=2).sign(claims()),
        SigningKey(KEY.key_id, number=2).sign(claims()),
        SigningKey(KEY.key_id, "RS512").sign(claims()),
        SigningKey(None).sign(claims()),
        KEY.sign(claims(), typ="at+jwt"),
        unsecured_token(claims()),
        unsecured_token(claims()) + "x",
        "a.b",
        "a.b.c",
    ]


@pytest.mark.parametrize("issuer", [ISSUER, None])
@pytest.mark.parametrize("audiences", [(AUDIENCE, "other"), ()])
def test_our_validator_decides_as_kafkas(
    tmp_path: Path, issuer: str | None, audiences: tuple[str, ...]
) -> None:
    keys, file, listed = tmp_path / "keys.json", tmp_path / "tokens", tokens()
    keys.write_bytes(key_set(*KEYS))
    file.write_text("\n".join(listed))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    classpath = f"{os.environ['TIDELOG_KAFKA_JARS']}/*"
    command = ["java", allowed, "-cp", classpath, str(PROGRAM), keys.as_uri(), str(file), issuer or ""]
    done = subprocess.run([*command, *audiences], capture_output=True, text=True, timeout=90, check=False)
    expected = [line for line in done.stdout.splitlines() if line == "rejected" or line.endswith("]")]
    assert len(expected) == len(listed), done.stdout + done.stderr
    rules = TokenRules(expected_audiences=frozenset(audiences), expected_issuer=issuer, clock_skew_ms=300_000)
    decisions = [decision(token, rules) for token in listed]
    assert decisions == expected


def decision(token: str, rules: TokenRules) -> str:
    """Return the decision of our broker in the format of the program."""
    try:
        verified = verify_token(token, rules, parse_key_set(key_set(*KEYS)), SYSTEM_CLOCK.wall_ms())
    except TokenError:
        return "rejected"
    return f"{verified.principal} [{', '.join(sorted(verified.scopes))}]"
