"""A node whose directory is used alternately by Tidelog and by Apache Kafka."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TIDELOG = str(Path(sys.executable).with_name("tidelog"))
WITHIN_S = 90.0


class Node:
    """A node that is broker and controller, with alternating processes of both kinds.

    `listeners` are the names of listeners in addition to PLAINTEXT; `ports` are their ports.
    `directories` are all log directories; `data` is the first one.
    """

    def __init__(
        self,
        root: Path,
        jars: str,
        settings: str = "",
        listeners: Sequence[str] = (),
        *,
        directory_count: int = 1,
    ) -> None:
        self.data = root / "data"
        self.directories = [self.data, *(root / f"data-{number}" for number in range(2, directory_count + 1))]
        self._config = root / "server.properties"
        self._jars = jars
        self._output = root / "output"
        client_port, controller_port, *others = free_ports(2 + len(listeners))
        self.ports = dict(zip(listeners, others, strict=True))
        more = "".join(f",{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.tools = KafkaTools(Path(jars), f"127.0.0.1:{client_port}")
        self._config.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}{more}\n"
            f"log.dirs={','.join(map(str, self.directories))}\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            # A snapshot after every few topics.
            "metadata.log.max.record.bytes.between.snapshots=3000\n" + settings
        )

    def format(self) -> None:
        options = ["-c", str(self._config), "-t", CLUSTER_ID, "--standalone"]
        subprocess.run([TIDELOG, "storage", "format", *options], check=True, timeout=WITHIN_S)

    @contextmanager
    def run_as(self, owner: str) -> Iterator[KafkaTools]:
        """Run a process of `owner`, yield the tools connected to it, and stop the process."""
        java = ["java", "-Xmx300m", "-cp", f"{self._jars}/*", "kafka.Kafka"]
        start = java if owner == "kafka" else [TIDELOG, "broker", "--config"]
        with self._output.open("ab") as output:
            process = subprocess.Popen([*start, str(self._config)], stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until(
                lambda: self.tools.call("kafka-topics", "--list").returncode == 0,
                f"response of {owner}",
                timeout_s=WITHIN_S,
            )
            yield self.tools
            process.send_signal(signal.SIGTERM)
            process.wait(WITHIN_S)
        finally:
            process.kill()
            process.wait()

    def snapshots(self) -> set[str]:
        return {path.name for path in (self.data / "__cluster_metadata-0").glob("*.checkpoint")}
