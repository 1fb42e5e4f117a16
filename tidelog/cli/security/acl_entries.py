"""Access control entries from the options of `tidelog acl`, which are those of kafka-acls.

Each combination of resource, principal, host and operation is one entry.
Source: AclCommand of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.security.authorization.supported_operations import SUPPORTED_OPERATIONS
from tidelog.cli.failures import UsageFailure
from tidelog.clients.admin.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from tidelog.cluster.acls import CLUSTER_NAME

EVERY_HOST: Final = "*"
_PRODUCER: Final = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER: Final = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


class Resource(NamedTuple):
    """A resource pattern, or a filter of patterns."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType


class Entry(NamedTuple):
    """A permission: one operation is allowed or denied to one principal, from one host."""

    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOptions:
    """The resources, principals, hosts and operations of a command."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    is_cluster: bool = False
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    user_principals: Sequence[str] = ()
    pattern_type: PatternType = PatternType.LITERAL
    allow_principals: Sequence[str] = ()
    deny_principals: Sequence[str] = ()
    allow_hosts: Sequence[str] = ()
    deny_hosts: Sequence[str] = ()
    operations: Sequence[AclOperation] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    def resources(self) -> list[Resource]:
        """Return the resources; a cluster has only the literal pattern."""
        resources = [
            Resource(resource_type, name.strip(), self.pattern_type)
            for resource_type, names in (
                (AclResourceType.TOPIC, self.topics),
                (AclResourceType.GROUP, self.groups),
                (AclResourceType.TRANSACTIONAL_ID, self.transactional_ids),
                (AclResourceType.DELEGATION_TOKEN, self.delegation_tokens),
                (AclResourceType.USER, self.user_principals),
            )
            for name in names
        ]
        if (self.is_cluster or self.is_idempotent) and self.pattern_type is PatternType.LITERAL:
            resources.append(Resource(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
        return resources

    def bindings(self) -> list[AclBinding]:
        """Return the entries to add. Errors: UsageFailure."""
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageFailure(
                f"--resource-pattern-type {self.pattern_type.name.lower()} is for list and remove; "
                "to add, use literal or prefixed"
            )
        if not self.allow_principals and not self.deny_principals:
            raise UsageFailure("give --allow-principal or --deny-principal")
        return [_binding(resource, entry) for resource, entry in self._pairs() if entry is not None]

    def filters(self) -> list[AclFilter]:
        """Return filters for the entries to remove: without principals, all entries of the resources.

        Errors: UsageFailure. Operations without principals are refused: kafka-acls ignores them, and removes
        the entries of all operations.
        """
        if self.operations and not self.allow_principals and not self.deny_principals:
            raise UsageFailure("--operation needs --allow-principal or --deny-principal")
        return [
            AclFilter(resource.resource_type, resource.name, pattern_type=resource.pattern_type)
            if entry is None
            else AclFilter(**_binding(resource, entry)._asdict())
            for resource, entry in self._pairs()
        ]

    def _pairs(self) -> list[tuple[Resource, Entry | None]]:
        """Return each resource with its entries, in order, without repetition; None if there are none."""
        self._check()
        pairs: dict[tuple[Resource, Entry | None], None] = {}
        for resource in self.resources():
            operations = tuple(self._operations(resource.resource_type))
            _check_operations(resource.resource_type, operations)
            entries: list[Entry | None] = [*self._entries(operations)]
            if operations and not entries:
                entries = [None]
            pairs |= dict.fromkeys((resource, entry) for entry in entries)
        return list(pairs)

    def _operations(self, resource_type: AclResourceType) -> Iterator[AclOperation]:
        if not self.is_producer and not self.is_consumer:
            yield from self.operations or (AclOperation.ALL,)
        if self.is_producer:
            yield from _PRODUCER.get(resource_type, ())
            if self.is_idempotent and resource_type is AclResourceType.CLUSTER:
                yield AclOperation.IDEMPOTENT_WRITE
        if self.is_consumer:
            yield from _CONSUMER.get(resource_type, ())

    def _entries(self, operations: Iterable[AclOperation]) -> Iterator[Entry]:
        allow_hosts, deny_hosts = self.allow_hosts or (EVERY_HOST,), self.deny_hosts or (EVERY_HOST,)
        for operation in operations:
            for principal, host in product(self.allow_principals, allow_hosts):
                yield Entry(principal, host, operation, PermissionType.ALLOW)
            for principal, host in product(self.deny_principals, deny_hosts):
                yield Entry(principal, host, operation, PermissionType.DENY)

    def _check(self) -> None:
        """Raise UsageFailure for options that do not fit together, as kafka-acls does."""
        if not self.resources():
            raise UsageFailure(
                "give a resource: --topic, --group, --cluster, --transactional-id, --delegation-token "
                "or --user-principal"
            )
        if self.allow_hosts and not self.allow_principals:
            raise UsageFailure("--allow-host needs --allow-principal")
        if self.deny_hosts and not self.deny_principals:
            raise UsageFailure("--deny-host needs --deny-principal")
        if self.is_idempotent and not self.is_producer:
            raise UsageFailure("--idempotent needs --producer")
        if not self.is_producer and not self.is_consumer:
            return
        if self.operations or self.deny_principals or self.deny_hosts:
            raise UsageFailure(
                "--producer and --consumer exclude --operation, --deny-principal and --deny-host"
            )
        if not self.topics:
            raise UsageFailure("--producer and --consumer need --topic")
        if self.is_consumer and not self.groups:
            raise UsageFailure("--consumer needs --group")
        if self.is_consumer and not self.is_producer and (self.is_cluster or self.transactional_ids):
            raise UsageFailure("--consumer excludes --cluster and --transactional-id")
        if self.is_producer and not self.is_consumer and self.groups:
            raise UsageFailure("--producer excludes --group")


def _binding(resource: Resource, entry: Entry) -> AclBinding:
    return AclBinding(
        resource.resource_type,
        resource.name,
        entry.principal,
        entry.operation,
        entry.permission,
        entry.host,
        resource.pattern_type,
    )


def _check_operations(resource_type: AclResourceType, operations: Iterable[AclOperation]) -> None:
    supported = (AclOperation.ALL, *SUPPORTED_OPERATIONS[resource_type])
    for operation in operations:
        if operation not in supported:
            allowed = ", ".join(map(operation_name, supported))
            raise UsageFailure(
                f"--operation {operation_name(operation)}: {type_name(resource_type)} has no such operation; "
                f"allowed are {allowed}"
            )


def parse_principal(option: str, text: str) -> str:
    """Return a principal such as User:alice. Errors: UsageFailure."""
    kind, colon, name = text.strip().partition(":")
    if not colon or not kind or not name:
        raise UsageFailure(f"{option} {text!r}: expected TYPE:NAME, such as User:alice or User:*")
    return text.strip()


def parse_operation(text: str) -> AclOperation:
    """Return the operation with Kafka's name, such as Read or DescribeConfigs, in any case.

    Errors: UsageFailure.
    """
    name = text.strip().replace("_", "").replace("-", "").lower()
    for operation in AclOperation:
        if operation_name(operation).lower() == name and operation is not AclOperation.ANY:
            return operation
    allowed = ", ".join(operation_name(each) for each in AclOperation if each is not AclOperation.ANY)
    raise UsageFailure(f"--operation {text!r}: allowed are {allowed}")


def operation_name(operation: AclOperation) -> str:
    """Return Kafka's name of an operation, such as DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def type_name(resource_type: AclResourceType) -> str:
    """Return the name of a resource type, such as transactional-id."""
    return resource_type.name.lower().replace("_", "-")
