"""The nodes of a local cluster: start them, wait until they are ready, stop them."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.layout import ClusterLayout, new_layout, read_layout
from tidelog.local_cluster.node_process import NodeProcess
from tidelog.local_cluster.security import (
    SECURE_LISTENER,
    SECURITY_FILE,
    SECURITY_FOLDER,
    ClusterSecurity,
    Security,
)
from tidelog.protocol.errors import KafkaError

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
REQUEST_TIMEOUT_MS: Final = 2_000


class ClusterFailure(Exception):
    """A node did not start, stop or respond; the text has its folder and the end of its log."""


class LocalCluster:
    """Several brokers on this machine; the processes continue to run without this object."""

    def __init__(self, layout: ClusterLayout, security: ClusterSecurity | None = None) -> None:
        self.layout = layout
        self.security = security
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
        security: Security | None = None,
    ) -> LocalCluster:
        """Create a cluster in an empty or missing folder; start no process.

        `hosts` has an address for each node; by default it is 127.0.0.1. `settings` override those of the
        layout and of `security`. The users of SCRAM are created by `create_users` after the first start.
        """
        if security is None:
            layout = new_layout(folder, count, first_port=first_port, hosts=hosts, settings=settings)
            layout.write()
            return cls(layout)
        secured = ClusterSecurity.create(security, folder.absolute() / SECURITY_FOLDER, hosts)
        all_settings = {**secured.node_settings(), **(settings or {})}
        layout = new_layout(folder, count, first_port=first_port, hosts=hosts, settings=all_settings)
        layout = replace(layout, client_listener=SECURE_LISTENER)
        layout.write()
        return cls(layout, secured)

    @classmethod
    def open(cls, folder: Path) -> LocalCluster:
        """Return the cluster that was created in `folder`."""
        layout = read_layout(folder)
        security_folder = layout.folder / SECURITY_FOLDER
        is_secured = (security_folder / SECURITY_FILE).exists()
        return cls(layout, ClusterSecurity.open(security_folder) if is_secured else None)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes for clients, separated by commas."""
        return self.layout.bootstrap_servers

    def create_users(self) -> None:
        """Create the users of SCRAM, if the cluster has some. Errors: ClusterFailure."""
        if self.security is None:
            return
        try:
            asyncio.run(self.security.create_users(self.bootstrap_servers))
        except KafkaError as error:
            raise ClusterFailure(f"cannot create the users: {error}") from None

    @property
    def running(self) -> list[int]:
        """The ids of the nodes whose process runs."""
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def start(self, node_ids: Iterable[int] | None = None, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start nodes, all by default, and wait until metadata contains them; return the time in seconds.

        Errors: ClusterFailure if a node ends, or is not in the metadata after `timeout_s`.
        """
        start_s = SYSTEM_CLOCK.monotonic_s()
        ids = list(self.nodes if node_ids is None else node_ids)
        for node_id in ids:
            self.nodes[node_id].start()
        self.wait_for_brokers(ids, timeout_s)
        return SYSTEM_CLOCK.monotonic_s() - start_s

    def stop(self, node_ids: Iterable[int] | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop nodes cleanly, all by default. Raise ClusterFailure if a node had to be killed."""
        nodes = [self.nodes[node_id] for node_id in (self.nodes if node_ids is None else node_ids)]
        for node in nodes:
            # A paused process handles SIGTERM only after it has resumed.
            node.resume()
            node.terminate()
        late_nodes = [node for node in nodes if not node.wait(timeout_s)]
        for node in late_nodes:
            node.kill()
        if late_nodes:
            names = ", ".join(node.folder.name for node in late_nodes)
            raise ClusterFailure(f"{names} did not stop within {timeout_s:g} s: {late_nodes[0].log_tail()}")

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
        ids = set(node_ids)
        self.wait_for(lambda: ids <= self.known_brokers(), f"brokers {sorted(ids)}", timeout_s)

    def known_brokers(self) -> set[int]:
        """Return the ids of the brokers that are in the metadata of all running nodes."""
        views = [
            asyncio.run(_brokers(self.node_client_settings(self.layout.node(node_id).address)))
            for node_id in self.running
        ]
        return set.intersection(*views) if views else set()

    def node_client_settings(self, address: str | None = None) -> ClientSettings:
        """Return the settings for clients as the user of the nodes, which may do everything.

        `address`: the node to connect to; by default all nodes.
        """
        servers = address or self.bootstrap_servers
        if self.security is None:
            return ClientSettings(bootstrap_servers=servers)
        return self.security.node_client_settings(servers)

    def wait_for(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until `holds`; `what` names the condition in the error.

        Errors: ClusterFailure after `timeout_s`, or if a node has ended.
        """
        deadline_s = SYSTEM_CLOCK.monotonic_s() + timeout_s
        initial_ids = set(self.running)
        while not holds():
            ended_ids = initial_ids - set(self.running)
            if ended_ids:
                node = self.nodes[min(ended_ids)]
                raise ClusterFailure(f"{node.folder.name} has ended: {node.log_tail()}")
            if SYSTEM_CLOCK.monotonic_s() > deadline_s:
                raise ClusterFailure(f"no {what} within {timeout_s:g} s; running: {self.running}")
            time.sleep(POLL_S)


async def _brokers(settings: ClientSettings) -> set[int]:
    """Return the ids of the brokers that a node knows; no brokers if it cannot be reached."""
    try:
        async with Admin(request_timeout_ms=REQUEST_TIMEOUT_MS, **settings.tidelog) as admin:
            cluster = await admin.describe_cluster()
    except (KafkaError, OSError):
        return set()
    return {broker.node_id for broker in cluster.brokers}
