"""The rules of the coordinator without which transactions are torn or hang; tests leave each of them out."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias


class Safeguard(Enum):
    """One rule."""

    AN_END_NEEDS_THE_PRESENT_EPOCH = "an end with the epoch before does not end the transaction that follows"
    A_NEW_COORDINATOR_ENDS_WHAT_IS_PREPARED = "markers of a prepared transaction are written after a failover"
    MARKERS_WAIT_FOR_THE_COMMIT = "no marker is written before the decision is on every in-sync replica"


SafeguardSet: TypeAlias = frozenset[Safeguard]
NONE_DISABLED: Final[SafeguardSet] = frozenset()
