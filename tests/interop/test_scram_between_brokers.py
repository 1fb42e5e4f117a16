"""Three nodes with SASL_SSL on every listener and SCRAM between brokers; a password changes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.harness.failover.secured import BROKER, LOAD, allow_load, create_cluster
from tests.support.loops.loop_thread import LOOP
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.clients.admin.admin import Admin
from tidelog.clients.producer.producer import Producer as OwnProducer
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.protocol.errors import ErrorCode, KafkaError

pytestmark = pytest.mark.interop

SESSION_MS = 3_000
TOPIC = "events"


class SecuredNodes:
    """The running nodes, and the clients of two users."""

    def __init__(self, cluster: LocalCluster) -> None:
        assert cluster.security is not None
        self.administrator = cluster.security.client_settings(cluster.bootstrap_servers, BROKER)
        self.load = LOOP.run(allow_load(cluster))

    def producer(self, password: str | None = None) -> Producer:
        """Create a producer of librdkafka."""
        changes = {} if password is None else {"sasl.password": password}
        return Producer(
            {
                **self.load.confluent_kafka,
                **changes,
                "message.timeout.ms": 2_000,
                "log_level": 0,
            }
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNodes]:
    folder = tmp_path_factory.mktemp("scram")
    settings = {**QUICK_TIMEOUTS, "connections.max.reauth.ms": str(SESSION_MS)}
    cluster = create_cluster(folder / "cluster", 3, settings, is_secured=True)
    try:
        cluster.start()
        yield SecuredNodes(cluster)
    finally:
        cluster.remove()


def is_accepted(producer: Producer) -> bool:
    """Write one record; return whether it was acknowledged."""
    results: list[bool] = []
    producer.produce(TOPIC, b"value", on_delivery=lambda error, _: results.append(error is None))
    assert producer.flush(TIMEOUT_S) == 0
    return results[0]


async def create_topic(secured: SecuredNodes) -> None:
    async with Admin(**secured.administrator.tidelog) as admin:
        await admin.create_topic(TOPIC, 3, 3, configs={"min.insync.replicas": "3"})


async def isr_sizes(secured: SecuredNodes) -> set[int]:
    """Return the sizes of the in-sync sets."""
    async with Admin(**secured.administrator.tidelog) as admin:
        topic = (await admin.describe_topics([TOPIC]))[TOPIC]
    assert not isinstance(topic, KafkaError)
    return {len(each.in_sync_replicas) for each in topic.partitions}


async def describe(secured: SecuredNodes) -> None:
    """Describe the brokers as the user of the load, with the first password."""
    async with Admin(**secured.load.tidelog) as admin:
        await admin.describe_cluster()


def change_password(secured: SecuredNodes, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient(secured.administrator.confluent_kafka)
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(TIMEOUT_S)


def test_followers_replicate_with_scram(secured: SecuredNodes) -> None:
    LOOP.run(create_topic(secured))
    wait_until(lambda: LOOP.run(isr_sizes(secured)) == {3})
    producer = secured.producer()
    # min.insync.replicas=3: each record is on all three nodes.
    assert all(is_accepted(producer) for _ in range(20))


def test_a_changed_password_is_required_of_new_connections_and_of_re_authentication(
    secured: SecuredNodes,
) -> None:
    async def use() -> tuple[int, KafkaError]:
        """Write with a changing password; return the number of records before the failure, and its error."""
        count = 0
        timeouts: dict[str, Any] = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_500}
        async with OwnProducer(**timeouts, **secured.load.tidelog) as own:
            await own.send_and_wait(TOPIC, b"before", partition=0)
            await asyncio.to_thread(change_password, secured, LOAD, "changed")
            while True:
                try:
                    await own.send_and_wait(TOPIC, b"value", partition=0)
                except KafkaError as error:
                    return count, error
                count += 1

    assert is_accepted(secured.producer())
    written, error = LOOP.run(use())
    assert written > 0
    # As in Kafka, records wait for the end of their delivery timeout; other calls fail at once.
    assert error.code == ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(KafkaError) as caught:
        LOOP.run(describe(secured))
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not is_accepted(secured.producer())
    assert is_accepted(secured.producer("changed"))
    with pytest.raises(KafkaException):
        AdminClient(secured.load.confluent_kafka).list_topics(timeout=1)
