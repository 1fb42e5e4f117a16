"""The log directories that heartbeats report: failed ones (KIP-858) and cordoned ones (KIP-1066)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


class DirectoryReports:
    """The failed and cordoned directories of this broker, and which failures the controller has received."""

    def __init__(self) -> None:
        self.cordoned: tuple[UUID, ...] | None = None
        """The ids of cordoned directories in order; None until there is one."""
        self._is_received: dict[UUID, bool] = {}

    @property
    def offline(self) -> tuple[UUID, ...]:
        """The ids of the failed directories."""
        return tuple(self._is_received)

    def add_offline(self, directory_id: UUID) -> bool:
        """Add a failed directory; return False if the controller has received its failure already."""
        return not self._is_received.setdefault(directory_id, False)

    def is_received(self, directory_id: UUID) -> bool:
        """Return whether the controller has received the failure of a directory."""
        return self._is_received[directory_id]

    def on_received(self, offline: Iterable[UUID]) -> None:
        """Record that the controller has received these failures."""
        self._is_received.update(dict.fromkeys(offline, True))

    def replace_cordoned(self, directory_ids: Iterable[UUID]) -> bool:
        """Replace the cordoned directories; return whether they have changed."""
        cordoned = tuple(sorted(directory_ids))
        if cordoned == (self.cordoned or ()):
            return False
        self.cordoned = cordoned
        return True
