"""The public keys of an identity provider: a JSON Web Key Set (JWKS), and which of them verify a token.

Keys that cannot verify tokens are ignored: other types (secrets for HMAC, too), keys for encryption, RSA keys
of less than 2048 bits, unknown curves. Private parts are dropped.

Source: RFC 7517, RFC 7518; VerificationJwkSelector of jose4j, which Apache Kafka 4.3 uses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from joserfc.jwk import ECKey, Key, RSAKey

from tidelog.base.dataclass import dataclass
from tidelog.security.oauthbearer.token import KEY_ID_CHARACTERS_MAX

KEYS_MAX: Final = 200
CANDIDATES_MAX: Final = 8
"""The number of keys that are tried for a token without a key id."""
_RSA_BITS_MIN: Final = 2048


class _KeyKind(NamedTuple):
    """The type of a key, and its curve if it has one."""

    key_type: str
    curve: str | None = None


_RSA: Final = _KeyKind("RSA")
ALGORITHMS: Final[Mapping[str, _KeyKind]] = {
    "RS256": _RSA,
    "RS384": _RSA,
    "RS512": _RSA,
    "PS256": _RSA,
    "PS384": _RSA,
    "PS512": _RSA,
    "ES256": _KeyKind("EC", "P-256"),
    "ES384": _KeyKind("EC", "P-384"),
    "ES512": _KeyKind("EC", "P-521"),
}
"""The accepted algorithms of signatures and the keys that they need; never `none`, never HMAC."""

_TYPES: Final[Mapping[str, type[RSAKey | ECKey]]] = {"RSA": RSAKey, "EC": ECKey}
_PUBLIC_PARTS: Final = ("kty", "n", "e", "crv", "x", "y")


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key; `key_id` and `algorithm` are None if the key set does not have them."""

    key_id: str | None
    algorithm: str | None
    kind: _KeyKind
    key: Key = field(repr=False)

    def can_verify(self, algorithm: str) -> bool:
        """Return whether the key verifies signatures of `algorithm`."""
        return ALGORITHMS.get(algorithm) == self.kind and self.algorithm in (None, algorithm)


class KeySet:
    """The usable keys of an identity provider."""

    def __init__(self, keys: Sequence[VerificationKey] = ()) -> None:
        self._keys = tuple(keys)

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of all keys."""
        return frozenset(key.key_id for key in self._keys if key.key_id is not None)

    def __len__(self) -> int:
        return len(self._keys)

    def candidates(self, key_id: str | None, algorithm: str) -> list[VerificationKey]:
        """Return the keys that may have signed a token; without a key id, the first ones of its algorithm."""
        found = [key for key in self._keys if key_id in (None, key.key_id) and key.can_verify(algorithm)]
        return found[:CANDIDATES_MAX]


def parse_key_set(text: bytes) -> KeySet:
    """Return the usable keys of a JWKS. Raise ValueError if there is none; its text contains no keys."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no JSON object with a list of keys")
    if len(listed) > KEYS_MAX:
        raise ValueError(f"{len(listed)} keys; allowed are at most {KEYS_MAX}")
    keys = [key for key in map(_usable_key, listed) if key is not None]
    if not keys:
        raise ValueError("no key that can verify tokens")
    return KeySet(keys)


def _usable_key(found: object) -> VerificationKey | None:
    if not isinstance(found, dict) or not _is_for_signatures(found):
        return None
    key_type = _TYPES.get(str(found.get("kty")))
    key_id, algorithm = found.get("kid"), found.get("alg")
    if key_type is None or not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    if key_id is not None and len(key_id) > KEY_ID_CHARACTERS_MAX:
        return None
    try:
        key = key_type.import_key({name: found[name] for name in _PUBLIC_PARTS if name in found})
        public = key.public_key
    except Exception:
        # The library raises many kinds of errors for invalid keys. The other keys stay usable.
        return None
    if isinstance(public, RSAPublicKey) and public.key_size < _RSA_BITS_MIN:
        return None
    curve = found.get("crv") if key_type is not RSAKey else None
    return VerificationKey(key_id, algorithm, _KeyKind(key_type.key_type, curve), key)


def _is_for_signatures(found: Mapping[str, Any]) -> bool:
    operations = found.get("key_ops")
    is_verified_with = operations is None or (isinstance(operations, list) and "verify" in operations)
    return found.get("use") in (None, "sig") and is_verified_with
