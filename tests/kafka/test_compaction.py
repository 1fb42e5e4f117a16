"""Logs compacted by Tidelog, with Kafka's dump tool and Kafka's broker, and logs compacted by Kafka."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kafka.directory_node import WITHIN_S, Node
from tests.kafka.tools import KafkaTools
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, read_log, roll
from tests.support.logs.partition_logs import append_marker, open_log
from tests.support.waiting import wait_until
from tidelog.protocol.compression import Compression
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog

JARS = os.environ.get("TIDELOG_KAFKA_JARS", "")
KEYS = 40
OFFSETS = re.compile(r"^\| offset: (\d+) ", re.MULTILINE)
BATCHES = re.compile(r"^baseOffset: (\d+) .*isvalid: (\w+)", re.MULTILINE)
# Settings with which both brokers seal and compact continuously.
SETTINGS = """\
log.cleaner.backoff.ms=50
log.cleaner.min.cleanable.ratio=0.01
log.cleaner.dedupe.buffer.size=5000000
log.roll.ms=100
log.retention.check.interval.ms=50
log.flush.scheduler.interval.ms=50
"""


def compacted_log(directory: str) -> PartitionLog:
    """Write every kind of batch that compaction leaves: complete, reduced, emptied, tombstones, markers."""
    log = open_log(OsFileSystem(), COMPACTED, directory=directory)
    for number, codec in enumerate([*Compression, *Compression]):
        append_keyed(log, (f"{number % 3}", f"{number}"), ("x", f"{number}"), compression=codec)
        producer = {"producer_epoch": 0, "is_transactional": True, "base_sequence": number // 2 * 2}
        append_keyed(log, ("y", f"{number}"), ("z", None), producer_id=number % 2, **producer)
        append_marker(log, number % 2, is_abort=number % 3 == 0)
        append_keyed(log, ("w", None), (f"{number}", "last"), compression=codec)
        if number % 4 == 3:
            roll(log)
    roll(log)
    compact(log, NOW_MS)
    append_keyed(log, ("0", "new"))
    roll(log)
    compact(log, NOW_MS + 500)
    return log


def test_the_dump_tool_finds_every_batch_and_index_in_order(tmp_path: Path) -> None:
    log = compacted_log(str(tmp_path / "events-0"))
    log.flush(NOW_MS)
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    files = sorted(str(path) for path in Path(log.directory).iterdir() if path.suffix in kinds)
    tools = KafkaTools(Path(JARS), "")
    text = tools.run("kafka-dump-log", "--deep-iteration", "--files", ",".join(files))
    assert not re.search("mismatch|out of order|isvalid: false", text, re.IGNORECASE), text
    batches = [int(offset) for offset, is_valid in BATCHES.findall(text)]
    assert batches == [header.base_offset for s in log.segments for _, header in s.batches()]
    controls = {header.base_offset for s in log.segments for _, header in s.batches() if header.is_control}
    offsets = [int(offset) for offset in OFFSETS.findall(text)]
    assert [offset for offset in offsets if offset not in controls] == [
        record.offset for record in read_log(log)
    ]
    assert "deleteHorizonMs: OptionalLong" in text


def produce(servers: str, topic: str, label: str) -> dict[bytes, bytes | None]:
    """Write records for all keys repeatedly; return the last value of each key."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    latest: dict[bytes, bytes | None] = {}
    for number in range(30):
        for key in range(KEYS):
            value = None if number == 29 and key % 10 == 9 else b"%s-%d" % (label.encode(), number)
            latest[b"%d" % key] = value
            producer.produce(topic, key=b"%d" % key, value=value)
        producer.flush()
    return latest


def read(servers: str, topic: str) -> tuple[int, dict[bytes, bytes | None]]:
    """Return the number of records, and the last value of each key."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, 0)])
    latest: dict[bytes, bytes | None] = {}
    count = 0

    def is_at_end() -> bool:
        nonlocal count
        for message in consumer.consume(500, 0.1):
            assert message.error() is None
            latest[message.key()], count = message.value(), count + 1
        return consumer.position([TopicPartition(topic, 0)])[0].offset >= end

    wait_until(is_at_end, "end of the topic", timeout_s=WITHIN_S)
    consumer.close()
    return count, latest


def test_tidelog_and_kafka_compact_a_log_alternately(tmp_path: Path) -> None:
    node = Node(tmp_path, JARS, SETTINGS)
    node.format()
    latest: dict[bytes, bytes | None] = {}
    for turn, owner in enumerate(("tidelog", "kafka", "tidelog", "kafka")):
        with node.run_as(owner) as tools:
            servers = tools.bootstrap_servers
            if not turn:
                tools.run("kafka-topics", "--create", "--topic", "t", "--config", "cleanup.policy=compact")
            else:
                assert read(servers, "t")[1] == latest
            latest = produce(servers, "t", f"{owner}-{turn}")
            wait_until(
                partial(_is_compacted, servers, latest),
                f"compaction by {owner}",
                timeout_s=WITHIN_S,
            )
        checkpoint = (node.data / "cleaner-offset-checkpoint").read_text()
        assert re.search(r"^t 0 [1-9]", checkpoint, re.MULTILINE)


def _is_compacted(servers: str, latest: dict[bytes, bytes | None]) -> bool:
    """Append a record, because Apache Kafka seals a segment only at an append; return the check's result."""
    producer = Producer({"bootstrap.servers": servers})
    latest[b"nudge"] = b"x"
    producer.produce("t", key=b"nudge", value=b"x")
    producer.flush()
    count, values = read(servers, "t")
    assert values == latest
    return count < 3 * KEYS
