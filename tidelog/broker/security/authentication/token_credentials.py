"""The SCRAM credentials of the delegation tokens in the metadata.

The password of a token is its HMAC, so that its keys can be derived on every node. This takes a few
milliseconds, and is done at the first login with a token and a mechanism. An unknown or expired token gets a
salt and a number of iterations like a valid one, and the client fails with its proof.

Bounds: the keys of `CREDENTIALS_MAX` tokens are kept.
I/O: none; the image is passed as a function.
Source: KIP-48; DelegationTokenCache and DelegationTokenManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.security.authentication.substitutes import SubstituteCredentials, derived_salt
from tidelog.cluster.delegation_tokens import USER_TYPE, is_expired
from tidelog.cluster.image import MetadataImage
from tidelog.security.delegation_token import token_hmac, token_password
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    ScramToken,
    derive_keys,
    salt_password,
)

CREDENTIALS_MAX: Final = 4096


class TokenCredentials:
    """Finds tokens in the current metadata; without `secret_key`, none is valid."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        secret_key: str | None,
        randomness: Randomness,
        clock: Clock,
    ) -> None:
        self._image = image
        self._secret_key = secret_key
        self._clock = clock
        self._substitutes = SubstituteCredentials(randomness)
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def find(self, token_id: str, mechanism: ScramMechanism) -> ScramToken:
        """Return the valid token with an id; otherwise a credential that no password matches."""
        record = self._image().delegation_tokens.get(token_id)
        if self._secret_key and record is not None and not is_expired(record, self._clock.wall_ms()):
            principal_type, _, owner = record.owner.partition(":")
            # Apache Kafka's controllers create tokens for other types; their owners must not become users.
            if principal_type == USER_TYPE:
                credential = self._credential(self._secret_key, token_id, mechanism)
                return ScramToken(credential, owner, record.expiration_timestamp)
        salt = self._salt(token_id)
        return ScramToken(self._substitutes.create(token_id, mechanism, salt, ITERATIONS_MIN), "", 0)

    def _credential(self, secret_key: str, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        credential = self._credentials.pop((token_id, mechanism), None)
        if credential is None:
            salt = self._salt(token_id)
            password = token_password(token_hmac(secret_key, token_id))
            salted_password = salt_password(mechanism, password, salt, ITERATIONS_MIN)
            credential = ScramCredential(salt, ITERATIONS_MIN, derive_keys(mechanism, salted_password))
            if len(self._credentials) >= CREDENTIALS_MAX:
                del self._credentials[next(iter(self._credentials))]
        # The credential that was used least recently is the first one.
        self._credentials[token_id, mechanism] = credential
        return credential

    def _salt(self, token_id: str) -> bytes:
        """Return the salt of an id, which is the same for all logins at this node."""
        return derived_salt(self._substitutes.secret, token_id)
