"""Assertions: claims, template, signature, encrypted keys."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from joserfc.jws import deserialize_compact

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.security.identity_provider import SigningKey
from tidelog.clients.security.oauthbearer.assertions import create_assertion
from tidelog.clients.security.oauthbearer.login_settings import AssertionFile, AssertionSettings
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError

NOW_S = NOW_MS // 1000
RSA, ELLIPTIC = SigningKey("r"), SigningKey("e", "ES256")


def settings(folder: Path, key: SigningKey = RSA, password: str | None = None) -> AssertionSettings:
    file = folder / "key.pem"
    file.write_bytes(key.private.as_pem(private=True, password=password))
    return AssertionSettings(
        algorithm=key.algorithm,
        private_key_file=str(file),
        file_password=password,
        template_file=None,
        claims={"iss": "me", "sub": "me", "aud": "provider"},
        expires_s=300,
        begins_before_s=60,
        has_id=False,
    )


@pytest.mark.parametrize("key", [RSA, ELLIPTIC])
@pytest.mark.parametrize("password", [None, "canary"])
def test_an_assertion_is_signed_with_the_key_of_the_file(
    tmp_path: Path, key: SigningKey, password: str | None
) -> None:
    source = settings(tmp_path, key, password)
    assert "canary" not in repr(source)
    token = deserialize_compact(create_assertion(source, NOW_MS, random.Random(1)), key.private)
    assert token.headers() == {"alg": key.algorithm, "typ": "JWT"}
    times = {"iat": NOW_S, "exp": NOW_S + 300, "nbf": NOW_S - 60}
    assert json.loads(token.payload) == {"iss": "me", "sub": "me", "aud": "provider", **times}


def test_the_template_adds_headers_and_claims(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k"}, "payload": {"sub": "other", "x": [1], "exp": 5}}')
    source = replace(settings(tmp_path), template_file=str(template), has_id=True)
    token = deserialize_compact(create_assertion(source, NOW_MS, random.Random(1)), RSA.private)
    payload = json.loads(token.payload)
    assert token.headers()["kid"] == "k"
    assert (payload["sub"], payload["x"], payload["exp"]) == ("other", [1], NOW_S + 300)
    assert len(payload["jti"]) == 36


def test_an_assertion_of_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    for text in ("a.b.c", "d.e.f"):
        file.write_text(text + "\n")
        assert create_assertion(AssertionFile(path=str(file)), NOW_MS, random.Random(1)) == text


def test_files_that_cannot_be_used_are_not_shown(tmp_path: Path) -> None:
    good = settings(tmp_path)
    broken = tmp_path / "broken"
    broken.write_text("canary")
    sources: list[AssertionFile | AssertionSettings] = [
        AssertionFile(path=str(tmp_path)),
        AssertionFile(path=str(tmp_path / "missing")),
        replace(good, private_key_file=str(broken)),
        replace(good, template_file=str(broken)),
        replace(good, algorithm="ES256"),
        replace(settings(tmp_path, RSA, "canary-password"), file_password="canary-other"),
    ]
    for source in sources:
        with pytest.raises(TokenRetrievalError) as raised:
            create_assertion(source, NOW_MS, random.Random(1))
        assert "canary" not in str(raised.value) and raised.value.__cause__ is None
