"""Signed assertions with which a client authenticates to its identity provider.

    claims of the configuration, then those of the template file, then exp, iat, nbf and jti

A later value replaces an earlier one. The files are read for each assertion, so that they can be replaced.

I/O: reads files. Errors: TokenRetrievalError without contents of files.
Source: RFC 7523, KIP-1139; DefaultAssertionCreator and LayeredAssertionJwtTemplate of Apache Kafka 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry, serialize_compact

from tidelog.base.randomness import Randomness
from tidelog.clients.security.oauthbearer.login_settings import AssertionFile, AssertionSettings
from tidelog.clients.security.oauthbearer.text_files import read_text
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError

_ID_BITS: Final = 128


def create_assertion(source: AssertionFile | AssertionSettings, now_ms: int, randomness: Randomness) -> str:
    """Return a signed assertion that is valid at `now_ms`, milliseconds since 1970."""
    if isinstance(source, AssertionFile):
        return read_text(source.path)
    template = _template(source.template_file)
    header = {**template.get("header", {}), "alg": source.algorithm, "typ": "JWT"}
    claims = {**source.claims, **template.get("payload", {}), **_times(source, now_ms)}
    if source.has_id:
        claims["jti"] = str(UUID(int=randomness.getrandbits(_ID_BITS), version=4))
    registry = JWSRegistry(algorithms=[source.algorithm], strict_check_header=False)
    try:
        return serialize_compact(header, json.dumps(claims), _private_key(source), registry=registry)
    except (JoseError, ValueError, TypeError):
        text = f"no assertion can be signed with {source.algorithm} and {source.private_key_file}"
        raise TokenRetrievalError(text) from None


def _times(source: AssertionSettings, now_ms: int) -> Mapping[str, Any]:
    now_s = now_ms // 1000
    return {"iat": now_s, "exp": now_s + source.expires_s, "nbf": now_s - source.begins_before_s}


def _template(path: str | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError):
        found = None
    parts = [found.get(name, {}) for name in ("header", "payload")] if isinstance(found, dict) else [None]
    if not all(isinstance(part, dict) for part in parts):
        raise TokenRetrievalError(f"{path} is not a JSON object with header and payload")
    assert isinstance(found, dict)
    return found


def _private_key(source: AssertionSettings) -> RSAKey | ECKey:
    password = None if source.file_password is None else source.file_password.encode()
    key = load_pem_private_key(read_text(source.private_key_file).encode(), password)
    if isinstance(key, RSAPrivateKey):
        return RSAKey.import_key(key)
    if isinstance(key, EllipticCurvePrivateKey):
        return ECKey.import_key(key)
    raise ValueError("neither RSA nor EC")
