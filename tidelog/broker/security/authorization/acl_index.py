"""An index of the access control entries, in which the entries for one decision are found quickly.

The entries that apply to a resource have its name, a prefix of it, or the name "*". Each of these is one
look-up: the index knows which lengths prefixes have. The entries of a pattern are indexed by principal and
host, so a decision reads only entries that differ in operation and permission.

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

Requesters: TypeAlias = Collection[tuple[str, str]]
"""The pairs of principal and host, with wildcards, whose entries apply to a client."""

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
        self._by_pattern: dict[_Pattern, dict[tuple[str, str], _Entries]] = {}
        self._by_rule: dict[_Rule, _Entries] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def update(self, entries: Mapping[UUID, AccessControlEntryRecord], changed: Iterable[UUID]) -> None:
        """Use `entries`, of which only those with the ids `changed` differ from the former ones."""
        for entry_id in changed:
            old, new = self._by_id.get(entry_id), entries.get(entry_id)
            if old == new:
                continue
            if old is not None:
                self._remove(old)
            if new is not None:
                self._add(new)

    def patterns(self, resource_type: int, name: str) -> list[Mapping[tuple[str, str], _Entries]]:
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
        rule = _rule(entry)
        self._by_id[entry.id] = entry
        self._by_pattern[pattern].setdefault(rule[1:3], {})[entry.id] = entry
        self._by_rule.setdefault(rule, {})[entry.id] = entry

    def _remove(self, entry: AccessControlEntryRecord) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        rule, of_pattern = _rule(entry), self._by_pattern[pattern]
        del self._by_id[entry.id]
        _discard(of_pattern, rule[1:3], entry.id)
        _discard(self._by_rule, rule, entry.id)
        if of_pattern:
            return
        del self._by_pattern[pattern]
        if entry.pattern_type == PatternType.PREFIXED:
            lengths, length = self._prefix_lengths[entry.resource_type], len(entry.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]


def _rule(entry: AccessControlEntryRecord) -> _Rule:
    host = comparable_host(entry.host)
    return entry.resource_type, entry.principal, host, entry.operation, entry.permission_type


def _discard(entries: dict[_Key, _Entries], key: _Key, entry_id: UUID) -> None:
    """Remove one entry, and the key if it was its last entry."""
    of_key = entries[key]
    del of_key[entry_id]
    if not of_key:
        del entries[key]
