"""An index of the access control entries, in which the entries for one decision are found quickly.

The entries that apply to a resource have its name, a prefix of it, or the name "*". Each of these is one
look-up, because the index contains the lengths of all prefixes. The entries of a pattern are indexed by
principal and host, so a decision reads only entries that differ in operation and permission.

Invariant: an entry is found by its id; removing it keeps all other entries (CVE-2024-27309).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from tidelog.broker.network.addresses import comparable_host
from tidelog.cluster.acls import WILDCARD_RESOURCE
from tidelog.protocol.access_control import PatternType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

_Requester: TypeAlias = tuple[str, str]
"""The principal and the host of an entry, each of which may be a wildcard."""

Requesters: TypeAlias = Collection[_Requester]
"""The pairs of principal and host whose entries apply to a client."""

_Pattern: TypeAlias = tuple[int, int, str]
"""The resource type, the pattern type and the name of a resource pattern."""

_Rule: TypeAlias = tuple[int, str, str, int, int]
"""The resource type, the principal, the host, the operation and the permission of an entry."""

_Entries: TypeAlias = dict[UUID, AccessControlEntryRecord]

_Key = TypeVar("_Key")

_NO_ENTRIES: Final[Mapping[UUID, AccessControlEntryRecord]] = {}


class AclIndex:
    """Finds the entries for a resource and a client."""

    def __init__(self) -> None:
        self._by_id: _Entries = {}
        self._by_pattern: dict[_Pattern, dict[_Requester, _Entries]] = {}
        self._by_rule: dict[_Rule, _Entries] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def update(self, entries: Mapping[UUID, AccessControlEntryRecord], changed_ids: Iterable[UUID]) -> None:
        """Use `entries`, which differ from the former ones only in those with `changed_ids`."""
        for entry_id in changed_ids:
            old, new = self._by_id.get(entry_id), entries.get(entry_id)
            if old == new:
                continue
            if old is not None:
                self._remove(old)
            if new is not None:
                self._add(new)

    def patterns(self, resource_type: int, name: str) -> list[Mapping[_Requester, _Entries]]:
        """Return the entries of every pattern that matches a resource, by principal and host."""
        by_pattern = self._by_pattern
        keys = [
            (resource_type, PatternType.LITERAL, name),
            (resource_type, PatternType.LITERAL, WILDCARD_RESOURCE),
        ]
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                keys.append((resource_type, PatternType.PREFIXED, name[:length]))
        if name == WILDCARD_RESOURCE:
            del keys[1]
        return [by_pattern[key] for key in keys if key in by_pattern]

    def entries_of_type(
        self, resource_type: int, requesters: Requesters, operations: Iterable[int], permission: int
    ) -> Iterator[AccessControlEntryRecord]:
        """Yield the entries for all resources of a type that are about one of `operations`."""
        for operation in operations:
            for principal, host in requesters:
                rule = (resource_type, principal, host, operation, permission)
                yield from self._by_rule.get(rule, _NO_ENTRIES).values()

    def _add(self, entry: AccessControlEntryRecord) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = {}
            if entry.pattern_type == PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(entry.resource_type, Counter())
                lengths[len(entry.resource_name)] += 1
        self._by_id[entry.id] = entry
        self._by_pattern[pattern].setdefault(_requester(entry), {})[entry.id] = entry
        self._by_rule.setdefault(_rule(entry), {})[entry.id] = entry

    def _remove(self, entry: AccessControlEntryRecord) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        by_requester = self._by_pattern[pattern]
        del self._by_id[entry.id]
        _discard(by_requester, _requester(entry), entry.id)
        _discard(self._by_rule, _rule(entry), entry.id)
        if by_requester:
            return
        del self._by_pattern[pattern]
        if entry.pattern_type == PatternType.PREFIXED:
            lengths, length = self._prefix_lengths[entry.resource_type], len(entry.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]


def _requester(entry: AccessControlEntryRecord) -> _Requester:
    return entry.principal, comparable_host(entry.host)


def _rule(entry: AccessControlEntryRecord) -> _Rule:
    return entry.resource_type, *_requester(entry), entry.operation, entry.permission_type


def _discard(entries_by_key: dict[_Key, _Entries], key: _Key, entry_id: UUID) -> None:
    """Remove one entry of `key`, and the key if it was its last entry."""
    entries = entries_by_key[key]
    del entries[entry_id]
    if not entries:
        del entries_by_key[key]
