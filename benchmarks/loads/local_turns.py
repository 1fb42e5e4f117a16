"""Writes and reads one batch alternately at a constant rate: the latency of recent records."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.frames import PRODUCE_VERSION, batch, fetch_frame, produce_frame, records_in
from benchmarks.loads.options import main, percentile
from benchmarks.loads.pipelined import connect, send_and_receive
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import read_response_header
from tidelog.protocol.messages.produce import ProduceResponse
from tidelog.protocol.registry import ApiKey

FETCH_BYTES = 1024 * 1024


def local_turns(
    host: str, port: int, topic: str, seconds: float, batch_bytes: int, turns_per_s: float
) -> dict[str, Any]:
    """Return microseconds of each kind of request; the topic must exist and have no other producer."""
    records = batch(batch_bytes)
    produce = produce_frame(topic, 1, records)
    taken: dict[str, list[float]] = {"produce": [], "consume": []}
    with connect(host, port) as connection:
        offset = _base_offset(send_and_receive(connection, produce)) + records_in(records)
        due = time.perf_counter()
        deadline = due + seconds
        while due < deadline:
            time.sleep(max(0.0, due - time.perf_counter()))
            due += 1 / turns_per_s
            for kind, frame in (
                ("produce", produce),
                ("consume", fetch_frame(topic, 0, offset, FETCH_BYTES)),
            ):
                started = time.perf_counter()
                response = send_and_receive(connection, frame)
                taken[kind].append((time.perf_counter() - started) * 1e6)
            if len(response) < len(records):
                raise RuntimeError(f"nothing came from offset {offset}")
            offset += records_in(records)
    return {
        f"{kind}_{name}_us": percentile(sorted(values), share)
        for kind, values in taken.items()
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def _base_offset(frame: bytes) -> int:
    _, body = read_response_header(memoryview(frame), ApiKey.PRODUCE, PRODUCE_VERSION)
    response = decode(ProduceResponse, frame[body:], PRODUCE_VERSION)
    partition = response.responses[0].partition_responses[0]
    if partition.error_code:
        raise RuntimeError(f"produce failed: {partition}")
    return partition.base_offset


if __name__ == "__main__":
    main(local_turns)
