"""Decisions of the StandardAuthorizer, as Apache Kafka 4.3 makes them."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from tests.support.messages.access_control_entries import Client, by_id, entry
from tests.support.security.authorizers import acl_authorizer
from tidelog.broker.security.authorization import standard_authorizer
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = AclResourceType.TOPIC
DENY = PermissionType.DENY
PREFIXED = PatternType.PREFIXED


def authorizer(*entries: AccessControlEntryRecord, **options: Any) -> StandardAuthorizer:
    created = acl_authorizer(**options)
    created.update(by_id(entries), by_id(entries))
    return created


def allows(
    of: StandardAuthorizer, operation: AclOperation = READ, name: str = "orders", client: Client | None = None
) -> bool:
    return of.is_authorized(client or Client(), operation, TOPIC, name)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not allows(authorizer())


def test_an_entry_allows_its_operation_on_its_resource_to_its_principal_only() -> None:
    standard = authorizer(entry(1))
    assert allows(standard)
    assert not allows(standard, WRITE)
    assert not allows(standard, name="orders2")
    assert not allows(standard, client=Client("User:bob"))
    assert not standard.is_authorized(Client(), READ, AclResourceType.GROUP, "orders")


def test_a_denial_precedes_every_permission() -> None:
    standard = authorizer(
        entry(1, operation=AclOperation.ALL), entry(2, name="ord", pattern_type=PREFIXED, permission=DENY)
    )
    assert not allows(standard)
    assert allows(standard, WRITE)


@pytest.mark.parametrize("implied_by", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_operations_imply_describe_but_their_denial_does_not_deny_it(implied_by: AclOperation) -> None:
    assert allows(authorizer(entry(1, operation=implied_by)), DESCRIBE)
    denied = authorizer(entry(1, operation=DESCRIBE), entry(2, operation=implied_by, permission=DENY))
    assert allows(denied, DESCRIBE)


def test_alter_configs_implies_describe_configs_only() -> None:
    standard = authorizer(entry(1, operation=AclOperation.ALTER_CONFIGS))
    assert allows(standard, AclOperation.DESCRIBE_CONFIGS)
    assert not allows(standard, DESCRIBE)


def test_prefixes_and_the_wildcard_apply_to_many_names() -> None:
    standard = authorizer(
        entry(1, name="ord", pattern_type=PREFIXED), entry(2, name="*", operation=WRITE, principal="User:*")
    )
    assert allows(standard) and allows(standard, name="ord")
    assert not allows(standard, name="or")
    assert allows(standard, WRITE, "anything", Client("User:bob"))


def test_the_wildcard_is_no_prefix() -> None:
    standard = authorizer(entry(1, name="*", pattern_type=PREFIXED))
    assert not allows(standard)
    assert allows(standard, name="*a")


@pytest.mark.parametrize(
    ("host", "address", "is_allowed"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("a.example.org", "10.0.0.1", False),
    ],
)
def test_hosts_are_compared_as_addresses(host: str, address: str, is_allowed: bool) -> None:
    assert allows(authorizer(entry(1, host=host)), client=Client(client_address=address)) is is_allowed


def test_a_super_user_is_allowed_everything_even_if_an_entry_denies_it_or_none_is_loaded() -> None:
    standard = authorizer(
        entry(1, permission=DENY), super_users=frozenset({"User:alice"}), is_loaded=lambda: False
    )
    assert allows(standard)


def test_there_is_no_decision_before_the_entries_are_loaded() -> None:
    with pytest.raises(KafkaError, match="not loaded yet"):
        allows(authorizer(is_loaded=lambda: False, allows_without_entry=True))


def test_everyone_is_allowed_only_on_resources_without_any_entry() -> None:
    standard = authorizer(entry(1, principal="User:bob"), allows_without_entry=True)
    assert allows(standard, name="payments")
    assert not allows(standard)


def test_removing_one_entry_of_a_resource_keeps_the_others_cve_2024_27309() -> None:
    first, second = entry(1), entry(2, principal="User:bob", permission=DENY)
    standard = authorizer(first, second, entry(3, principal="User:bob"))
    standard.update(by_id([second, entry(3, principal="User:bob")]), [first.id])
    assert not allows(standard, client=Client("User:bob"))
    assert not allows(standard)


def test_a_changed_entry_invalidates_cached_decisions() -> None:
    standard = authorizer(entry(1))
    assert allows(standard)
    changed = entry(1, permission=DENY)
    standard.update(by_id([changed]), [changed.id])
    assert not allows(standard)


class UnreadableEntries(dict[UUID, AccessControlEntryRecord]):
    """Entries that can be looked up, but not compared one by one."""

    def __iter__(self) -> Any:
        raise AssertionError("all entries are read")

    items = keys = values = __iter__


def test_a_change_reads_only_the_changed_entries() -> None:
    old, new = entry(1), entry(2, operation=WRITE)
    standard = authorizer(old)
    standard.update(UnreadableEntries({new.id: new}), [old.id, new.id])
    assert allows(standard, WRITE) and not allows(standard)


def test_a_delta_without_entries_keeps_the_cached_decisions() -> None:
    standard = authorizer(entry(1))
    assert allows(standard)
    delta = MetadataDelta(MetadataImage(cluster_id="test"))
    standard.apply(delta, delta.image(1, 1))
    assert len(standard._decisions) == 1
    delta.replay(entry(2, permission=DENY))
    standard.apply(delta, delta.image(2, 1))
    assert not allows(standard)


def test_a_decision_reads_only_the_entries_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    standard = authorizer(
        *(entry(number, host=f"10.1.{number // 256}.{number % 256}") for number in range(1000)),
        *(entry(1000 + number, principal=f"User:{number}") for number in range(1000)),
        entry(2000, operation=WRITE),
    )
    read: list[AccessControlEntryRecord] = []
    covers = standard_authorizer._covers

    def count_call(each: AccessControlEntryRecord, operation: int) -> bool:
        read.append(each)
        return covers(each, operation)

    monkeypatch.setattr(standard_authorizer, "_covers", count_call)
    assert not allows(standard)
    assert [each.operation for each in read] == [WRITE]
    assert allows(standard, client=Client(client_address="10.1.0.7"))


def test_the_cache_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_authorizer, "CACHED_MAX", 10)
    standard = authorizer(entry(1, name="t", pattern_type=PREFIXED))
    assert all(allows(standard, name=f"t{number}") for number in range(100))
    assert not allows(standard, name="x" * 30_000)
    assert len(standard._decisions) <= 10


def test_access_to_a_type_needs_a_resource_that_no_denial_covers() -> None:
    def is_allowed(*entries: AccessControlEntryRecord) -> bool:
        return authorizer(*entries).is_authorized_by_type(Client(), READ, TOPIC)

    wildcard_denied = entry(9, name="*", permission=DENY)
    prefix_denied = entry(8, name="ord", pattern_type=PREFIXED, permission=DENY)
    assert not is_allowed()
    assert is_allowed(entry(1))
    assert not is_allowed(entry(1, operation=WRITE))
    assert not is_allowed(entry(1), wildcard_denied)
    assert not is_allowed(entry(1), entry(2, permission=DENY))
    assert not is_allowed(entry(1), prefix_denied)
    assert is_allowed(entry(1, name="o", pattern_type=PREFIXED), prefix_denied)
    assert is_allowed(entry(1, name="*"), prefix_denied)
    assert not is_allowed(entry(1, host="10.0.0.2"))


def test_authorized_operations_are_a_bit_field() -> None:
    standard = authorizer(entry(1, operation=READ))
    assert standard.authorized_operations(Client(), TOPIC, "orders") == 1 << READ | 1 << DESCRIBE


def test_the_audit_log_has_denials_at_info_and_permissions_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    standard = authorizer(entry(1))
    with caplog.at_level(logging.DEBUG, logger="kafka.authorizer.logger"):
        allows(standard)
        allows(standard, WRITE)
        standard.is_authorized(Client(), WRITE, TOPIC, "orders", logs_denial=False)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "DEBUG",
            "Principal = User:alice is Allowed operation = READ from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule "
            "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
            "principal=User:alice, host=*, operation=READ, permissionType=ALLOW))",
        ),
        (
            "INFO",
            "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule DefaultDeny",
        ),
    ]


def test_the_audit_log_has_the_start_of_a_long_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        allows(authorizer(), name="x" * 30_000)
    assert len(caplog.records[0].getMessage()) < 600
