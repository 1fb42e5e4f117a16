"""The moves of replicas between the log directories of a node."""

from __future__ import annotations

from tidelog.base.randomness import new_uuid
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.node.wiring.logs_part import LogsPart
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.replication.log_dir_move import MovePorts
from tidelog.broker.replication.log_dir_moves import LogDirMoves
from tidelog.broker.replication.node_replication import NodeReplication


def create_log_dir_moves(
    context: NodeContext, store: MetadataStore, logs: LogsPart, replication: NodeReplication
) -> LogDirMoves:
    """Return the moves; start them when the replicas have their roles."""
    config = context.config
    ports = MovePorts(
        broker_id=config.node_id,
        directories=logs.manager.directories,
        directory_ids=context.directory_ids.get,
        flusher=logs.flusher,
        cleaner=logs.cleaner,
        assignments=replication.assignments,
        image=lambda: store.image,
        quota=logs.throttles.moves,
        executor=context.threads.moves,
        clock=context.clock,
    )
    thread_count = config.num_replica_alter_log_dirs_threads or len(config.log_directories)
    return LogDirMoves(ports, logs.replicas, thread_count, lambda: new_uuid(context.randomness))
