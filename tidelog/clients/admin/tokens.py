"""Admin calls about delegation tokens (KIP-48, KIP-373).

The connection of the client must be authenticated by SASL or by a certificate, but not by a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin_requests import AdminRequests, unique_names
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.security.delegation_token import token_password

_DEFAULT_PERIOD_MS = -1
_AT_ONCE_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token; principals are type:name, times are in milliseconds since 1970.

    With `token_id` as user name and `password`, clients log in by SCRAM. The HMAC, from which the password is
    made, is hidden in the representation.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The HMAC in base64."""
        return token_password(self.hmac)


class TokenAdmin:
    """Delegation tokens."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """Return a new token of `owner`, by default of the client."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        renewer_names = unique_names(renewers, "renewers")
        kind, name = ("", "") if owner is None else _parsed(owner)
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=tuple(
                CreatableRenewers(principal_type=renewer_kind, principal_name=renewer_name)
                for renewer_kind, renewer_name in map(_parsed, renewer_names)
            ),
            max_lifetime_ms=_DEFAULT_PERIOD_MS if max_lifetime_ms is None else max_lifetime_ms,
        )
        response = await self._requests.send_to_controller(
            request, CreateDelegationTokenResponse, deadline_ms
        )
        raise_for(response.error_code, "create a delegation token")
        return DelegationToken(
            token_id=response.token_id,
            owner=f"{response.principal_type}:{response.principal_name}",
            requester=_requester(
                response.token_requester_principal_type, response.token_requester_principal_name
            ),
            renewers=renewer_names,
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
            hmac=response.hmac,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout_ms: int | None = None
    ) -> int:
        """Extend the expiration of a token to `renew_period_ms` from now; return the new expiration."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        period_ms = _DEFAULT_PERIOD_MS if renew_period_ms is None else renew_period_ms
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = await self._requests.send_to_controller(request, RenewDelegationTokenResponse, deadline_ms)
        raise_for(response.error_code, "renew a delegation token")
        return response.expiry_timestamp_ms

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout_ms: int | None = None
    ) -> int:
        """Let a token expire `expiry_period_ms` from now, by default at once; return the expiration."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        period_ms = _AT_ONCE_MS if expiry_period_ms is None else expiry_period_ms
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = await self._requests.send_to_controller(
            request, ExpireDelegationTokenResponse, deadline_ms
        )
        raise_for(response.error_code, "expire a delegation token")
        return response.expiry_timestamp_ms

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of some owners, requesters or renewers (None: of all) that the client may see."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = DescribeDelegationTokenRequest(
            owners=None if owners is None else tuple(map(_owner, unique_names(owners, "owners")))
        )
        response = await self._requests.send(request, DescribeDelegationTokenResponse, deadline_ms)
        raise_for(response.error_code, "describe delegation tokens")
        return [
            DelegationToken(
                token_id=token.token_id,
                owner=f"{token.principal_type}:{token.principal_name}",
                requester=_requester(
                    token.token_requester_principal_type, token.token_requester_principal_name
                ),
                renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
                issue_timestamp_ms=token.issue_timestamp,
                expiry_timestamp_ms=token.expiry_timestamp,
                max_timestamp_ms=token.max_timestamp,
                hmac=token.hmac,
            )
            for token in response.tokens
        ]


def _parsed(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        text = f"{principal!r} is not a principal; expected type:name, for example User:alice"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return kind, name


def _owner(principal: str) -> DescribeDelegationTokenOwner:
    kind, name = _parsed(principal)
    return DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)


def _requester(kind: str, name: str) -> str:
    """Return the requester of a token; empty if the broker does not support version 3."""
    return f"{kind}:{name}" if kind else ""
