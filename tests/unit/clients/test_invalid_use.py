"""Invalid use of the clients: the errors, and no hanging or unretrieved exceptions."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import TIMEOUT_S, eventually, remains
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
async def unretrieved() -> AsyncIterator[list[str]]:
    """Yield the exceptions that asyncio reports during the test because no task retrieved them."""
    received: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: received.append(context["message"]))
    yield received


async def test_a_client_that_was_not_started_refuses_calls(servers: str) -> None:
    with pytest.raises(KafkaError, match="the producer is not started"):
        await Producer(servers).send("tides", b"high")
    with pytest.raises(KafkaError, match="the producer is not started"):
        await Producer(servers).flush()
    with pytest.raises(KafkaError, match="the producer is not started"):
        await Producer(servers).partitions_for("tides")
    with pytest.raises(KafkaError, match="the consumer is not started"):
        await Consumer(servers).poll()
    for timeout_ms in (None, 100):
        with pytest.raises(KafkaError, match="the consumer is not started"):
            await Consumer(servers).getone(timeout_ms)
    with pytest.raises(KafkaError, match="the consumer is not started"):
        await Consumer(servers).partitions_for("tides")


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
async def test_a_client_is_started_once(servers: str, kind: Any) -> None:
    async with kind(servers) as client:
        with pytest.raises(KafkaError, match="already started"):
            await client.start()


async def test_a_closed_consumer_refuses_calls_at_once(servers: str) -> None:
    consumer = Consumer(servers)
    await consumer.start()
    await consumer.close()
    with pytest.raises(KafkaError, match="the consumer is closed"):
        await consumer.partitions_for("tides")


async def read_all(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


@pytest.mark.parametrize(
    ("read", "expected_text"),
    [
        (lambda consumer: consumer.poll(600_000), "the consumer is closed"),
        (lambda consumer: consumer.getone(), "the consumer is closed"),
        (read_all, None),
    ],
    ids=["poll", "getone", "async for"],
)
async def test_close_ends_a_poll_of_another_task_at_once(
    servers: str, read: Any, expected_text: str | None
) -> None:
    consumer = Consumer(servers)
    await consumer.start()
    consumer.assign([("quiet", 0)])
    reading = asyncio.create_task(read(consumer))
    await remains(lambda: not reading.done(), 0.1)
    await consumer.close()
    done, _ = await asyncio.wait({reading}, timeout=TIMEOUT_S)
    assert done
    error = reading.exception()
    assert (None if error is None else str(error)) == expected_text


@pytest.mark.parametrize(
    ("record", "expected_text"),
    [
        ({"value": "high"}, "value='high' is a str, expected bytes or None"),
        ({"value": b"high", "key": "brest"}, "key='brest' is a str, expected bytes or None"),
        ({"value": b"high", "headers": {"a": b"b"}}, "is a dict, expected a list of"),
        (
            {"value": b"high", "headers": [("a", "b")]},
            r"header \('a', 'b'\): expected \(str, bytes",
        ),
        ({"value": b"high", "headers": [(b"a", b"b")]}, r"header \(b'a', b'b'\): expected"),
        ({"value": b"high", "partition": "0"}, "has no partition '0', only"),
    ],
)
async def test_a_record_with_wrong_types_is_refused_without_affecting_others(
    servers: str, record: dict[str, Any], expected_text: str
) -> None:
    async with Producer(servers, linger_ms=100) as producer:
        before = await producer.send("types", b"before")
        with pytest.raises((TypeError, KafkaError), match=expected_text):
            await producer.send("types", **record)
        after = await producer.send("types", b"after")
        await producer.flush()
        assert (await after).offset == (await before).offset + 1


async def test_polling_without_a_subscription_is_refused(servers: str) -> None:
    async with Consumer(servers, group_id="aimless") as consumer:
        for reading in (consumer.poll, consumer.getone):
            with pytest.raises(KafkaError, match="call subscribe or assign first"):
                await reading()


@pytest.mark.parametrize("partition", ["tides", ("tides",), ("tides", "0"), ("tides", -1)])
async def test_an_empty_assignment_is_refused(servers: str, partition: Any) -> None:
    async with Consumer(servers) as consumer:
        with pytest.raises(KafkaError, match=r"is not a \(topic, partition\)"):
            consumer.assign([partition])


@pytest.mark.parametrize(
    ("topic", "expected_text"),
    [
        (b"tides", "topic=b'tides' is a bytes, expected a str"),
        (None, "topic=None is a NoneType"),
        ("", "topic name '' is invalid: names have"),
        ("t" * 250, "1 to 249 characters"),
        ("tide\ud800", r"topic name 'tide.* is invalid"),
    ],
)
async def test_an_invalid_topic_name_is_refused_without_a_change(
    servers: str, topic: Any, expected_text: str
) -> None:
    async with Producer(servers) as producer, Consumer(servers, group_id="names") as consumer:
        for asking in (producer.send(topic, b"high"), consumer.partitions_for(topic)):
            with pytest.raises((TypeError, KafkaError), match=expected_text):
                await asking
        with pytest.raises((TypeError, KafkaError), match=expected_text):
            consumer.subscribe([topic])
        with pytest.raises(KafkaError):
            consumer.assign([(topic, 0)])
        async with asyncio.timeout(TIMEOUT_S):
            assert (await producer.send_and_wait(f"after-{len(expected_text)}", b"high")).offset == 0
            assert await consumer.partitions_for(f"after-{len(expected_text)}")


@pytest.mark.parametrize(
    ("offset", "expected_text"),
    [
        (2.0, "2.0: expected an integer, not float"),
        ("2", "'2': expected an integer, not str"),
        (None, "None: expected an integer, not NoneType"),
        (-5, "to -5"),
        (2**63, "to 9223372036854775808"),
    ],
)
async def test_an_invalid_offset_is_refused_by_seek_and_commit(
    servers: str, offset: Any, expected_text: str
) -> None:
    tides = TopicPartition("levels", 0)
    async with Producer(servers) as producer:
        await producer.send_and_wait("levels", b"high", partition=0)
    async with Consumer(
        servers, group_id=f"levels-{expected_text}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tides])
        with pytest.raises((TypeError, KafkaError), match=expected_text):
            consumer.seek(tides, offset)
        with pytest.raises((TypeError, KafkaError), match=expected_text):
            await consumer.commit({tides: offset})
        assert await consumer.committed([tides]) == {tides: None}
        assert await consumer.getone(5_000) is not None


async def test_an_invalid_regular_expression_is_refused(servers: str) -> None:
    async with Consumer(servers, group_id="patterns") as consumer:
        with pytest.raises(KafkaError, match=r"pattern='\(' is not a regular expression: missing") as caught:
            consumer.subscribe(pattern="(")
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_failed_fetch_task_is_reported_by_poll(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("levels", 0)])
        monkeypatch.setattr(Fetcher, "plan", broken)
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(KafkaError, match=r"fetcher task ended: RuntimeError"):
                while True:
                    await consumer.poll(600_000)


async def test_lost_records_are_logged_once_and_unawaited_futures_log_nothing(
    unretrieved: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedCluster() as cluster:
        producer = Producer(
            cluster.bootstrap_servers, delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0
        )
        await producer.start()
        await producer.send_and_wait("tides", b"high")
    for _ in range(10):
        await producer.send("tides", b"lost")
    await producer.close()
    gc.collect()
    assert not unretrieved
    lost = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Lost")]
    assert lost and all("tides-0" in line and "delivery_timeout_ms=300" in line for line in lost)
    assert sum(int(line.split()[1]) for line in lost) == 10

    # Longer than the deadline of commit, which an attempt to connect must not exceed.
    with EmbeddedCluster() as cluster:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("tides", b"high")
        consumer = Consumer(
            cluster.bootstrap_servers,
            group_id="harbour",
            auto_offset_reset="earliest",
            # Longer than the deadline of commit: an attempt to connect must not outlast it.
            reconnect_backoff_ms=600_000,
            reconnect_backoff_max_ms=600_000,
        )
        await consumer.start()
        consumer.subscribe(["tides"])
        assert await consumer.getone(10_000) is not None
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(KafkaError) as caught:
            await consumer.commit(timeout_ms=500)
        assert caught.value.code.retriable
        await consumer.close(timeout_ms=500)


async def test_loss_and_return_of_the_cluster_are_logged_once_each(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.WARNING, "tidelog.clients.metadata.cluster_metadata")
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        options: dict[str, Any] = {"metadata_max_age_ms": 50, "reconnect_backoff_max_ms": 50}
        async with Consumer(cluster.bootstrap_servers, **options) as consumer:
            consumer.assign([("tides", 0)])
            await asyncio.to_thread(cluster.stop)
            await eventually(lambda: "Metadata refresh failed" in caplog.text)
            await asyncio.to_thread(cluster.start)
            await eventually(lambda: "Cluster is reachable again" in caplog.text)
    logged = [
        record.getMessage()
        for record in caplog.records
        if record.name == "tidelog.clients.metadata.cluster_metadata"
    ]
    assert len(logged) == 2


async def test_invalid_bootstrap_servers_are_reported() -> None:
    with pytest.raises(KafkaError, match=r"bootstrap server 127\.0\.0\.1:1 cannot be reached") as caught:
        async with Admin("127.0.0.1:1", default_api_timeout_ms=200):
            pass
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
