"""Nodes that end within a change of their disk: in a flush, a compaction, a roll, or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tidelog.testing.simulation.cluster import SimulatedNode
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

PARTS: Final = (
    "", "", "fsync ", "fsync_dir ", "rename ", "unlink ", "truncate ", ".log", "index", ".snapshot",
    "checkpoint", ".cleaned", ".swap", ".deleted", "__cluster_metadata", "__remote_log_metadata",
    "remote-log-index-cache",
)  # fmt: skip
"""Parts of the texts of changes; a node ends at one of the next changes with the same part."""
MATCHES_MAX: Final = 20


class OperationCrashes:
    """Ends at most one node at a time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._disk: CrashFileSystem | None = None
        """The disk at whose changes a node ends."""

    def arm(self, node: SimulatedNode, crash: Callable[[SimulatedNode, str], None]) -> str:
        """Call `crash` within one of the next changes of a kind, with its text; return a text about it."""
        self.disarm()
        part = self._random.choice(PARTS)
        count = remaining = 1 + self._random.randrange(MATCHES_MAX)
        disk = self._disk = node.machine.state.disk

        def on_operation(text: str) -> None:
            nonlocal remaining
            if part not in text or node.machine.process is None:
                return
            remaining -= 1
            if remaining == 0:
                self.disarm()
                crash(node, text)

        disk.on_operation = on_operation
        return f"node {node.node_id} ends within change {count} of its disk with {part!r}"

    def disarm(self) -> None:
        """End no node any more."""
        if self._disk is not None:
            self._disk.on_operation = None
            self._disk = None


def fail_power(node: SimulatedNode) -> None:
    """Let the power of a node fail at the current change of its disk."""
    disk = node.machine.state.disk
    disk.crash_at = disk.operation_count
