"""The StandardAuthorizer compared with an authorizer that reads every entry for every decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.access_control_entries import Client, by_id, entry
from tests.support.security.authorizers import acl_authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:a", "User:b")
HOSTS = ("10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(AclOperation)[1:12]
TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)
SUPER_USERS = frozenset({"User:root"})

ENTRIES = st.builds(
    entry,
    st.integers(0, 30),
    name=st.sampled_from(NAMES),
    operation=st.sampled_from(OPERATIONS),
    principal=st.sampled_from((*PRINCIPALS, "User:*")),
    host=st.sampled_from((*HOSTS, "*")),
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    permission=st.sampled_from((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
    resource_type=st.sampled_from(TYPES),
)
IMPLIED_BY = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def naive_decision(
    entries: Collection[AccessControlEntryRecord],
    client: Client,
    operation: AclOperation,
    resource: tuple[AclResourceType, str],
    allows_without_entry: bool,
) -> bool:
    def is_about(each: AccessControlEntryRecord) -> bool:
        if each.resource_type != resource[0]:
            return False
        if each.pattern_type == PatternType.PREFIXED:
            return resource[1].startswith(each.resource_name)
        return each.resource_name in ("*", resource[1])

    def covers(each: AccessControlEntryRecord) -> bool:
        operations = {operation, AclOperation.ALL}
        if each.permission_type == PermissionType.ALLOW:
            operations |= IMPLIED_BY.get(operation, set())
        return (
            each.operation in operations
            and each.principal in (client.principal, "User:*")
            and each.host in (client.client_address, "*")
        )

    if client.principal in SUPER_USERS:
        return True
    of_resource = [each for each in entries if is_about(each)]
    if not of_resource:
        return allows_without_entry
    permissions = {each.permission_type for each in of_resource if covers(each)}
    return permissions == {PermissionType.ALLOW}


@given(st.lists(st.lists(ENTRIES, max_size=8, unique_by=lambda each: each.id), max_size=4), st.booleans())
def test_every_decision_equals_the_reference_authorizer_after_every_change(
    changes: list[list[AccessControlEntryRecord]], allows_without_entry: bool
) -> None:
    authorizer = acl_authorizer(SUPER_USERS, allows_without_entry=allows_without_entry)
    entries_by_id: Mapping[UUID, AccessControlEntryRecord] = {}
    for entries in changes:
        entries_by_id, former_entries_by_id = by_id(entries), entries_by_id
        authorizer.update(entries_by_id, {*former_entries_by_id, *entries_by_id})
        for principal in (*PRINCIPALS, "User:root"):
            client = Client(principal)
            for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
                for name in NAMES:
                    expected = naive_decision(
                        entries, client, operation, (TYPES[0], name), allows_without_entry
                    )
                    assert authorizer.is_authorized(client, operation, TYPES[0], name) is expected
