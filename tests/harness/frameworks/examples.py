"""The examples of frameworks: their packages with the versions that were tried, and their last lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FrameworkExample:
    """A program in examples/frameworks, which gets the bootstrap servers as its argument.

    If its folder has a pom.xml, the jars of the program are those of this file. The packages of a program in
    Java are only shown.
    """

    file: str
    packages: tuple[str, ...]
    last_line: str


EXAMPLES: Final = (
    FrameworkExample("faststream_app.py", ("faststream[confluent]==0.7.8",), "invoices [0, 10, 20, 30, 40]"),
    FrameworkExample("quix_levels.py", ("quixstreams==3.28.1",), "highest {'brest': 9, 'dover': 6}"),
    FrameworkExample("kombu_queue.py", ("kombu[confluentkafka]==5.7.0",), "jobs [0, 1, 2, 3, 4]"),
    FrameworkExample("celery_tasks.py", ("celery==5.7.0", "kombu[confluentkafka]==5.7.0"), "sums [0, 2, 4]"),
    FrameworkExample(
        "faust_counts.py", ("faust-streaming==0.15.3",), "counts {'high': 3, 'low': 1, 'slack': 1}"
    ),
    FrameworkExample("bytewax_flow.py", ("bytewax[kafka]==0.21.1",), "results [0, 10, 20, 30, 40]"),
    FrameworkExample(
        "kafka_streams/WordCounts.java",
        ("org.apache.kafka:kafka-streams:4.3.1",),
        "counts {high=3, low=1, slack=1}",
    ),
    FrameworkExample("kafka_connect/copy_file.py", (), "copied ['high', 'low', 'slack']"),
)
