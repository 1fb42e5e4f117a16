"""The time in which a restarted node loads a partition of `__consumer_offsets` with many commits.

All groups are in one partition. A commit has the offsets of `PARTITIONS` partitions: as many records.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from benchmarks.frames import CLIENT_ID
from benchmarks.kafka.brokers import START_WITHIN_S, Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Metric
from benchmarks.kafka.suites.start_up import names_a_broker, request, wait_until
from benchmarks.loads.pipelined import connect, send_and_receive
from benchmarks.processes import BenchmarkError
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tidelog.protocol.registry import ApiKey

TOPIC: Final = "committed"
COMMITS: Final = 1_000_000
PARTITIONS: Final = 100
GROUPS: Final = 100
FIND_COORDINATOR_VERSION: Final = 4
OFFSET_COMMIT_VERSION: Final = 9
OFFSET_FETCH_VERSION: Final = 9
POLL_S: Final = 0.005

SETTINGS: Final = {"offsets.topic.num.partitions": "1"}

METRICS: Final = (
    Metric(key="load_s", name="first response to served offsets", unit="s", better=Better.LOWER),
    Metric(key="served_s", name="process start to served offsets", unit="s", better=Better.LOWER),
    Metric(key="cpu_s", name="broker CPU until then", unit="s", better=Better.LOWER),
)


def load_case(effort: Effort) -> Case:
    """Return the case of a node that starts with many commits."""
    commits = int(COMMITS * effort.scale)
    return Case(
        group="load of the group coordinator",
        variant=f"{commits:,} commits",
        metrics=METRICS,
        setup=Setup(settings=tuple(SETTINGS.items()), per_turn=True),
        turn=partial(_turn, commits),
        turn_s=15.0 + commits / 20_000,
    )


def _turn(commits: int, brokers: Brokers) -> Findings:
    brokers.start()
    brokers.create_topic(TOPIC, PARTITIONS)
    _commit(brokers, commits)
    brokers.stop()
    started = time.perf_counter()
    brokers.spawn()
    wait_until(brokers, lambda: names_a_broker(brokers.ports[0]), POLL_S)
    responded = time.perf_counter()
    wait_until(brokers, lambda: _is_served(brokers.ports[0]), POLL_S)
    served = time.perf_counter()
    return {
        "load_s": served - responded,
        "served_s": served - started,
        "cpu_s": brokers.cpu_seconds(),
    }


def _commit(brokers: Brokers, commits: int) -> None:
    """Commit offsets of all groups in turn; wait until the coordinator accepts the first commit."""
    with connect("127.0.0.1", brokers.ports[0]) as connection:
        connection.settimeout(START_WITHIN_S)
        # The request creates the topic of the coordinator.
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=("group-0",))
        frame = encode_request(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, 1, CLIENT_ID, find)
        send_and_receive(connection, frame)
        wait_until(brokers, lambda: _accepts(send_and_receive(connection, _commit_frame(0, 0))), POLL_S)
        for number in range(1, commits // PARTITIONS):
            frame = send_and_receive(connection, _commit_frame(number % GROUPS, number))
            if not _accepts(frame):
                raise BenchmarkError(f"{brokers.engine.value} rejected a commit")


def _commit_frame(group: int, offset: int) -> bytes:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index in range(PARTITIONS)
    )
    body = OffsetCommitRequest(
        group_id=f"group-{group}",
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),),
    )
    return encode_request(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, 1, CLIENT_ID, body)


def _accepts(frame: bytes) -> bool:
    _, body = read_response_header(memoryview(frame), ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION)
    response = decode(OffsetCommitResponse, frame[body:], OFFSET_COMMIT_VERSION)
    return all(
        partition.error_code == ErrorCode.NONE for topic in response.topics for partition in topic.partitions
    )


def _is_served(port: int) -> bool:
    body = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="group-0", topics=None),))
    frame = request(port, encode_request(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, 1, CLIENT_ID, body))
    _, start = read_response_header(memoryview(frame), ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION)
    [group] = decode(OffsetFetchResponse, frame[start:], OFFSET_FETCH_VERSION).groups
    if group.error_code != ErrorCode.NONE:
        return False
    count = sum(len(topic.partitions) for topic in group.topics)
    if count != PARTITIONS:
        raise BenchmarkError(f"group-0 has {count} offsets after the restart, not {PARTITIONS}")
    return True
