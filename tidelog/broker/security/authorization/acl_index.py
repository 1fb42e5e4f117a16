"""An index of the access control entries, in which the entries of one resource are found quickly.

The entries that apply to a resource have its name, a prefix of it, or the name "*". Each of these is one
look-up: the index knows which lengths prefixes have. The entries of a pattern are indexed by principal.

Invariant: an entry is found by its id; removing it keeps all other entries (CVE-2024-27309).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from tidelog.broker.security.authorization.addresses import comparable_address
from tidelog.cluster.acls import WILDCARD_RESOURCE
from tidelog.protocol.access_control import PatternType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

_Pattern: TypeAlias = tuple[int, int, str]
"""The resource type, the pattern type and the name of a resource pattern."""


class IndexedEntry(NamedTuple):
    """An entry, with its host in the form in which addresses are compared."""

    host: str
    record: AccessControlEntryRecord


_Entries: TypeAlias = dict[UUID, IndexedEntry]

_Key = TypeVar("_Key")

_NO_ENTRIES: Final[Mapping[UUID, IndexedEntry]] = {}


class AclIndex:
    """Finds the entries for a resource and a principal."""

    def __init__(self) -> None:
        self._by_id: Mapping[UUID, AccessControlEntryRecord] = {}
        self._by_pattern: dict[_Pattern, dict[str, _Entries]] = {}
        self._by_type: dict[tuple[int, str], _Entries] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def update(self, entries: Mapping[UUID, AccessControlEntryRecord]) -> bool:
        """Replace the entries; return whether any has changed. `entries` must not be modified later."""
        old = self._by_id
        if entries is old:
            return False
        removed, added = _without(old, entries), _without(entries, old)
        for entry in removed:
            self._remove(entry)
        for entry in added:
            self._add(entry)
        self._by_id = entries
        return bool(removed or added)

    def patterns(self, resource_type: int, name: str) -> list[Mapping[str, _Entries]]:
        """Return the entries of every pattern that matches a resource, by principal."""
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

    def entries_of_type(self, resource_type: int, principals: Iterable[str]) -> Iterator[IndexedEntry]:
        """Yield the entries of some principals for all resources of a type."""
        for principal in principals:
            yield from self._by_type.get((resource_type, principal), _NO_ENTRIES).values()

    def _add(self, entry: AccessControlEntryRecord) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = {}
            if entry.pattern_type == PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(entry.resource_type, Counter())
                lengths[len(entry.resource_name)] += 1
        indexed = IndexedEntry(comparable_address(entry.host), entry)
        self._by_pattern[pattern].setdefault(entry.principal, {})[entry.id] = indexed
        self._by_type.setdefault((entry.resource_type, entry.principal), {})[entry.id] = indexed

    def _remove(self, entry: AccessControlEntryRecord) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        principals = self._by_pattern[pattern]
        _discard(principals, entry.principal, entry.id)
        _discard(self._by_type, (entry.resource_type, entry.principal), entry.id)
        if principals:
            return
        del self._by_pattern[pattern]
        if entry.pattern_type == PatternType.PREFIXED:
            lengths, length = self._prefix_lengths[entry.resource_type], len(entry.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]


def _without(
    entries: Mapping[UUID, AccessControlEntryRecord], others: Mapping[UUID, AccessControlEntryRecord]
) -> list[AccessControlEntryRecord]:
    """Return the entries that `others` does not have. Most are the same objects in both."""
    found = []
    for entry_id, entry in entries.items():
        other = others.get(entry_id)
        if other is not entry and other != entry:
            found.append(entry)
    return found


def _discard(entries: dict[_Key, _Entries], key: _Key, entry_id: UUID) -> None:
    """Remove one entry, and the key if it was its last entry."""
    of_key = entries[key]
    del of_key[entry_id]
    if not of_key:
        del entries[key]
