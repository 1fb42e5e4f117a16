"""Fetch sessions with very many partitions, or opened without limit (item 19)."""

from __future__ import annotations

from uuid import UUID

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.harness.hostile.regular_client import TOPIC
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

PARTITIONS = 400_000
PER_REQUEST = 40_000
OPENING_EPOCH = 0


def _topic(name: str, first: int, count: int) -> FetchTopic:
    partitions = tuple(
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
        for number in range(first, first + count)
    )
    return FetchTopic(topic=name, topic_id=UUID(int=7), partitions=partitions)


def _fill_a_session(context: AttackContext) -> None:
    per_request = context.size(PER_REQUEST, 100)
    client = context.client()
    opening = FetchRequest(session_epoch=OPENING_EPOCH, topics=(_topic(TOPIC, 0, 1),))
    session = client.send_request(opening, 12, FetchResponse).session_id
    frames = [
        request_frame(
            FetchRequest(
                session_id=session,
                session_epoch=number + 1,
                topics=(_topic("unknown", number * per_request, per_request),),
            ),
            12,
        )
        for number in range(PARTITIONS // PER_REQUEST)
    ]
    context.begin()
    for frame in frames:
        if context.exchange(client, frame) is None:
            context.note("closed while adding partitions")
            return
    epoch = len(frames) + 1
    while not context.has_ended:
        frame = request_frame(FetchRequest(session_id=session, session_epoch=epoch), 12)
        if context.exchange(client, frame) is None:
            return
        epoch += 1
    context.note(f"{epoch - len(frames) - 1} small Fetches completed afterwards")


def _fill_many_sessions(context: AttackContext) -> None:
    """Open sessions with partitions that do not exist, and never use them again."""
    request = FetchRequest(
        session_epoch=OPENING_EPOCH,
        topics=(_topic(TOPIC, 0, 1), _topic("unknown", 0, context.size(2000, 20))),
    )
    frame = request_frame(request, 12)
    client = context.client()
    context.begin()
    sessions = 0
    while not context.has_ended or sessions < context.size(1000):
        if context.exchange(client, frame) is None:
            break
        sessions += 1
    context.note(f"{sessions} sessions opened")


def _churn_sessions(context: AttackContext) -> None:
    frame = request_frame(FetchRequest(session_epoch=OPENING_EPOCH, topics=(_topic(TOPIC, 0, 2),)), 12)
    client = context.client()
    context.begin()
    context.repeat(frame, client)


ATTACKS = (
    Attack(
        name="fetch-session-of-400000-partitions",
        item="19",
        actions="400,000 partitions that do not exist are added to one session, then Fetches of 45 bytes",
        run=_fill_a_session,
    ),
    Attack(
        name="fetch-sessions-of-2000-partitions",
        item="19",
        actions="1,000 sessions are opened with 2,000 partitions each that do not exist",
        run=_fill_many_sessions,
        memory_mib=128,
    ),
    Attack(
        name="fetch-session-churn",
        item="review",
        actions="sessions are opened one after the other, more than the cache holds",
        run=_churn_sessions,
    ),
)
