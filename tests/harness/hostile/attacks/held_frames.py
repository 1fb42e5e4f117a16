"""Requests whose frames stay in memory while they wait or after they completed (item 16)."""

from __future__ import annotations

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.attacks.closed_connections import join_request
from tests.harness.hostile.attacks.parked_fetches import parked_fetch
from tests.harness.hostile.frames import request_frame

FRAME_BYTES = 4 * MEBIBYTE
LARGE_FRAME_BYTES = 50 * MEBIBYTE
METADATA_BYTES = MEBIBYTE


def _close_after_large_fetches(context: AttackContext) -> None:
    frame = parked_fetch(1, padding=bytes(FRAME_BYTES))
    context.begin()
    for _ in range(context.size(600, 10)):
        client = context.client()
        client.send(frame)
        client.close()
        if context.has_ended and context.scale < 1:
            break
    context.hold()


def _park_large_fetches(context: AttackContext) -> None:
    frame = parked_fetch(1, padding=bytes(FRAME_BYTES))
    context.begin()
    for _ in range(context.size(200, 10)):
        context.client().send(frame)
    context.hold()


def _read_responses_of_large_fetches(context: AttackContext) -> None:
    padding = bytes(max(int(LARGE_FRAME_BYTES * context.scale), FRAME_BYTES))
    frame = parked_fetch(1, padding=padding, max_wait_ms=5)
    client = context.client()
    context.begin()
    for _ in range(context.size(50, 10)):
        if context.exchange(client, frame) is None:
            context.note("closed")
            client = context.client()


def _join_with_large_metadata(context: AttackContext) -> None:
    frame = request_frame(join_request("large-metadata", bytes(METADATA_BYTES)), 3)
    context.begin()
    for _ in range(context.size(400, 10)):
        client = context.client()
        client.send(frame)
    context.hold()


ATTACKS = (
    Attack(
        name="large-frames-of-closed-connections",
        item="16",
        actions="600 Fetches of 4 MiB wait, and their connections close",
        run=_close_after_large_fetches,
        memory_mib=256,
    ),
    Attack(
        name="large-frames-of-parked-fetches",
        item="16",
        actions="200 Fetches of 4 MiB wait",
        run=_park_large_fetches,
        memory_mib=256,
    ),
    Attack(
        name="large-frames-of-completed-fetches",
        item="16",
        actions="50 Fetches of 50 MiB complete one after the other",
        run=_read_responses_of_large_fetches,
        memory_mib=256,
    ),
    Attack(
        name="large-metadata-of-members",
        item="16",
        actions="400 members join a group, each with metadata of 1 MiB, and leave",
        run=_join_with_large_metadata,
        memory_mib=512,
        memory_kept_mib=128,
    ),
)
