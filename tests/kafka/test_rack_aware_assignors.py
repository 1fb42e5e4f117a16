"""Our assignors assign partitions by racks exactly as those of Kafka's Java client (KIP-881)."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from tests.kafka.conftest import JARS
from tidelog.clients.groups.assignors import ASSIGNORS, Subscription
from tidelog.protocol.ids import TopicPartition

PROGRAM = Path(__file__).parent / "Assignments.java"
GROUPS = 3_000


class RandomGroup:
    """A random group: an assignor, topics with the racks of their replicas, and members with racks.

    The members of the sticky assignors subscribe to the same topics: only this algorithm equals Kafka's.
    """

    def __init__(self, rng: random.Random) -> None:
        self.assignor = rng.choice(("range", "range", "sticky", "cooperative-sticky"))
        racks = "xyz"[: rng.randint(1, 3)]
        sizes = [rng.randint(1, 9)] * 2 + [rng.randint(1, 9)]
        self.replicas = {
            topic: ["".join(rng.sample(racks, rng.randint(1, len(racks)))) for _ in range(size)]
            for topic, size in zip("abc"[: rng.randint(1, 3)], sizes, strict=False)
        }
        everything = sorted(self.replicas)
        self.members = {
            f"m{number}": (
                sorted(rng.sample(everything, rng.randint(1, len(everything))))
                if self.assignor == "range"
                else everything,
                rng.choice(("", *racks, *racks)),
            )
            for number in range(rng.randint(1, 6))
        }

    def text(self) -> str:
        """Return the line of the Java program's input."""
        topics = ";".join(f"{topic}={','.join(racks)}" for topic, racks in self.replicas.items())
        members = ";".join(
            f"{member_id}={','.join(topics)}={rack}" for member_id, (topics, rack) in self.members.items()
        )
        return f"{self.assignor}|{topics}|{members}"

    def by_tidelog(self) -> str:
        """Return the assignment as the Java program prints it."""
        assignment = ASSIGNORS[self.assignor].assign(
            {topic: len(racks) for topic, racks in self.replicas.items()},
            {
                member_id: Subscription(topics=tuple(topics), rack_id=rack or None)
                for member_id, (topics, rack) in self.members.items()
            },
            {
                TopicPartition(topic, index): frozenset(each)
                for topic, racks in self.replicas.items()
                for index, each in enumerate(racks)
            },
        )
        return "assigned " + ";".join(
            f"{member_id}={','.join(f'{topic}-{index}' for topic, index in sorted(partitions))}"
            for member_id, partitions in sorted(assignment.items())
        )


def test_rack_aware_assignments_equal_those_of_the_java_client(tmp_path: Path) -> None:
    rng = random.Random(881)
    groups = [RandomGroup(rng) for _ in range(GROUPS)]
    file = tmp_path / "groups"
    file.write_text("\n".join(group.text() for group in groups))
    command = ["java", "-cp", f"{JARS}/*", str(PROGRAM), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    expected = [line for line in done.stdout.splitlines() if line.startswith("assigned ")]
    assert len(expected) == GROUPS
    for group, line in zip(groups, expected, strict=True):
        assert group.by_tidelog() == line, group.text()
