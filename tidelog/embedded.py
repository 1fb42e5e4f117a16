"""A broker inside a test or a notebook: started in milliseconds, on a free port, gone afterwards.

The broker runs on an event loop of its own in a thread of its own, so that synchronous
clients (confluent-kafka, kafka-python) and asyncio ones can both use it from the test.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import uvloop

from broker.config import BrokerConfig
from broker.node import BrokerNode

ResultT = TypeVar("ResultT")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0

# Nothing here should wait for the comfort of a large production cluster.
EMBEDDED_DEFAULTS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class EmbeddedCluster:
    """One broker for the length of a `with` block, or between `start()` and `stop()`.

    `config` holds Kafka's keys over the defaults above; `data_dir` keeps the data after
    `stop()`, without it a temporary folder is used and removed.
    """

    def __init__(
        self, *, config: Mapping[str, str] | None = None, data_dir: str | Path | None = None
    ) -> None:
        self._own_config = dict(config or {})
        self._keeps_data = data_dir is not None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="tidelog-"))
        self._port = 0
        self._node: BrokerNode | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as every Kafka client wants it."""
        return f"127.0.0.1:{self._port}"

    @property
    def node(self) -> BrokerNode:
        """The running broker; touch it only through `run`."""
        assert self._node is not None, "the cluster is not started"
        return self._node

    def run(self, work: Callable[[BrokerNode], ResultT]) -> ResultT:
        """What `work` returns, called with the node on the node's own loop; raises what it raises."""
        assert self._loop is not None, "the cluster is not started"

        async def on_loop() -> ResultT:
            return work(self.node)

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(STOP_TIMEOUT_S)

    def start(self) -> EmbeddedCluster:
        """Start the broker and return once it answers; raises what kept it from starting."""
        started: threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run_loop, args=(started, failure), name="tidelog-embedded", daemon=True
        )
        self._thread.start()
        if not started.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the broker did not start within {START_TIMEOUT_S:.0f} s")
        if failure:
            self._thread.join(STOP_TIMEOUT_S)
            self._loop = self._thread = self._node = None
            self._remove_data()
            raise failure[0]
        return self

    def _run_loop(self, started: threading.Event, failure: list[BaseException]) -> None:
        self._loop = loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            self._node = node = BrokerNode(self._broker_config())
            loop.run_until_complete(node.start())
            # A restart comes back where clients already look for it.
            self._port = node.bound_port()
        except BaseException as error:
            failure.append(error)
            started.set()
            loop.close()
            return
        loop.call_soon(started.set)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def _broker_config(self) -> BrokerConfig:
        values = {**EMBEDDED_DEFAULTS, "log.dirs": str(self.data_dir), **self._own_config}
        if self._port and "listeners" not in self._own_config:
            values["listeners"] = f"PLAINTEXT://127.0.0.1:{self._port}"
        return BrokerConfig(values)

    def stop(self) -> None:
        """Stop; the data goes too, unless `data_dir` was given: then it is shut down cleanly."""
        self._end(clean=self._keeps_data)
        self._remove_data()

    def _remove_data(self) -> None:
        if not self._keeps_data:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def restart(self, *, clean: bool = True) -> None:
        """Stop and start on the same data and port; `clean=False` skips the shutdown, as a crash would."""
        self._end(clean=clean)
        self.start()

    def _end(self, *, clean: bool) -> None:
        loop, thread, node = self._loop, self._thread, self._node
        if loop is None or thread is None or node is None:
            return
        ending = node.stop() if clean else node.abandon()
        asyncio.run_coroutine_threadsafe(ending, loop).result(STOP_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_TIMEOUT_S)
        self._loop = self._thread = self._node = None

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
