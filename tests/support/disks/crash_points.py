"""Crashes at every operation of a workload.

    for point in crash_points(prepare, workload):
        check(point.disk, point.progress)

runs `workload(disk, progress)` once per operation, and yields the disk after each kind of data loss. The
workload adds its completed steps to `progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival


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
    *,
    skips_repeated: bool = False,
) -> Iterator[CrashPoint]:
    """Yield every possible crash in `workload`, which must perform the same operations in each run.

    `prepare` creates the durable state before each run. The last crash is after the end of the workload.
    `skips_repeated`: the check depends on the disk and the progress only, so a crash after which both equal
    those of an earlier one is not yielded. Up to two thirds of the crashes are not yielded for this reason.
    """
    operation = 0
    yielded: set[tuple[bytes, str]] = set()
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
            survivor = disk.crash(survival)
            if skips_repeated:
                state = (survivor.image_digest(), repr(progress))
                if state in yielded:
                    continue
                yielded.add(state)
            yield CrashPoint(operation, text, survival, survivor, progress)
