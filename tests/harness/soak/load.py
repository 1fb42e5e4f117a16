"""The mixed load of a run: producers, readers and group members of three libraries at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.harness.soak import consumer_protocol_members, consumers, group_members, producers
from tests.harness.soak.history import History
from tests.harness.soak.share_members import ShareGroup
from tidelog.local_cluster.client_settings import ClientSettings

# Readers and members continue until they have had enough time to read up to the end.
LAST_READS_S: Final = 2.0
THREADS_MAX: Final = 32


class MixedLoad:
    """All clients of one topic; `history` gets their requests and results."""

    def __init__(
        self, clients: ClientSettings, topic: str, history: History, *, rate: float, partitions: int
    ) -> None:
        self._clients = clients
        self._topic = topic
        self._history = history
        self._rate = rate
        self._partitions = partitions
        self._stop_producers = threading.Event()
        self._stop_readers = threading.Event()
        self._share_group = ShareGroup(clients, topic, history)

    async def run_during(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the load until `work` ends; an error of `work` or of the load ends both."""
        # Each client of librdkafka occupies a thread for the whole run. The default executor may have as few
        # as five threads, and then faults and the lookup of addresses would wait for the end of a client.
        executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="load")
        asyncio.get_running_loop().set_default_executor(executor)
        producer_tasks, reader_tasks = self._start_producers(), self._start_readers()
        try:
            await _run_until_failure([*producer_tasks, *reader_tasks], work)
            self._stop_producers.set()
            await asyncio.gather(*producer_tasks)
            await asyncio.sleep(LAST_READS_S)
            self._stop_readers.set()
            await asyncio.gather(*reader_tasks)
        finally:
            self.stop()

    def stop(self) -> None:
        """End the load."""
        self._stop_producers.set()
        self._stop_readers.set()

    async def read_everything(self) -> int:
        """Read the topic once from its start, as the history's final reader; return the number of records.

        The share group then processes the records that it has not accepted yet.
        """
        ends = await asyncio.to_thread(
            consumers.read_everything, self._clients, self._topic, self._history, self._partitions
        )
        await self._share_group.drain(ends)
        return sum(ends.values())

    def _start_producers(self) -> list[asyncio.Task[None]]:
        return [
            asyncio.create_task(
                run(
                    self._clients,
                    self._topic,
                    producers.DeliveryRecorder(self._history, number),
                    codec,
                    self._rate,
                    self._partitions,
                    self._stop_producers,
                )
            )
            for number, (run, codec) in enumerate(producers.LOADS)
        ]

    def _start_readers(self) -> list[asyncio.Task[None]]:
        clients, topic, history, stop = self._clients, self._topic, self._history, self._stop_readers
        loads = [
            *(run(clients, topic, history, self._partitions, stop) for run in consumers.READERS),
            *(run(clients, topic, history, stop) for run in group_members.MEMBERS),
            *(run(clients, topic, history, stop) for run in consumer_protocol_members.MEMBERS),
            *(
                group_members.query_committed_offsets(clients, topic, history, group, self._partitions, stop)
                for group in (group_members.GROUP, consumer_protocol_members.GROUP)
            ),
            *(self._share_group.run_staying(number, stop) for number in range(2)),
            self._share_group.run_returning(stop),
        ]
        return [asyncio.create_task(work) for work in loads]


async def _run_until_failure(tasks: list[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    main = asyncio.ensure_future(work)
    await asyncio.wait([main, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in (main, *tasks):
        if task.done():
            task.result()
    await main
