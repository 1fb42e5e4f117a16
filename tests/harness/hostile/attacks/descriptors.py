"""Descriptors exhausted by sockets or by partitions (item 15)."""

from __future__ import annotations

import socket

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.target import Target, TargetError
from tests.support.network.raw_client import RawClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

OPEN_FILES_MAX = 400
CONNECTIONS = 500
PARTITIONS = 2000


def _create(client: RawClient, name: str, partitions: int) -> str:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=20_000)
    result = client.send_request(request, 7, CreateTopicsResponse).topics[0]
    return f"{ErrorCode(result.error_code).name}: {result.error_message}"


def _create_a_topic_without_descriptors(context: AttackContext) -> None:
    client = context.client()
    context.begin()
    sockets: list[socket.socket] = []
    for _ in range(CONNECTIONS):
        try:
            sockets.append(context.connect())
        except OSError:
            break
    context.note(f"CreateTopics with {len(sockets)} sockets: {_create(client, 'without-descriptors', 3)}")
    context.hold()
    context.disconnect_all()
    context.expect_topic_creation()


def _create_more_partitions_than_descriptors(context: AttackContext) -> None:
    client = context.client()
    context.begin()
    results = set()
    for number in range(4):
        results.add(_create(client, f"many-partitions-{number}", PARTITIONS).replace(str(number), "n"))
    context.note(" | ".join(sorted(results))[:200])
    context.hold()
    context.disconnect_all()
    context.expect_topic_creation()


def _restart_with_many_partitions(context: AttackContext) -> None:
    """Restart a separate broker, which must start with all partitions that it accepted."""
    context.begin()
    with Target(open_files_max=OPEN_FILES_MAX) as second:
        with RawClient(*second.address) as client:
            for number in range(2):
                context.note(_create(client, f"many-partitions-{number}", PARTITIONS)[:100])
        code = second.exit_code
        context.expect(code is None, f"the broker ended with the exit code {code}")
        second.terminate()
        try:
            second.start()
        except TargetError as error:
            context.expect(False, f"the broker does not start again: {error}"[-300:])


ATTACKS = (
    Attack(
        name="descriptors-used-up-by-sockets",
        item="15",
        actions="CreateTopics while sockets use up all descriptors",
        run=_create_a_topic_without_descriptors,
        open_files_max=OPEN_FILES_MAX,
        descriptors_kept=24,
        log_lines_max=200,
        is_short=False,
    ),
    Attack(
        name="descriptors-used-up-by-partitions",
        item="15",
        actions="four CreateTopics of 2,000 partitions each with 400 descriptors",
        run=_create_more_partitions_than_descriptors,
        open_files_max=OPEN_FILES_MAX,
        descriptors_kept=OPEN_FILES_MAX,
        memory_mib=128,
        memory_kept_mib=128,
        log_lines_max=200,
        is_short=False,
    ),
    Attack(
        name="restart-with-many-partitions",
        item="15",
        actions="two CreateTopics of 2,000 partitions with 400 descriptors, then a restart",
        run=_restart_with_many_partitions,
        is_short=False,
    ),
)
