"""The nodes of a local cluster: start them, wait until they are ready, stop them."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.layout import ClusterLayout, new_layout, read_layout
from tidelog.local_cluster.node_process import NodeProcess
from tidelog.protocol.errors import KafkaError

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
REQUEST_TIMEOUT_MS: Final = 2_000


class ClusterFailure(Exception):
    """A node did not start, stop or answer; the text has its folder and the end of its log."""


class LocalCluster:
    """Several brokers on this machine; the processes continue to run without this object."""

    def __init__(self, layout: ClusterLayout) -> None:
        self.layout = layout
        self.nodes = {node.node_id: NodeProcess(layout.node_folder(node.node_id)) for node in layout.nodes}

    @classmethod
    def create(
        cls,
        folder: Path,
        count: int,
        *,
        first_port: int | None = None,
        hosts: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> LocalCluster:
        """Create a cluster in an empty or missing folder; start no process."""
        layout = new_layout(folder, count, first_port=first_port, hosts=hosts, settings=settings)
        layout.write()
        return cls(layout)

    @classmethod
    def open(cls, folder: Path) -> LocalCluster:
        """Return the cluster that was created in `folder`."""
        return cls(read_layout(folder))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes for clients, separated by commas."""
        return self.layout.bootstrap_servers

    @property
    def running(self) -> list[int]:
        """The ids of the nodes whose process runs."""
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def start(self, node_ids: Iterable[int] | None = None, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start nodes, all by default, and wait until metadata contains them; return the time in seconds.

        Errors: ClusterFailure if a node ends, or is not in the metadata after `timeout_s`.
        """
        started = SYSTEM_CLOCK.monotonic_s()
        wanted = list(self.nodes if node_ids is None else node_ids)
        for node_id in wanted:
            self.nodes[node_id].start()
        self.wait_for_brokers(wanted, timeout_s)
        return SYSTEM_CLOCK.monotonic_s() - started

    def stop(self, node_ids: Iterable[int] | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop nodes cleanly, all by default. Raise ClusterFailure if a node had to be killed."""
        wanted = [self.nodes[node_id] for node_id in (self.nodes if node_ids is None else node_ids)]
        for node in wanted:
            node.resume()
            node.terminate()
        late = [node for node in wanted if not node.wait(timeout_s)]
        for node in late:
            node.kill()
        if late:
            names = ", ".join(node.folder.name for node in late)
            raise ClusterFailure(f"{names} did not stop within {timeout_s:g} s: {late[0].log_tail()}")

    def kill(self, node_id: int) -> None:
        """End a node at once, as after a crash."""
        self.nodes[node_id].kill()

    def wipe(self, node_id: int) -> None:
        """Delete the data of a stopped node, which then starts empty with the same id."""
        for data in self.layout.data_folders(node_id):
            shutil.rmtree(data)
            data.mkdir()
        self.layout.format(self.layout.node(node_id))

    def remove(self) -> None:
        """Kill the nodes that run, and remove the folder."""
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self.layout.folder, ignore_errors=True)

    def wait_for_brokers(self, node_ids: Iterable[int], timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every node's metadata contains these brokers. Raise ClusterFailure after `timeout_s`."""
        wanted = set(node_ids)
        self.wait_for(lambda: wanted <= self.known_brokers(), f"brokers {sorted(wanted)}", timeout_s)

    def known_brokers(self) -> set[int]:
        """Return the ids of the brokers that are in the metadata of all running nodes."""
        found: set[int] | None = None
        for node_id in self.running:
            brokers = asyncio.run(_brokers(self.layout.node(node_id).address))
            found = brokers if found is None else found & brokers
        return found or set()

    def wait_for(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until `holds`. Raise ClusterFailure after `timeout_s`, or if a node has ended."""
        deadline = SYSTEM_CLOCK.monotonic_s() + timeout_s
        before = set(self.running)
        while not holds():
            ended = before - set(self.running)
            if ended:
                node = self.nodes[min(ended)]
                raise ClusterFailure(f"{node.folder.name} has ended: {node.log_tail()}")
            if SYSTEM_CLOCK.monotonic_s() > deadline:
                raise ClusterFailure(f"no {what} within {timeout_s:g} s; running: {self.running}")
            time.sleep(POLL_S)


async def _brokers(address: str) -> set[int]:
    try:
        async with Admin(address, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            described = await admin.describe_cluster()
    except (KafkaError, OSError):
        return set()
    return {broker.node_id for broker in described.brokers}
