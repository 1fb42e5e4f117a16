"""Crashes at every operation of a workload.

    for point in crash_points(prepare, workload):
        check(point.disk, point.progress)

runs `workload(disk, progress)` once per operation and way to lose data, and gives the disk as the
next start finds it, with what the workload had noted in `progress` before the crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.disks.crash_file_system import CrashFileSystem, SimulatedCrash
from tests.support.disks.crash_images import EVERY_SURVIVAL, Survival


class CrashPoint(NamedTuple):
    """One crash: its operation, the lost changes, the disk after it, and the progress of the workload."""

    operation: int
    text: str
    survival: Survival | int
    disk: CrashFileSystem
    progress: list[Any]

    def __str__(self) -> str:
        return f"crash at operation {self.operation} ({self.text}), {self.survival}"


def crash_points(
    prepare: Callable[[CrashFileSystem], None],
    workload: Callable[[CrashFileSystem, list[Any]], None],
    survivals: tuple[Survival | int, ...] = EVERY_SURVIVAL,
) -> Iterator[CrashPoint]:
    """Yield every possible crash in `workload`, which must perform the same operations in each run.

    `prepare` makes the durable state from which each run starts. The last point is behind the workload.
    """
    operation = 0
    finished = False
    while not finished:
        operation += 1
        disk = CrashFileSystem()
        prepare(disk)
        disk.sync_all()
        disk.crash_at = operation
        progress: list[Any] = []
        try:
            workload(disk, progress)
            finished = True
        except SimulatedCrash:
            assert disk.operation_count == operation
        text = "the end" if finished else disk.operations[-1]
        for survival in survivals:
            yield CrashPoint(operation, text, survival, disk.crash(survival), progress)
