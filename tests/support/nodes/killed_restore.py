"""`python -m tests.support.nodes.killed_restore STEP ARGUMENTS...`: `tidelog`, which kills itself at a step.

The process is killed before the step is executed, or after it for steps that end with `ED`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from tidelog.cli.main import main
from tidelog.clients.producer.producer import Producer
from tidelog.remote.mounts.mounting import TopicMount
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.stores.local_directory import LocalDirectoryStore
from tidelog.remote.restore.execution import TopicRestore


class RestoreStep(Enum):
    """The moments at which a restore is killed."""

    FIRST_RECORD = auto()
    """Before the first record of remote metadata is sent."""
    FOURTH_RECORD = auto()
    """Before the fourth one: one segment is registered, and the copy of another has started."""
    CREATION = auto()
    """After all records are written, before the topic is created."""
    CREATED = auto()
    """After the topic is created."""
    ABORT = auto()
    """After the leaders have recovered their logs, before open transactions are aborted."""


class TravelStep(Enum):
    """The moments at which a restore as of a time is killed."""

    TAIL = auto()
    """Before the copied segment is stored."""
    HALF_TAIL = auto()
    """After its log is stored, before its indexes and its manifest."""
    TAIL_STORED = auto()
    """After all of its objects are stored, before the first record of remote metadata."""
    TRAVEL_RECORD = auto()
    """Before the fourth record of remote metadata."""
    TRAVEL_CREATION = auto()
    """Before the topic is created."""
    RELEASE = auto()
    """After the leaders have recovered their logs, before deleted segments are looked for."""


class MountStep(Enum):
    """The moments at which a mount is killed."""

    MOUNT_CREATION = auto()
    """Before the topic is created."""
    MOUNTED = auto()
    """After the topic is created, before its leaders have followed the source."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_before(owner: type, name: str, call: int = 1) -> None:
    """Kill the process when the method is called for this time."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def replace(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            _kill()
        return original(*arguments, **options)

    setattr(owner, name, replace)


def arm(step: RestoreStep) -> None:
    """Let this process kill itself at `step`."""
    match step:
        case RestoreStep.FIRST_RECORD:
            _kill_before(Producer, "send")
        case RestoreStep.FOURTH_RECORD:
            _kill_before(Producer, "send", 4)
        case RestoreStep.CREATION:
            # The first call only validates.
            _kill_before(TopicRestore, "_create", 2)
        case RestoreStep.CREATED:
            _kill_before(TopicRestore, "_verify")
        case RestoreStep.ABORT:
            _kill_before(TopicRestore, "_abort")


def arm_travel(step: TravelStep) -> None:
    """Let this process kill itself at `step`."""
    match step:
        case TravelStep.TAIL:
            _kill_before(ObjectStorageManager, "copy_log_segment_data")
        case TravelStep.HALF_TAIL:
            _kill_before(LocalDirectoryStore, "put", 2)
        case TravelStep.TAIL_STORED:
            _kill_before(TopicRestore, "_register")
        case TravelStep.TRAVEL_RECORD:
            _kill_before(Producer, "send", 4)
        case TravelStep.TRAVEL_CREATION:
            _kill_before(TopicRestore, "_create", 2)
        case TravelStep.RELEASE:
            _kill_before(TopicRestore, "_release")


def arm_mount(step: MountStep) -> None:
    """Let this process kill itself at `step`."""
    match step:
        case MountStep.MOUNT_CREATION:
            # The first call only validates.
            _kill_before(TopicMount, "_create", 2)
        case MountStep.MOUNTED:
            _kill_before(TopicMount, "_wait_for")


if __name__ == "__main__":
    if sys.argv[1] in MountStep.__members__:
        arm_mount(MountStep[sys.argv[1]])
    elif sys.argv[1] in TravelStep.__members__:
        arm_travel(TravelStep[sys.argv[1]])
    else:
        arm(RestoreStep[sys.argv[1]])
    sys.argv = ["tidelog", *sys.argv[2:]]
    main()
