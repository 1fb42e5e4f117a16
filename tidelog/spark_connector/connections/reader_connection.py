"""The connections by which tasks read from brokers (shell).

PySpark reuses the processes of workers. A task that opened connections of its own would need a thread, a
connection and three requests before its first fetch; a micro-batch of few rows would mostly consist of them.

Bounds: a process keeps at most IDLE_MAX connections without a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from tidelog.clients.config.client_config import ConsumerConfig, make_config
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.spark_connector.connections.loop_thread import LoopThread
from tidelog.spark_connector.connections.tls import tls_values
from tidelog.spark_connector.planning.client_options import ClientOptions

IDLE_MAX: Final = 4


class ReaderConnection:
    """An event loop in a thread of its own, with an open client; use it as a context manager.

    `timeout_ms` limits the opening and, without progress, each read. Errors: KafkaError if no broker
    responds.
    """

    def __init__(self, options: ClientOptions, timeout_ms: int) -> None:
        self.options = options
        self.reader_values: dict[str, Any] = {
            **options.values,
            **tls_values(options),
            "default_api_timeout_ms": timeout_ms,
        }
        """The options of a PartitionReader that uses `client`."""
        self._timeout_ms = timeout_ms
        self.loop = LoopThread("tidelog-spark-reader")
        try:
            self.client = self.loop.run(self._open())
        except BaseException:
            self.loop.close()
            raise

    def serves(self, options: ClientOptions, timeout_ms: int) -> bool:
        """Return whether this is a connection with these options."""
        return (self.options, self._timeout_ms) == (options, timeout_ms)

    def close(self) -> None:
        """Disconnect."""
        try:
            self.loop.run(self.client.close())
        finally:
            self.loop.close()

    def __enter__(self) -> ReaderConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _open(self) -> ClusterClient:
        client = ClusterClient(
            make_config(ConsumerConfig, self.reader_values),
            None,
            None,
            allow_auto_topic_creation=False,
            max_idle_ms=None,
        )
        await client.open(client.now_ms() + self._timeout_ms)
        return client


class KeptConnections:
    """The connections of one process that wait for the next task; a task uses a connection alone."""

    def __init__(self) -> None:
        self._idle: list[ReaderConnection] = []

    @contextmanager
    def connection(self, options: ClientOptions, timeout_ms: int) -> Iterator[ReaderConnection]:
        """Provide a connection with these options to one task. After an error it is not used again."""
        connection = self._take(options, timeout_ms)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        if len(self._idle) > IDLE_MAX:
            self._idle.pop(0).close()

    def close(self) -> None:
        """Close the connections that no task uses."""
        while self._idle:
            self._idle.pop().close()

    def _take(self, options: ClientOptions, timeout_ms: int) -> ReaderConnection:
        for connection in self._idle:
            if connection.serves(options, timeout_ms):
                self._idle.remove(connection)
                return connection
        return ReaderConnection(options, timeout_ms)


WORKER_CONNECTIONS: Final = KeptConnections()
"""Of this process. PySpark forks workers before their first task, so that no two processes share a socket."""
