"""Running Kafka's command line tools by their main classes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.reference_software.kafka_jars import program

TIMEOUT_S = 90

MAIN_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}


class KafkaTools:
    """`run` calls a tool like its shell script."""

    def __init__(
        self, jars: Path, bootstrap_servers: str, bootstrap_option: str = "--bootstrap-server"
    ) -> None:
        self.jars = jars
        self.bootstrap_servers = bootstrap_servers
        self._bootstrap_option = bootstrap_option

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Return the tool's output; raise AssertionError with the output if it fails."""
        done = self.call(tool, *arguments, stdin=stdin)
        assert done.returncode == 0, (
            f"{tool} {arguments} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def call(self, tool: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a tool and return it, with any exit code."""
        option = "--broker-list" if tool == "kafka-transactional-message-copier" else self._bootstrap_option
        servers = [] if tool == "kafka-dump-log" else [option, self.bootstrap_servers]
        if tool == "kafka-cluster":
            # Its options belong to the command that follows.
            arguments, servers = (*arguments, *servers), []
        return subprocess.run(
            self._command(tool, *servers, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    @contextmanager
    def running(self, tool: str, *arguments: str) -> Iterator[None]:
        """Run a tool in the background, without its output, until the end of the block."""
        command = self._command(tool, self._bootstrap_option, self.bootstrap_servers, *arguments)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)

    def _command(self, tool: str, *arguments: str) -> list[str]:
        return [*program(self.jars, MAIN_CLASSES[tool]), *arguments]
