"""The periodic backup of a node that can become the active controller, with its connections."""

from __future__ import annotations

from typing import Any

from tidelog.broker.backup.archive import ClusterBackup
from tidelog.broker.backup.catalog import BackupCatalog
from tidelog.broker.backup.collection import collect
from tidelog.broker.backup.task import BackupPorts, PeriodicBackup
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.clients.admin.admin import Admin
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError


def create_backup(context: NodeContext, quorum: QuorumPart) -> PeriodicBackup:
    """Return the backup of this node, a controller, which follows the quorum."""
    config, store = context.config, quorum.raft.store
    listener = config.inter_broker_listener
    security = context.security_of(listener)

    async def collect_offsets(
        image: MetadataImage, metadata: bytes, now_ms: int, previous: ClusterBackup | None
    ) -> ClusterBackup:
        servers = [_address(endpoint.host, endpoint.port) for _, endpoint in image.alive_brokers(listener)]
        if not servers:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker is unfenced")
        admin = Admin(
            servers,
            environment=context.environment,
            authenticator=security.authenticator,
            **_security_options(security),
        )
        async with admin:
            return await collect(admin, image, metadata, now_ms, previous)

    def open_catalog() -> BackupCatalog:
        # Imported in a thread: libraries of object stores are large.
        from tidelog.broker.tier.settings import storage_manager_values
        from tidelog.remote.inspection.bucket import Bucket

        bucket = Bucket.open(storage_manager_values(config))
        return BackupCatalog(bucket.storage.store, bucket.prefix)

    backup = PeriodicBackup(
        BackupPorts(
            clock=context.clock,
            image=lambda: store.image,
            collect=collect_offsets,
            open_catalog=open_catalog,
        ),
        interval_ms=config.tidelog_backup_interval_ms,
        retention_ms=config.tidelog_backup_retention_ms,
    )
    store.leadership.add_activation_listener(backup.on_activation)
    store.leadership.add_resignation_listener(backup.stop)
    return backup


def _security_options(security: PeerSecurity) -> dict[str, Any]:
    if security.ssl is None:
        return {} if security.authenticator is None else {"security_protocol": "SASL_PLAINTEXT"}
    protocol = "SSL" if security.authenticator is None else "SASL_SSL"
    return {"security_protocol": protocol, "ssl_context": security.ssl}


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
