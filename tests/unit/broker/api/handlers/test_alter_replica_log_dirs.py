"""AlterReplicaLogDirs: outcomes of replicas, and its log lines."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.messages.request_contexts import request_context
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.base.log_limit import LINES_MAX, LogLimit
from tidelog.broker.api.handlers.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from tidelog.broker.replication.log_dir_moves import LogDirMoves
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.protocol.steps import run_steps

MANY = 1_000


class UnknownDirectories:
    """Moves of a node without the requested directories."""

    def alter(self, topic_partition: TopicPartition, path: str) -> None:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log directory")


def test_a_request_for_many_replicas_that_cannot_be_moved_logs_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Damaged requests of one client logged hundreds of lines in a second."""
    limit = LogLimit(ManualClock().monotonic_ms)
    moves = cast(LogDirMoves, UnknownDirectories())
    handler = AlterReplicaLogDirsHandler(moves, ALLOW_EVERYTHING, limit)
    topic = AlterReplicaLogDirTopic(name="t", partitions=tuple(range(MANY)))
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path="/unknown", topics=(topic,)),))
    (result,) = run_steps(handler.handle(request_context(2), request)).results
    assert [each.error_code for each in result.partitions] == [ErrorCode.LOG_DIR_NOT_FOUND] * MANY
    assert len(caplog.records) == LINES_MAX
