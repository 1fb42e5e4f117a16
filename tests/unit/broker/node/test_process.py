"""The process of a broker: signals and failures while it starts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from tests.support.metadata.images import CLUSTER_ID
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.config.environment import CLUSTER_ID_VARIABLE
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.process import load_config, serve
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.storage.directories.log_manager import LogManager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
async def cluster_id_and_no_handlers_left(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setenv(CLUSTER_ID_VARIABLE, CLUSTER_ID)
    yield
    for number in SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)


def broker_without_quorum(folder: Path) -> BrokerConfig:
    """Return the configuration of a broker whose only controller does not respond."""
    return BrokerConfig(
        {
            "process.roles": "broker",
            "node.id": "1",
            "log.dirs": str(folder),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "9@127.0.0.1:1",
        }
    )


async def fail_if_announced(config: BrokerConfig, addresses: Sequence[tuple[str, str, int]]) -> None:
    pytest.fail("it was announced as ready")


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_stops_a_broker_that_waits_for_its_quorum(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    serving = asyncio.create_task(serve(broker_without_quorum(tmp_path), fail_if_announced))
    await eventually(lambda: signal.getsignal(number) is not before)
    await eventually(lambda: (tmp_path / "__cluster_metadata-0").exists())
    os.kill(os.getpid(), number)
    async with asyncio.timeout(TIMEOUT_S):
        assert await serving
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_broker_whose_quorum_fails_during_the_start_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas: list[RaftNode] = []
    start = RaftNode.start

    def remember(replica: RaftNode) -> None:
        replicas.append(replica)
        start(replica)

    monkeypatch.setattr(RaftNode, "start", remember)
    serving = asyncio.create_task(serve(broker_without_quorum(tmp_path), fail_if_announced))
    await eventually(lambda: replicas and (tmp_path / "__cluster_metadata-0").exists())
    replicas[0].driver.fail(OSError(5, "EIO"))
    async with asyncio.timeout(TIMEOUT_S):
        assert not await serving


async def test_a_broker_stopped_while_it_opens_logs_writes_a_clean_marker_only_for_open_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker of a clean shutdown with logs that were not checked would hide the effects of a crash."""
    config = BrokerConfig({"node.id": "1", "log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    opening, may_continue = Event(), Event()
    is_open: list[bool] = []
    start, shutdown = LogManager.start, LogManager.shutdown

    def slow_start(logs: LogManager, *arguments: object) -> None:
        opening.set()
        may_continue.wait(TIMEOUT_S)
        start(logs, *arguments)  # type: ignore[arg-type]
        is_open.append(True)

    def watched_shutdown(logs: LogManager, *arguments: object) -> None:
        assert is_open, "closed while they are being opened"
        shutdown(logs, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LogManager, "start", slow_start)
    monkeypatch.setattr(LogManager, "shutdown", watched_shutdown)
    starting = asyncio.create_task(BrokerNode.start(config))
    await eventually(opening.is_set)
    starting.cancel()
    await asyncio.sleep(0)
    assert not starting.done()
    may_continue.set()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
async def test_comments_of_a_properties_file_may_have_any_characters(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("# f\u00fcr den Hafen\nnode.id=7\nlisteners=PLAINTEXT://:0\n".encode(encoding))
    assert load_config(str(path), {}).node_id == 7
