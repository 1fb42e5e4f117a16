"""The access control entries by the name of their resource.

An immutable value: an image and the next one share all parts that no change concerns. A change copies the
table of names, and the table of principals of each changed name.

Invariant: it contains exactly the entries of the image of which it is a part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord

Entries: TypeAlias = Mapping[UUID, AccessControlEntryRecord]

_Requester: TypeAlias = tuple[str, str]
"""The principal and the host of an entry."""

_OfName: TypeAlias = dict[_Requester, tuple[AccessControlEntryRecord, ...]]

_NO_ENTRIES: Final[_OfName] = {}


class AclsByResource:
    """Finds the entries for a resource name."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, _OfName] | None = None) -> None:
        self._by_name: Mapping[str, _OfName] = {} if by_name is None else by_name

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._by_name)

    def with_changes(self, old: Entries, new: Entries, changed: Collection[UUID]) -> AclsByResource:
        """Return the entries `new`, which differ from `old`, those of this object, in the ids `changed`."""
        removed = [old[each] for each in changed if each in old]
        added = [new[each] for each in changed if each in new]
        by_name = dict(self._by_name)
        changed_names = {each.resource_name for each in (*removed, *added)}
        for name in changed_names:
            by_name[name] = dict(by_name.get(name, _NO_ENTRIES))
        for entry in removed:
            of_name, requester = by_name[entry.resource_name], (entry.principal, entry.host)
            of_name[requester] = tuple(each for each in of_name[requester] if each.id != entry.id)
            if not of_name[requester]:
                del of_name[requester]
        for entry in added:
            of_name, requester = by_name[entry.resource_name], (entry.principal, entry.host)
            of_name[requester] = (*of_name.get(requester, ()), entry)
        for name in changed_names:
            if not by_name[name]:
                del by_name[name]
        return AclsByResource(by_name)

    def of_requester(self, name: str, principal: str, host: str) -> Collection[AccessControlEntryRecord]:
        """Return the entries with a resource name, a principal and a host."""
        return self._by_name.get(name, _NO_ENTRIES).get((principal, host), ())

    def of_name(self, name: str) -> Iterator[AccessControlEntryRecord]:
        """Yield the entries whose resource has exactly the name `name`."""
        for entries in self._by_name.get(name, _NO_ENTRIES).values():
            yield from entries
