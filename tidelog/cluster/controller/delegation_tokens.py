"""Delegation tokens: creation, renewal, expiration and removal.

A token is valid until its expiration, which can be moved up to its maximum time. Only the owner and the
renewers may do so; they present the HMAC of the token.

Errors, in the responses: DELEGATION_TOKEN_AUTH_DISABLED without a secret key, UNSUPPORTED_VERSION if the
metadata.version does not support tokens, INVALID_PRINCIPAL_TYPE for a renewer that is not a user,
DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
Source: KIP-48, KIP-373, KIP-900; DelegationTokenControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.token_index import TokenIndex
from tidelog.cluster.delegation_tokens import USER_TYPE, is_expired, may_renew
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from tidelog.protocol.steps import Steps
from tidelog.security.delegation_token import token_hmac

# metadata.version 3.6-IV2.
_FIRST_WITH_TOKENS: Final = 14
REMOVALS_MAX: Final = 1000
"""How many expired tokens one command removes."""
_LAST_MS: Final = 2**63 - 1

CreateResult: TypeAlias = ControllerResult[CreateDelegationTokenResponse]
RenewResult: TypeAlias = ControllerResult[RenewDelegationTokenResponse]
ExpireResult: TypeAlias = ControllerResult[ExpireDelegationTokenResponse]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenSettings:
    """The settings of tokens, which the representation does not show; without a secret key, there are none.

    The maximum lifetime limits the maximum time of a token, the expiry time that of a renewal.
    """

    delegation_token_secret_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int


@dataclass(frozen=True, slots=True)
class TokenRequester:
    """The principal of a request, as type:name, and the wall time of the request."""

    principal: str
    now_ms: int


class DelegationTokens:
    """The commands that change tokens; each takes the image and returns records and a response."""

    def __init__(self, settings: TokenSettings, randomness: Randomness) -> None:
        self._settings = settings
        self._randomness = randomness
        self._index = TokenIndex(settings.delegation_token_secret_key or "")

    def create(
        self,
        image: MetadataImage,
        requester: TokenRequester,
        owner: str,
        request: CreateDelegationTokenRequest,
    ) -> CreateResult:
        """Create a token of `owner`, a principal as type:name."""
        kind, _, name = owner.partition(":")
        requester_kind, _, requester_name = requester.principal.partition(":")
        parties = CreateDelegationTokenResponse(
            principal_type=kind,
            principal_name=name,
            token_requester_principal_type=requester_kind,
            token_requester_principal_name=requester_name,
        )
        secret_key = self._settings.delegation_token_secret_key
        code = self._refusal(image)
        if not code and any(each.principal_type != USER_TYPE for each in request.renewers):
            code = ErrorCode.INVALID_PRINCIPAL_TYPE
        if code or not secret_key:
            return ControllerResult((), replace(parties, error_code=code))
        record = self._new_token(requester, owner, request)
        response = replace(
            parties,
            issue_timestamp_ms=record.issue_timestamp,
            expiry_timestamp_ms=record.expiration_timestamp,
            max_timestamp_ms=record.max_timestamp,
            token_id=record.token_id,
            hmac=token_hmac(secret_key, record.token_id),
        )
        return ControllerResult((record,), response)

    def renew(
        self, image: MetadataImage, requester: TokenRequester, request: RenewDelegationTokenRequest
    ) -> Steps[RenewResult]:
        """Extend the expiration by the requested period, up to the settings' and to the maximum time."""
        now_ms, limit_ms = requester.now_ms, self._settings.delegation_token_expiry_time_ms
        try:
            token = yield from self._find(image, request.hmac)
            _require_valid(token, now_ms)
            _require_renewer(token, requester)
        except KafkaError as error:
            return ControllerResult((), RenewDelegationTokenResponse(error_code=error.code))
        period_ms = min(request.renew_period_ms, limit_ms) if request.renew_period_ms > 0 else limit_ms
        record = _with_expiration(token, now_ms + period_ms)
        response = RenewDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp)
        return ControllerResult((record,), response)

    def expire(
        self, image: MetadataImage, requester: TokenRequester, request: ExpireDelegationTokenRequest
    ) -> Steps[ExpireResult]:
        """Set the expiration to the requested period from now; a negative period removes the token."""
        now_ms, period_ms = requester.now_ms, request.expiry_time_period_ms
        try:
            token = yield from self._find(image, request.hmac)
            _require_renewer(token, requester)
            if period_ms < 0:
                removal = RemoveDelegationTokenRecord(token_id=token.token_id)
                return ControllerResult((removal,), ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
            _require_valid(token, now_ms)
        except KafkaError as error:
            return ControllerResult((), ExpireDelegationTokenResponse(error_code=error.code))
        record = _with_expiration(token, now_ms + period_ms)
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp)
        return ControllerResult((record,), response)

    def _new_token(
        self, requester: TokenRequester, owner: str, request: CreateDelegationTokenRequest
    ) -> DelegationTokenRecord:
        now_ms, lifetime_ms = requester.now_ms, self._settings.delegation_token_max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        token = DelegationTokenRecord(
            owner=owner,
            requester=requester.principal,
            renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
            issue_timestamp=now_ms,
            max_timestamp=min(now_ms + lifetime_ms, _LAST_MS),
            token_id=uuid_text(new_uuid(self._randomness)),
        )
        return _with_expiration(token, now_ms + self._settings.delegation_token_expiry_time_ms)

    def _find(self, image: MetadataImage, received: bytes) -> Steps[DelegationTokenRecord]:
        """Return the token with the HMAC of a request; raise KafkaError if there is none."""
        code = self._refusal(image)
        if code:
            raise _error(code)
        token = yield from self._index.find(image.delegation_tokens, received)
        if token is None:
            raise _error(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def _refusal(self, image: MetadataImage) -> ErrorCode:
        """Return why no token can be changed; NONE if tokens are enabled."""
        if not self._settings.delegation_token_secret_key:
            return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        if image.features.get(METADATA_VERSION, 0) < _FIRST_WITH_TOKENS:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE


def remove_expired_tokens(image: MetadataImage, now_ms: int) -> ControllerResult[bool]:
    """Remove expired tokens; the reply is whether more than `REMOVALS_MAX` may have expired."""
    expired = (token for token in image.delegation_tokens.values() if is_expired(token, now_ms))
    removals = tuple(
        RemoveDelegationTokenRecord(token_id=token.token_id) for token in islice(expired, REMOVALS_MAX)
    )
    return ControllerResult(removals, len(removals) == REMOVALS_MAX)


def _with_expiration(token: DelegationTokenRecord, expiration_ms: int) -> DelegationTokenRecord:
    return replace(token, expiration_timestamp=min(token.max_timestamp, expiration_ms))


def _require_valid(token: DelegationTokenRecord, now_ms: int) -> None:
    if is_expired(token, now_ms):
        raise _error(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _require_renewer(token: DelegationTokenRecord, requester: TokenRequester) -> None:
    if not may_renew(token, requester.principal):
        raise _error(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _error(code: ErrorCode) -> KafkaError:
    return KafkaError(code, code.text)
