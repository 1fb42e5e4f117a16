"""All attacks, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attacks import (
    administration,
    closed_connections,
    descriptors,
    encodings,
    fetch_sessions,
    group_members,
    groups,
    handshakes,
    held_frames,
    id_patterns,
    identities,
    large_array_requests,
    large_requests,
    metrics_endpoint,
    parked_fetches,
    pipelining,
    record_parsing,
    sockets,
    storage,
    tls_records,
    transactions,
)

ATTACKS: Final[tuple[Attack, ...]] = (
    *parked_fetches.ATTACKS,
    *closed_connections.ATTACKS,
    *descriptors.ATTACKS,
    *held_frames.ATTACKS,
    *record_parsing.ATTACKS,
    *id_patterns.ATTACKS,
    *fetch_sessions.ATTACKS,
    *large_requests.ATTACKS,
    *metrics_endpoint.ATTACKS,
    *pipelining.ATTACKS,
    *sockets.ATTACKS,
    *handshakes.ATTACKS,
    *tls_records.ATTACKS,
    *encodings.ATTACKS,
    *groups.ATTACKS,
    *group_members.ATTACKS,
    *transactions.ATTACKS,
    *storage.ATTACKS,
    *administration.ATTACKS,
    *identities.ATTACKS,
    *large_array_requests.ATTACKS,
)
