"""Delegation tokens in the metadata: the principals that may use one, and until when.

Source: KIP-48, KIP-373; TokenInformation of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord

USER_TYPE: Final = "User"
"""The only type of principals that can be owners and renewers."""


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Return whether a token has expired; expired tokens may be removed from the metadata later."""
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def may_renew(token: DelegationTokenRecord, principal: str) -> bool:
    """Return whether `principal`, as type:name, may renew and expire a token: owner and renewers may."""
    return principal == token.owner or principal in token.renewers


def parties(token: DelegationTokenRecord) -> frozenset[str]:
    """Return the owner, the requester and the renewers of a token, as type:name."""
    return frozenset((token.owner, token.requester, *token.renewers))
