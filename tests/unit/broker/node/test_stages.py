"""The stages of a node: their order, the effects of a failure, and the release of resources."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.loops.unhandled import other_tasks
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node import node as node_module
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.stages import Action, Stage, Stages
from tidelog.storage.disk.os_files import OsFileSystem

ORDER = [
    "directories",
    "threads",
    "observability",
    "controller requests",
    "controller listeners",
    "metadata log",
    "controller channels",
    "quorum participation",
    "client listeners",
    "registration",
    "logs",
    "flushes and timers",
    "requests",
    "broker channels",
    "coordinators",
    "connections",
    "transaction verification",
    "share partitions",
    "metadata subscriptions",
    "log upkeep",
    "coordination",
    "parked requests",
    "replication",
    "membership",
    "tiering",
    "accepting connections",
    "metrics endpoint",
    "crash point",
]
OPTIONAL = ("remote storage", "console")
"""The stages that a node has only with the configs that need them."""


class Journal:
    """Creates stages whose actions are recorded in `entries`; the action `failing` fails."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.failing = ""

    def action(self, entry: str) -> Action:
        def act() -> None:
            self.entries.append(entry)
            if entry == self.failing:
                raise OSError(entry)

        return act

    def stage(self, name: str, *, undo: bool = False) -> Stage:
        return Stage(
            name=name,
            start=[self.action(f"start {name}")],
            stop=[self.action(f"stop {name}")],
            abandon=[self.action(f"abandon {name}")],
            undo=[self.action(f"undo {name}")] if undo else None,
        )

    async def start_stages(self, *names: str) -> Stages:
        stages = Stages()
        async with stages.undo_on_failure():
            for name in names:
                await stages.start(self.stage(name, undo=name == "b"))
        return stages


async def test_stages_start_in_order_and_stop_in_reverse_order() -> None:
    journal = Journal()
    stages = await journal.start_stages("a", "b", "c")
    await stages.stop(7.0)
    assert journal.entries == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert stages.stop_timeout_s == 7.0


async def test_stages_are_abandoned_in_reverse_order() -> None:
    journal = Journal()
    stages = await journal.start_stages("a", "b", "c")
    await stages.abandon()
    assert journal.entries[3:] == ["abandon c", "abandon b", "abandon a"]


@pytest.mark.parametrize("failing", ["a", "b", "c"])
async def test_a_failed_start_undoes_started_stages_in_reverse_order(failing: str) -> None:
    journal = Journal()
    journal.failing = f"start {failing}"
    with pytest.raises(OSError, match=failing):
        await journal.start_stages("a", "b", "c")
    begun = "abc"[: "abc".index(failing) + 1]
    ends = {"a": "abandon a", "b": "undo b", "c": "abandon c"}
    assert journal.entries == [
        *(f"start {name}" for name in begun),
        *(ends[name] for name in reversed(begun)),
    ]


async def test_a_start_that_is_cancelled_is_undone() -> None:
    journal = Journal()
    stages = Stages()

    async def start() -> None:
        async with stages.undo_on_failure():
            await stages.start(journal.stage("a"))
            await stages.start(Stage(name="b", start=[asyncio.Event().wait], stop=[journal.action("stop b")]))

    starting = asyncio.create_task(start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert journal.entries == ["start a", "stop b", "abandon a"]


async def test_a_stop_that_fails_abandons_the_rest_and_raises() -> None:
    journal = Journal()
    stages = await journal.start_stages("a", "b", "c")
    journal.failing = "stop b"
    with pytest.raises(OSError, match="stop b"):
        await stages.stop()
    assert journal.entries[3:] == ["stop c", "stop b", "abandon b", "abandon a"]


async def test_an_error_in_abandoning_a_stage_does_not_affect_others() -> None:
    journal = Journal()
    stages = await journal.start_stages("a", "b", "c")
    journal.failing = "abandon c"
    with pytest.raises(OSError, match="abandon c"):
        await stages.abandon()
    assert journal.entries[3:] == ["abandon c", "abandon b", "abandon a"]


@pytest.mark.parametrize("first", ["stop", "abandon"])
@pytest.mark.parametrize("second", ["stop", "abandon"])
async def test_a_stage_ends_once(first: str, second: str) -> None:
    journal = Journal()
    stages = await journal.start_stages("a")
    await getattr(stages, first)()
    await getattr(stages, second)()
    assert journal.entries == ["start a", f"{first} a"]


# ---- a whole node


def test_the_documented_stages_equal_the_nodes() -> None:
    lines = str(node_module.__doc__).splitlines()
    documented = [line.strip().partition("  ")[0] for line in lines if line.startswith("    ")]
    assert [name for name in documented if name not in OPTIONAL] == ORDER


def config(folder: Path) -> BrokerConfig:
    """Return a node with listeners for clients and controllers, and an endpoint for metrics."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return BrokerConfig(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "log.dirs": str(folder),
            "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{port}",
            "controller.quorum.election.timeout.ms": "100",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "metrics.port": "0",
        }
    )


async def start(folder: Path) -> BrokerNode:
    # As `tidelog storage format` does: a node with a voter in its configuration needs a cluster id.
    return await BrokerNode.start(config(folder), cluster_id="MkU3OEVBNTcwNTJENDM2Qk")


@pytest.fixture
def actions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the names of the stages as they start, stop (-), are abandoned (!) or undone (<)."""
    entries: list[str] = []

    def note_actions(mark: str, stage: Stage, actions: tuple[Action, ...]) -> list[Action]:
        return [partial(entries.append, mark + stage.name), *actions]

    original: Callable[[Stages, Stage], object] = Stages.start

    async def start_and_note(stages: Stages, stage: Stage) -> None:
        wrapped = Stage(
            name=stage.name,
            start=note_actions("", stage, tuple(stage.start)),
            stop=note_actions("-", stage, tuple(stage.stop)),
            abandon=note_actions("!", stage, tuple(stage.actions_to_abandon)),
            undo=note_actions("<", stage, tuple(stage.actions_to_undo)),
        )
        await original(stages, wrapped)  # type: ignore[misc]

    monkeypatch.setattr(Stages, "start", start_and_note)
    yield entries


def open_paths_below(folder: Path) -> set[str]:
    """Return the open sockets and the open files in `folder`, from /proc."""
    held = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", str(folder), "anon_inode:[eventpoll]")):
            held.add(f"{name} {target}")
    return held


def assert_lock_is_free(folder: Path) -> None:
    with (folder / ".lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(file, fcntl.LOCK_UN)
    OsFileSystem().lock(str(folder / ".lock")).release()


@pytest.mark.parametrize("end", ["stop", "abandon"])
async def test_a_node_starts_stops_and_is_abandoned_in_the_order_of_its_stages(
    tmp_path: Path, actions: list[str], end: str
) -> None:
    node = await start(tmp_path)
    assert actions == ORDER
    actions.clear()
    await getattr(node, end)()
    mark = "-" if end == "stop" else "!"
    assert actions == [mark + name for name in reversed(ORDER)]
    assert other_tasks() == []
    assert_lock_is_free(tmp_path)


@pytest.mark.parametrize("failing", ORDER)
async def test_a_failure_in_a_stage_ends_the_stages_that_were_started_and_releases_everything(
    tmp_path: Path, actions: list[str], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = open_paths_below(tmp_path)
    threads = set(threading.enumerate())
    noted = Stages.start

    async def start_and_fail(stages: Stages, stage: Stage) -> None:
        await noted(stages, stage)
        if stage.name == failing:
            raise OSError(failing)

    monkeypatch.setattr(Stages, "start", start_and_fail)
    with pytest.raises(OSError, match=failing):
        await start(tmp_path)
    begun = ORDER[: ORDER.index(failing) + 1]
    assert actions == [*begun, *("<" + name for name in reversed(begun))]
    assert other_tasks() == []
    assert set(threading.enumerate()) - threads == set()
    assert open_paths_below(tmp_path) == before
    assert_lock_is_free(tmp_path)
    assert (tmp_path / ".kafka_cleanshutdown").exists() == ("logs" in begun)
