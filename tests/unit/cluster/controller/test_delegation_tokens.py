"""Delegation tokens: the principals that may change them, and the times and errors of Kafka."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.support.metadata.images import SeededRandomness, image_after_result, image_with_brokers
from tidelog.cluster.controller import delegation_tokens
from tidelog.cluster.controller.delegation_tokens import (
    DelegationTokens,
    TokenRequester,
    TokenSettings,
    remove_expired_tokens,
)
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.token_index import TokenIndex
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_delegation_token import (
    CreatableRenewers,
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
from tidelog.protocol.steps import run_steps
from tidelog.security.delegation_token import token_hmac

IMAGE = image_with_brokers(1, features=True)
KEY = "key of all nodes"
MAX_MS, EXPIRY_MS, NOW_MS = 1000, 100, 5_000_000
SETTINGS = TokenSettings(
    delegation_token_secret_key=KEY,
    delegation_token_max_lifetime_ms=MAX_MS,
    delegation_token_expiry_time_ms=EXPIRY_MS,
)
ReplyT = TypeVar("ReplyT")
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


class Cluster:
    """A controller whose commands take effect at once."""

    def __init__(self, settings: TokenSettings = SETTINGS, image: MetadataImage = IMAGE) -> None:
        self.tokens = DelegationTokens(settings, SeededRandomness())
        self.image = image
        self.now_ms = NOW_MS

    def create(
        self,
        requester: str = ALICE,
        owner: str | None = None,
        renewers: tuple[tuple[str, str], ...] = (("User", "bob"),),
        max_lifetime_ms: int = -1,
    ) -> CreateDelegationTokenResponse:
        request = CreateDelegationTokenRequest(
            renewers=tuple(
                CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers
            ),
            max_lifetime_ms=max_lifetime_ms,
        )
        by = TokenRequester(requester, self.now_ms)
        return self._apply(self.tokens.create(self.image, by, owner or requester, request))

    def renew(
        self, token: bytes, requester: str = ALICE, period_ms: int = -1
    ) -> RenewDelegationTokenResponse:
        request = RenewDelegationTokenRequest(hmac=token, renew_period_ms=period_ms)
        by = TokenRequester(requester, self.now_ms)
        return self._apply(run_steps(self.tokens.renew(self.image, by, request)))

    def expire(
        self, token: bytes, requester: str = ALICE, period_ms: int = -1
    ) -> ExpireDelegationTokenResponse:
        request = ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=period_ms)
        by = TokenRequester(requester, self.now_ms)
        return self._apply(run_steps(self.tokens.expire(self.image, by, request)))

    def expiration_ms(self, token_id: str) -> int:
        return self.image.delegation_tokens[token_id].expiration_timestamp

    def _apply(self, result: ControllerResult[ReplyT]) -> ReplyT:
        self.image = image_after_result(self.image, result)
        return result.reply


def test_a_token_has_an_id_an_hmac_and_the_times_of_the_settings() -> None:
    cluster = Cluster()
    created = cluster.create(max_lifetime_ms=-1)
    assert len(urlsafe_b64decode(created.token_id + "==")) == 16
    assert created.hmac == token_hmac(KEY, created.token_id)
    assert (created.principal_type, created.principal_name) == ("User", "alice")
    assert created.token_requester_principal_name == "alice"
    assert created.issue_timestamp_ms == NOW_MS
    assert created.expiry_timestamp_ms == NOW_MS + EXPIRY_MS
    assert created.max_timestamp_ms == NOW_MS + MAX_MS
    assert cluster.image.delegation_tokens == {
        created.token_id: DelegationTokenRecord(
            owner=ALICE,
            requester=ALICE,
            renewers=(BOB,),
            issue_timestamp=NOW_MS,
            max_timestamp=NOW_MS + MAX_MS,
            expiration_timestamp=NOW_MS + EXPIRY_MS,
            token_id=created.token_id,
        )
    }
    assert cluster.create().token_id != created.token_id


@pytest.mark.parametrize(
    ("requested_ms", "expiry_ms", "max_ms"),
    [(50, 50, 50), (500, 100, 500), (5000, 100, 1000), (0, 100, 1000)],
)
def test_the_lifetime_of_a_token_is_at_most_that_of_the_settings(
    requested_ms: int, expiry_ms: int, max_ms: int
) -> None:
    created = Cluster().create(max_lifetime_ms=requested_ms)
    assert created.expiry_timestamp_ms - NOW_MS == expiry_ms
    assert created.max_timestamp_ms - NOW_MS == max_ms


def test_times_beyond_64_bits_are_limited() -> None:
    endless = replace(
        SETTINGS,
        delegation_token_max_lifetime_ms=2**63 - 1,
        delegation_token_expiry_time_ms=2**63 - 1,
    )
    cluster = Cluster(endless)
    created = cluster.create()
    assert (created.expiry_timestamp_ms, created.max_timestamp_ms) == (2**63 - 1, 2**63 - 1)
    assert cluster.renew(created.hmac).expiry_timestamp_ms == 2**63 - 1
    assert cluster.expire(created.hmac, period_ms=2**63 - 1).expiry_timestamp_ms == 2**63 - 1


def test_a_token_for_another_owner_names_both() -> None:
    created = Cluster().create(requester=CAROL, owner=ALICE)
    assert (created.principal_name, created.token_requester_principal_name) == ("alice", "carol")


def test_renewers_must_be_users() -> None:
    cluster = Cluster()
    created = cluster.create(renewers=(("User", "bob"), ("Group", "staff")))
    assert created.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (created.token_id, cluster.image.delegation_tokens) == ("", {})


@pytest.mark.parametrize("key", [None, ""])
def test_nothing_works_without_a_secret_key(key: str | None) -> None:
    cluster = Cluster(replace(SETTINGS, delegation_token_secret_key=key))
    created = cluster.create()
    assert created.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert (created.principal_name, created.hmac) == ("alice", b"")
    assert cluster.renew(b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert cluster.expire(b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert not cluster.image.delegation_tokens


@pytest.mark.parametrize(("level", "code"), [(13, ErrorCode.UNSUPPORTED_VERSION), (14, ErrorCode.NONE)])
def test_tokens_need_metadata_version_3_6_iv2(level: int, code: ErrorCode) -> None:
    cluster = Cluster(image=replace(IMAGE, features={**IMAGE.features, METADATA_VERSION: level}))
    created = cluster.create()
    assert created.error_code == code
    if code:
        assert cluster.renew(b"x").error_code == code
        assert cluster.expire(b"x").error_code == code


@pytest.mark.parametrize("by", [ALICE, BOB])
@pytest.mark.parametrize(
    ("period_ms", "after_ms"), [(-1, EXPIRY_MS), (0, EXPIRY_MS), (30, 30), (5000, EXPIRY_MS)]
)
def test_owner_and_renewers_renew_a_token(by: str, period_ms: int, after_ms: int) -> None:
    cluster = Cluster()
    created = cluster.create()
    cluster.now_ms += 60
    renewed = cluster.renew(created.hmac, by, period_ms)
    assert renewed == RenewDelegationTokenResponse(expiry_timestamp_ms=cluster.now_ms + after_ms)
    assert cluster.expiration_ms(created.token_id) == cluster.now_ms + after_ms


def test_a_token_is_not_renewed_beyond_its_maximum_time() -> None:
    cluster = Cluster()
    created = cluster.create(max_lifetime_ms=150)
    cluster.now_ms += 100
    assert cluster.renew(created.hmac).expiry_timestamp_ms == NOW_MS + 150
    cluster.now_ms += 51
    assert cluster.renew(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


@pytest.mark.parametrize("requester", [CAROL, "Group:alice", "User:"])
def test_others_change_no_token(requester: str) -> None:
    cluster = Cluster()
    created = cluster.create()
    assert cluster.renew(created.hmac, requester).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert cluster.expire(created.hmac, requester).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert cluster.expiration_ms(created.token_id) == NOW_MS + EXPIRY_MS


def test_a_requester_that_is_not_the_owner_changes_no_token() -> None:
    cluster = Cluster()
    created = cluster.create(requester=CAROL, owner=ALICE, renewers=())
    assert cluster.renew(created.hmac, CAROL).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize("change", [lambda hmac: b"", lambda hmac: hmac[:-1], lambda hmac: bytes(64)])
def test_an_hmac_of_no_token_is_not_found(change: Callable[[bytes], bytes]) -> None:
    cluster = Cluster()
    other = change(cluster.create().hmac)
    assert cluster.renew(other).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert cluster.expire(other).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_negative_period_removes_a_token_at_once() -> None:
    cluster = Cluster()
    created = cluster.create()
    cluster.now_ms += 1
    assert cluster.expire(created.hmac, BOB) == ExpireDelegationTokenResponse(expiry_timestamp_ms=NOW_MS + 1)
    assert cluster.image.delegation_tokens == {}
    assert cluster.expire(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize(("period_ms", "after_ms"), [(0, 0), (7, 7), (700, 700), (7000, MAX_MS)])
def test_the_expiration_of_a_token_is_set_up_to_its_maximum_time(period_ms: int, after_ms: int) -> None:
    cluster = Cluster()
    created = cluster.create()
    assert cluster.expire(created.hmac, period_ms=period_ms).expiry_timestamp_ms == NOW_MS + after_ms
    assert cluster.expiration_ms(created.token_id) == NOW_MS + after_ms


def test_an_expired_token_is_only_removed() -> None:
    cluster = Cluster()
    created = cluster.create()
    cluster.now_ms += EXPIRY_MS
    assert cluster.renew(created.hmac, period_ms=1).error_code == ErrorCode.NONE
    cluster.now_ms += 2
    assert cluster.renew(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert cluster.renew(created.hmac, CAROL).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert cluster.expire(created.hmac, period_ms=50).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert cluster.expire(created.hmac, period_ms=-1).error_code == ErrorCode.NONE
    assert not cluster.image.delegation_tokens


def test_expired_tokens_are_removed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "REMOVALS_MAX", 2)
    cluster = Cluster()
    expired = [cluster.create().token_id for _ in range(3)]
    cluster.now_ms += EXPIRY_MS + 1
    valid = cluster.create().token_id
    first = remove_expired_tokens(cluster.image, cluster.now_ms)
    assert first.records == tuple(RemoveDelegationTokenRecord(token_id=each) for each in expired[:2])
    assert first.reply
    image = image_after_result(cluster.image, first)
    second = remove_expired_tokens(image, cluster.now_ms)
    assert not second.reply
    assert set(image_after_result(image, second).delegation_tokens) == {valid}


def test_the_index_follows_the_tokens_of_any_image() -> None:
    records = {each: DelegationTokenRecord(token_id=each) for each in ("a", "b", "c")}
    index = TokenIndex(KEY)
    for ids in ("a", "ab", "bc", "", "abc"):
        tokens = {each: records[each] for each in ids}
        for each, record in records.items():
            token_record = run_steps(index.find(tokens, token_hmac(KEY, each)))
            assert token_record == (record if each in ids else None)


def test_the_secret_key_is_not_shown() -> None:
    assert KEY not in repr(SETTINGS)
