"""Kafka's tools move replicas between log directories of Tidelog as they do with Apache Kafka.

The same commands run on a broker of each. Their outputs are compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka.conftest import JARS
from tests.kafka.directory_node import WITHIN_S, Node
from tests.kafka.tools import KafkaTools
from tests.support.waiting import wait_until

THROTTLE = "100000"
NO_THROTTLE = "100000000"
RECORDS = "2000"


@dataclass
class Session:
    """One run of the commands on one broker; `outputs` have names in place of paths."""

    tools: KafkaTools
    node: Node
    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)

    def places(self) -> list[dict[str, Any]]:
        """Return the logs of the replica as `kafka-log-dirs` prints them, with their directories."""
        text = self.tools.run("kafka-log-dirs", "--describe", "--topic-list", "moved")
        described = json.loads(text.splitlines()[-1])
        return [
            {"logDir": directory["logDir"], **partition}
            for broker in described["brokers"]
            for directory in broker["logDirs"]
            for partition in directory["partitions"]
        ]

    def plan(self, path: str) -> str:
        """Write the plan that moves the replica to `path`, and return its name."""
        partition = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [path]}
        file = self.folder / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return str(file)

    def reassign(self, name: str, path: str, *options: str) -> None:
        """Run `kafka-reassign-partitions`, and keep its output under `name`."""
        arguments = ("--reassignment-json-file", self.plan(path), *options)
        done = self.tools.call("kafka-reassign-partitions", *arguments)
        self.outputs[name] = self.without_paths(f"{done.returncode}\n{done.stdout}")

    def without_paths(self, text: str) -> str:
        """Replace what differs between two runs: paths of this node, and the order of lines."""
        for number, directory in enumerate(self.node.directories):
            text = re.sub(rf"{re.escape(str(directory))}(?![-\w])", f"DIRECTORY-{number}", text)
        return "\n".join(sorted(line.strip() for line in text.splitlines()))


def move_with_tools(owner: str, jars: str, root: Path) -> Session:
    """Move a replica to the other directory and back, with errors, a throttle and a cancellation."""
    root.mkdir()
    # The tool sees only few steps of the copy if requests are large.
    node = Node(root, jars, "replica.fetch.max.bytes=65536\n", directory_count=2)
    node.format()
    with node.run_as(owner) as tools:
        session = Session(tools, node, root)
        tools.run("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "1")
        properties = f"bootstrap.servers={tools.bootstrap_servers}"
        tools.run(
            "kafka-producer-perf-test",
            *("--topic", "moved", "--num-records", RECORDS, "--record-size", "1000", "--throughput", "-1"),
            *("--producer-props", properties, "acks=all"),
        )
        [before] = session.places()
        source = before["logDir"]
        target = next(str(path) for path in node.directories if str(path) != source)
        session.reassign("unknown directory", "/no/such/directory", "--execute", "--timeout", "1000")
        session.reassign("execute", target, "--execute", "--replica-alter-log-dirs-throttle", THROTTLE)
        session.reassign("verify in progress", target, "--verify", "--preserve-throttles")
        places = {each["isFuture"]: each for each in session.places()}
        assert set(places) == {False, True}, (owner, places)
        assert places[True]["logDir"] == target
        assert 0 < places[True]["offsetLag"] <= int(RECORDS)
        assert places[True]["size"] < before["size"]
        session.reassign("cancel", source, "--execute", "--additional")
        wait_until(lambda: [each["logDir"] for each in session.places()] == [source], timeout_s=WITHIN_S)
        session.reassign("verify cancelled", target, "--verify", "--preserve-throttles")
        session.reassign(
            "execute again", target, "--execute", "--replica-alter-log-dirs-throttle", NO_THROTTLE
        )
        wait_until(lambda: [each["logDir"] for each in session.places()] == [target], timeout_s=WITHIN_S)
        session.reassign("verify complete", target, "--verify")
        [after] = session.places()
        assert (after["size"], after["offsetLag"]) == (before["size"], 0)
        configs = tools.run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1")
        session.outputs["broker configs"] = session.without_paths(configs)
        offsets = tools.run("kafka-get-offsets", "--topic", "moved")
        session.outputs["offsets"] = offsets
        # As the first directory may differ, outputs name the source and the target.
        swap = node.directories[0] != Path(source)
        if swap:
            names = {"DIRECTORY-0": "DIRECTORY-1", "DIRECTORY-1": "DIRECTORY-0"}
            for name, text in session.outputs.items():
                session.outputs[name] = re.sub(r"DIRECTORY-\d", lambda match: names[match[0]], text)
        return session


def test_a_replica_moves_between_log_directories_as_in_apache_kafka(tmp_path: Path) -> None:
    assert JARS is not None
    jars = JARS
    kafka = move_with_tools("kafka", jars, tmp_path / "kafka")
    tidelog = move_with_tools("tidelog", jars, tmp_path / "tidelog")
    assert "is still in progress" in tidelog.outputs["verify in progress"]
    assert "completed successfully" in tidelog.outputs["verify complete"]
    assert tidelog.outputs == kafka.outputs
