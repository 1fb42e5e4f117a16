"""The security of three nodes under faults: SASL_SSL on every listener, an authorizer, users with few rights.

Controllers authenticate with PLAIN; brokers, and the user of the load, with SCRAM. These credentials are
written before the first start, as by `tidelog storage format --add-scram`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.broker.metadata.formatting import write_bootstrap
from tidelog.broker.metadata.scram_arguments import parse_scram_argument
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.security import AclBinding
from tidelog.cluster.controller.bootstrap import feature_records
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.security import SECURE_LISTENER, Security
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.security.jaas import jaas_text
from tidelog.storage.disk.os_files import OsFileSystem

MECHANISM: Final = "SCRAM-SHA-512"
BROKER, LOAD = "broker", "load"
PASSWORDS: Final = {BROKER: "broker-secret", LOAD: "load-secret"}
SECURITY: Final = Security(mechanism=MECHANISM, users=PASSWORDS, super_users=[BROKER])
_LISTENER: Final = f"listener.name.{SECURE_LISTENER.lower()}"
_SETTINGS: Final[Mapping[str, str]] = {
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    f"{_LISTENER}.{MECHANISM.lower()}.sasl.jaas.config": jaas_text(
        MECHANISM, {"username": BROKER, "password": PASSWORDS[BROKER]}
    ),
    # Sessions of clients and of nodes end several times in a run.
    "connections.max.reauth.ms": "15000",
}
_PERMISSIONS: Final = (
    (AclResourceType.TOPIC, "*", (AclOperation.READ, AclOperation.WRITE)),
    (AclResourceType.GROUP, "*", (AclOperation.READ,)),
    (AclResourceType.TRANSACTIONAL_ID, "*", (AclOperation.WRITE,)),
)


def create_cluster(
    folder: Path, count: int, settings: Mapping[str, str], *, is_secured: bool, hosts: Sequence[str] = ()
) -> LocalCluster:
    """Create the nodes of a run; start no process."""
    if not is_secured:
        return LocalCluster.create(folder, count, hosts=hosts, settings=settings)
    cluster = LocalCluster.create(
        folder, count, hosts=hosts, settings={**_SETTINGS, **settings}, security=SECURITY
    )
    _write_credentials(cluster)
    return cluster


async def allow_load(cluster: LocalCluster) -> ClientSettings:
    """Give the user of the load exactly the permissions that it needs; return the settings of its clients."""
    if cluster.security is None:
        return ClientSettings(bootstrap_servers=cluster.bootstrap_servers)
    entries = [
        AclBinding(kind, name, f"User:{LOAD}", operation)
        for kind, name, operations in _PERMISSIONS
        for operation in operations
    ]
    async with Admin(**cluster.node_client_settings().tidelog) as admin:
        for result in (await admin.create_acls(entries)).values():
            if result is not None:
                raise result
    return cluster.security.client_settings(cluster.bootstrap_servers, LOAD)


def _write_credentials(cluster: LocalCluster) -> None:
    """Write the users into the directories of nodes that have not started yet."""
    arguments = (f"{MECHANISM}=[name={user},password={password}]" for user, password in PASSWORDS.items())
    credentials = [parse_scram_argument(each, SYSTEM_RANDOMNESS) for each in arguments]
    for node_id in cluster.nodes:
        for folder in cluster.layout.data_folders(node_id):
            write_bootstrap(OsFileSystem(), str(folder), (*feature_records(), *credentials), 0)
