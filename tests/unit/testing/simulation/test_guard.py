"""The guard of a simulation finds code that uses the machine directly."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.testing.simulation.guard import Guard, SystemAccess


@pytest.mark.parametrize(
    "use",
    [
        lambda: time.time_ns(),
        lambda: time.sleep(0),
        lambda: SYSTEM_CLOCK.wall_ms(),
        lambda: SYSTEM_CLOCK.monotonic_ns(),
        lambda: random.random(),
        lambda: random.randrange(3),
        lambda: os.urandom(4),
        uuid4,
        lambda: random.SystemRandom().getrandbits(8),
        lambda: socket.socket(),
        lambda: socket.getaddrinfo("localhost", 1),
        lambda: threading.Thread(target=print).start(),
        lambda: open(__file__),  # noqa: SIM115
        lambda: Path(__file__).read_text(),
        lambda: os.open(__file__, os.O_RDONLY),
    ],
)
def test_code_that_uses_the_machine_directly_is_found(use: Callable[[], object]) -> None:
    guard = Guard(lambda: 0)
    with guard.active(), pytest.raises(SystemAccess):
        use()
    assert len(guard.found) == 1
    assert __name__.rpartition(".")[2] in guard.found[0]


def test_seeded_random_numbers_are_allowed_and_everything_is_allowed_afterwards() -> None:
    guard = Guard(lambda: 0)
    with guard.active():
        assert random.Random(1).random() == random.Random(1).random()
    assert time.time() > 0
    assert random.random() < 1
    assert guard.found == []
