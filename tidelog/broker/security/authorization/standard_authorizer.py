"""Kafka's StandardAuthorizer: decides by the access control entries of the metadata.

    principal is in super.users         allowed
    entries are not loaded yet          KafkaError UNKNOWN_SERVER_ERROR
    an entry denies the operation       denied
    an entry allows the operation       allowed
    the resource has no entry           allowed if allow.everyone.if.no.acl.found, else denied
    the resource has other entries      denied

An entry that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE, and one that allows ALTER_CONFIGS also
allows DESCRIBE_CONFIGS. Entries that deny imply nothing.

Bounds: `CACHED_MAX` decisions are cached, for names of at most `CACHED_NAME_MAX` characters. A change of the
entries removes all of them. Source: StandardAuthorizerData and Authorizer of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.broker.network.addresses import comparable_host
from tidelog.broker.observability.logging_setup import TRACE
from tidelog.broker.security.authorization.acl_index import AclIndex, Requesters
from tidelog.broker.security.authorization.audit_log import AuditLog, audit_logger, entry_text
from tidelog.broker.security.authorization.authorizer import Requester
from tidelog.broker.security.authorization.supported_operations import SUPPORTED_OPERATIONS, operation_bits
from tidelog.cluster.acls import WILDCARD_RESOURCE
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

CACHED_MAX: Final = 10_000
CACHED_NAME_MAX: Final = 255
WILDCARD_PRINCIPAL: Final = "User:*"
WILDCARD_HOST: Final = "*"
_ANY_NAME: Final = "hardcode"
"""The name with which Kafka checks whether a principal may access resources that no entry names."""

_IMPLIES_DESCRIBE: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
_IMPLIES_DESCRIBE_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})


class Decision(NamedTuple):
    """Whether an access is allowed; `entry` is the access control entry that decided, if any."""

    is_allowed: bool
    rule: str
    entry: AccessControlEntryRecord | None = None

    @property
    def text(self) -> str:
        """The rule for the audit log."""
        return self.rule if self.entry is None else entry_text(self.entry)


SUPER_USER: Final = Decision(True, "SuperUser")
DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
DEFAULT_DENY: Final = Decision(False, "DefaultDeny")

_NO_ENTRIES: Final[Mapping[UUID, AccessControlEntryRecord]] = {}

_CacheKey: TypeAlias = tuple[str, str, int, int, str | None]


class StandardAuthorizer:
    """Decides by the entries of the metadata; `is_loaded` returns whether they are complete."""

    is_enabled = True

    def __init__(
        self,
        super_users: frozenset[str],
        *,
        allows_without_entry: bool,
        is_loaded: Callable[[], bool],
        audit: AuditLog,
    ) -> None:
        """`allows_without_entry` is allow.everyone.if.no.acl.found."""
        self._audit = audit
        self._super_users = super_users
        self._default = DEFAULT_ALLOW if allows_without_entry else DEFAULT_DENY
        self._is_loaded = is_loaded
        self._has_loaded = False
        self._index = AclIndex()
        self._decisions: dict[_CacheKey, Decision] = {}

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply one metadata update; a subscriber of the metadata store."""
        changed_ids = delta.changed_access_control_entries
        if changed_ids:
            self.update(image.access_control_entries, changed_ids)

    def update(self, entries: Mapping[UUID, AccessControlEntryRecord], changed_ids: Iterable[UUID]) -> None:
        """Use `entries`, which differ from the former ones only in those with `changed_ids`."""
        self._index.update(entries, changed_ids)
        self._decisions.clear()

    def is_authorized(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        """Return whether the client may perform `operation` on the resource `name`."""
        decision = self._decision(requester, operation, resource_type, name)
        level = logging.DEBUG if decision.is_allowed else logging.INFO if logs_denial else TRACE
        if audit_logger.isEnabledFor(level):
            self._audit.record(
                requester,
                operation,
                (resource_type, name),
                is_allowed=decision.is_allowed,
                rule=decision.text,
                level=level,
            )
        return decision.is_allowed

    def is_authorized_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the client may perform `operation` on at least one resource of a type."""
        if self.is_authorized(requester, operation, resource_type, _ANY_NAME, logs_denial=False):
            return True
        key = (requester.principal, requester.client_address, operation, resource_type, None)
        decision = self._decisions.get(key)
        if decision is None:
            is_allowed = self._is_any_allowed(
                requester.principal, comparable_host(requester.client_address), operation, resource_type
            )
            decision = self._cache(key, DEFAULT_ALLOW if is_allowed else DEFAULT_DENY)
        return decision.is_allowed

    def authorized_operations(self, requester: Requester, resource_type: AclResourceType, name: str) -> int:
        """Return all operations that the client may perform on a resource, as a bit field (KIP-430)."""
        return operation_bits(
            operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self._decision(requester, operation, resource_type, name).is_allowed
        )

    def _decision(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> Decision:
        key = (requester.principal, requester.client_address, operation, resource_type, name)
        return self._decisions.get(key) or self._decide_and_cache(key, name)

    def _decide_and_cache(self, key: _CacheKey, name: str) -> Decision:
        principal, address, operation, resource_type, _ = key
        if principal in self._super_users:
            return self._cache(key, SUPER_USER)
        self._require_loaded()
        host = comparable_host(address)
        return self._cache(key, self._decide(principal, host, operation, resource_type, name))

    def _cache(self, key: _CacheKey, decision: Decision) -> Decision:
        name = key[-1]
        if name is None or len(name) <= CACHED_NAME_MAX:
            if len(self._decisions) >= CACHED_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _require_loaded(self) -> None:
        if self._has_loaded:
            return
        if not self._is_loaded():
            text = "the access control entries are not loaded yet"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        self._has_loaded = True

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        patterns = self._index.patterns(resource_type, name)
        if not patterns:
            return self._default
        decision, requesters = DEFAULT_DENY, _requesters(principal, host)
        for entries_by_requester in patterns:
            for requester in requesters:
                for entry in entries_by_requester.get(requester, _NO_ENTRIES).values():
                    if not _covers(entry, operation):
                        continue
                    if entry.permission_type != PermissionType.ALLOW:
                        return Decision(False, "MatchingAcl", entry)
                    decision = Decision(True, "MatchingAcl", entry)
        return decision

    def _is_any_allowed(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether an entry allows the operation on a name that no other entry denies."""
        requesters, operations = _requesters(principal, host), (operation, AclOperation.ALL)
        entries_of_type = self._index.entries_of_type
        denied_patterns = {
            (entry.pattern_type, entry.resource_name)
            for entry in entries_of_type(resource_type, requesters, operations, PermissionType.DENY)
        }
        if (PatternType.LITERAL, WILDCARD_RESOURCE) in denied_patterns:
            return False
        # The first entry usually decides, because few entries deny.
        return any(
            not _is_dominated((entry.pattern_type, entry.resource_name), denied_patterns)
            for entry in entries_of_type(resource_type, requesters, operations, PermissionType.ALLOW)
        )


def _is_dominated(pattern: tuple[int, str], denied_patterns: set[tuple[int, str]]) -> bool:
    """Return whether all names of an allowed pattern are denied."""
    pattern_type, name = pattern
    if not denied_patterns or pattern == (PatternType.LITERAL, WILDCARD_RESOURCE):
        return False
    if pattern_type == PatternType.LITERAL and pattern in denied_patterns:
        return True
    prefixes = (name[:length] for length in range(1, len(name) + 1))
    return any((PatternType.PREFIXED, prefix) in denied_patterns for prefix in prefixes)


def _requesters(principal: str, host: str) -> Requesters:
    """Return the principals and hosts of the entries that apply to a client, each pair once."""
    principals = (principal,) if principal == WILDCARD_PRINCIPAL else (principal, WILDCARD_PRINCIPAL)
    return list(product(principals, (host, WILDCARD_HOST)))


def _covers(entry: AccessControlEntryRecord, operation: int) -> bool:
    """Return whether an entry is about `operation`."""
    if entry.operation in (operation, AclOperation.ALL):
        return True
    if entry.permission_type != PermissionType.ALLOW:
        return False
    if operation == AclOperation.DESCRIBE:
        return entry.operation in _IMPLIES_DESCRIBE
    return operation == AclOperation.DESCRIBE_CONFIGS and entry.operation in _IMPLIES_DESCRIBE_CONFIGS
