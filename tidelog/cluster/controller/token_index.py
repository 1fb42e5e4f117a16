"""Finds delegation tokens by the HMAC in a request.

The metadata has no HMACs. They are computed once for each token. The index contains only a digest of each
with a secret key, so that the time of a search reveals nothing about the HMACs of tokens.

Invariant: after `find`, the index contains exactly the tokens of the given metadata.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.steps import Steps
from tidelog.security.delegation_token import HMAC_BYTES, token_hmac

Tokens = Mapping[str, DelegationTokenRecord]


class TokenIndex:
    """An index of the tokens of an image; calls of `find` must not overlap."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key
        self._ids: dict[bytes, str] = {}
        self._digests: dict[str, bytes] = {}
        self._indexed: Tokens = {}

    def find(self, tokens: Tokens, received: bytes) -> Steps[DelegationTokenRecord | None]:
        """Return the one of `tokens` with the HMAC `received`; None if there is none."""
        if len(received) != HMAC_BYTES:
            # Hashing the largest possible request would take a long time.
            return None
        if tokens is not self._indexed:
            yield from self._update(tokens)
        token_id = self._ids.get(self._digest(received))
        return None if token_id is None else tokens[token_id]

    def _update(self, tokens: Tokens) -> Steps[None]:
        for token_id in self._digests.keys() - tokens.keys():
            del self._ids[self._digests.pop(token_id)]
            yield None
        for token_id in tokens.keys() - self._digests.keys():
            digest = self._digest(token_hmac(self._secret_key, token_id))
            self._digests[token_id] = digest
            self._ids[digest] = token_id
            yield None
        self._indexed = tokens

    def _digest(self, token: bytes) -> bytes:
        return hmac.digest(self._secret_key.encode(), token, "sha256")
