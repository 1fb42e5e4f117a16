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


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: type, name: str, call: int = 1) -> None:
    """Kill the process when the method is called for this time."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def replaced(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            _kill()
        return original(*arguments, **options)

    setattr(owner, name, replaced)


def arm(step: RestoreStep) -> None:
    """Let this process kill itself at `step`."""
    match step:
        case RestoreStep.FIRST_RECORD:
            _before(Producer, "send")
        case RestoreStep.FOURTH_RECORD:
            _before(Producer, "send", 4)
        case RestoreStep.CREATION:
            # The first call only validates.
            _before(TopicRestore, "_create", 2)
        case RestoreStep.CREATED:
            _before(TopicRestore, "_verify")
        case RestoreStep.ABORT:
            _before(TopicRestore, "_abort")


if __name__ == "__main__":
    arm(RestoreStep[sys.argv[1]])
    sys.argv = ["tidelog", *sys.argv[2:]]
    main()
