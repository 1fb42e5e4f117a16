"""Time from the start of the process to the first response, and of three nodes to a created topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from benchmarks.frames import CLIENT_ID, create_topic_frame
from benchmarks.kafka.brokers import START_WITHIN_S, Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Metric, Suite, TargetOf
from benchmarks.loads.pipelined import connect, send_and_receive
from benchmarks.processes import BenchmarkError
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.create_topics import CreateTopicsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.registry import ApiKey

CONNECT_POLL_S: Final = 0.005
CREATE_POLL_S: Final = 0.05
"""Longer: each attempt is work for nodes that are starting."""
METADATA_VERSION: Final = 9
CREATE_TOPICS_VERSION: Final = 5
PARTITIONS: Final = 6


def start_up_cases(effort: Effort) -> list[Case]:
    """Return the case of one node and that of three."""
    first = Metric(
        key="first_response_s",
        name="process start to first response",
        unit="s",
        better=Better.LOWER,
        target=0.5,
        target_of=TargetOf.TIDELOG,
    )
    cpu = Metric(key="cpu_s", name="CPU until then", unit="s", better=Better.LOWER)
    created = Metric(
        key="created_s",
        name="start to a created topic",
        unit="s",
        better=Better.LOWER,
        target=2.0,
        target_of=TargetOf.TIDELOG,
    )
    one, three = Setup(nodes=1, per_turn=True), Setup(nodes=3, per_turn=True)
    return [
        Case(group="1 node", variant="", metrics=(first, cpu), setup=one, turn=_first_response, turn_s=4.5),
        Case(
            group="3 nodes, RF 3",
            variant="",
            metrics=(created,),
            setup=three,
            turn=_measure_creation,
            turn_s=11.0,
        ),
    ]


def _first_response(brokers: Brokers) -> Findings:
    brokers.format()
    started = time.perf_counter()
    brokers.spawn()
    wait_until(brokers, lambda: names_a_broker(brokers.ports[0]), CONNECT_POLL_S)
    return {"first_response_s": time.perf_counter() - started, "cpu_s": brokers.cpu_seconds()}


def _measure_creation(brokers: Brokers) -> Findings:
    brokers.format()
    started = time.perf_counter()
    brokers.spawn()
    wait_until(brokers, lambda: _is_created(brokers.ports[0], brokers.replication_factor), CREATE_POLL_S)
    return {"created_s": time.perf_counter() - started}


def wait_until(brokers: Brokers, holds: Callable[[], bool], poll_s: float) -> None:
    """Wait until `holds` returns true. Raise BenchmarkError if a node has ended, or takes too long."""
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        try:
            if holds():
                return
        except OSError:
            pass  # it does not listen yet, or closed the connection while it was starting
        brokers.check_running()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{brokers.engine.value} did not start within {START_WITHIN_S:.0f} s")
        time.sleep(poll_s)


def names_a_broker(port: int) -> bool:
    """Return whether a node responds with the metadata of a broker."""
    frame = encode_request(ApiKey.METADATA, METADATA_VERSION, 1, CLIENT_ID, MetadataRequest(topics=()))
    response = request(port, frame)
    _, body = read_response_header(memoryview(response), ApiKey.METADATA, METADATA_VERSION)
    return bool(decode(MetadataResponse, response[body:], METADATA_VERSION).brokers)


def _is_created(port: int, replication_factor: int) -> bool:
    frame = request(port, create_topic_frame("first", PARTITIONS, replication_factor))
    _, body = read_response_header(memoryview(frame), ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION)
    response = decode(CreateTopicsResponse, frame[body:], CREATE_TOPICS_VERSION)
    return all(topic.error_code == 0 for topic in response.topics)


def request(port: int, frame: bytes) -> bytes:
    """Return the response to one request on a connection of its own."""
    with connect("127.0.0.1", port) as connection:
        connection.settimeout(START_WITHIN_S)
        return send_and_receive(connection, frame)


START_UP: Final = Suite(
    name="start-up",
    what="from the start of the process on an empty directory to the first response to a Metadata request; "
    "three nodes from their start to a created topic with three replicas",
    cases=start_up_cases,
)
