"""The secrets of delegation tokens.

    HMAC       HMAC-SHA-512 of the token id with delegation.token.secret.key
    password   the HMAC in base64; with it and the token id as user name, clients log in by SCRAM

The HMAC is not stored: every node computes it from the id in the metadata.

Source: KIP-48; DelegationTokenManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Final

HMAC_BYTES: Final = 64


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the HMAC of a token, `HMAC_BYTES` long."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(token: bytes) -> str:
    """Return the password for the HMAC `token`."""
    return b64encode(token).decode()
