"""The statuses in the heartbeats of a streams group, and the problems of topics that cause some of them."""

from __future__ import annotations

from enum import IntEnum


class HeartbeatStatus(IntEnum):
    """A status in the response of a heartbeat; the numbers are Kafka's."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(Exception):
    """Topics are missing or have wrong partition counts; the members wait until that has changed."""

    def __init__(self, status: HeartbeatStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def incorrectly_partitioned(detail: str) -> TopicProblem:
    """Return the problem INCORRECTLY_PARTITIONED_TOPICS."""
    return TopicProblem(HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)
