"""The service `setup` of secured.yaml: creates the security of a cluster once, and formats its nodes.

    /etc/tidelog/node.properties            the settings of all nodes, with the password of their user
    /etc/tidelog/client/client.properties   the administrator, for Kafka's clients and for --command-config
    /etc/tidelog/client/ca.pem              the certificate of the development CA
    /etc/tidelog/client/metrics-token       the token for the metrics of all nodes

The administrator is a SCRAM user in the first metadata of the cluster. CLUSTER_ID is the id of the cluster.
The arguments are the hosts of nodes 1, 2, ..., whose data is in /data/1, /data/2, ...
"""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.properties import properties_text
from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.formatting import NewCluster, format_directories
from tidelog.broker.metadata.scram_arguments import parse_scram_argument
from tidelog.local_cluster.private_files import write_private
from tidelog.local_cluster.security import SECURITY_FILE, ClusterSecurity, Security
from tidelog.security.scram.credentials import random_text
from tidelog.storage.disk.os_files import OsFileSystem

USER: Final = "tidelog"
FOLDER: Final = Path("/etc/tidelog")
CLIENT_FOLDER: Final = FOLDER / "client"
DATA: Final = Path("/data")
ADMINISTRATOR: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"


def main() -> None:
    """Create the missing files; a second run changes nothing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,...")
    parser.add_argument("hosts", nargs="+", metavar="HOST")
    arguments = parser.parse_args()
    folders = [DATA / str(node_id) for node_id in range(1, len(arguments.hosts) + 1)]
    become_owner((FOLDER, *folders))
    secured = cluster_security(arguments.hosts)
    write_private(FOLDER / "node.properties", properties_text(node_settings(secured)))
    write_client_files(secured, arguments.bootstrap_servers)
    format_nodes(folders, secured.security.users[ADMINISTRATOR])


def become_owner(folders: Sequence[Path]) -> None:
    """Make the user of the image the owner of the folders of root, and continue as this user."""
    user = pwd.getpwnam(USER)
    for folder in folders:
        os.chown(folder, user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def cluster_security(hosts: Sequence[str]) -> ClusterSecurity:
    """Return the security in the folder; create it at the first run."""
    if (FOLDER / SECURITY_FILE).exists():
        return ClusterSecurity.open(FOLDER)
    users = {ADMINISTRATOR: random_text(SYSTEM_RANDOMNESS)}
    security = Security(mechanism=MECHANISM, users=users, super_users=[ADMINISTRATOR])
    return ClusterSecurity.create(security, FOLDER, hosts)


def node_settings(secured: ClusterSecurity) -> dict[str, str]:
    """Return the settings of all nodes: SCRAM for clients, PLAIN on the listeners of nodes."""
    settings = secured.node_settings()
    login_of_nodes = settings.pop("listener.name.secure.plain.sasl.jaas.config")
    return {
        **settings,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.sasl.enabled.mechanisms": MECHANISM,
        "listener.name.internal.plain.sasl.jaas.config": login_of_nodes,
    }


def write_client_files(secured: ClusterSecurity, bootstrap_servers: str) -> None:
    """Write the files for the host; the properties contain the certificate of the CA, not its path."""
    CLIENT_FOLDER.mkdir(mode=0o700, exist_ok=True)
    certificates = (FOLDER / "ca.pem").read_text()
    (CLIENT_FOLDER / "ca.pem").write_text(certificates)
    properties = secured.client_settings(bootstrap_servers).properties
    del properties["ssl.truststore.location"]
    properties["ssl.truststore.certificates"] = certificates
    write_private(CLIENT_FOLDER / "client.properties", properties_text(properties))
    token = CLIENT_FOLDER / "metrics-token"
    if not token.exists():
        write_private(token, random_text(SYSTEM_RANDOMNESS))


def format_nodes(folders: Sequence[Path], password: str) -> None:
    """Format the empty data directories, with the administrator as the first user."""
    credential = parse_scram_argument(
        f"{MECHANISM}=[name={ADMINISTRATOR},password={password}]", SYSTEM_RANDOMNESS
    )
    cluster = NewCluster(os.environ["CLUSTER_ID"], credentials=[credential])
    for node_id, folder in enumerate(folders, 1):
        lines = format_directories(
            OsFileSystem(),
            BrokerConfig({"node.id": str(node_id), "log.dirs": str(folder)}),
            cluster,
            ignore_formatted=True,
            randomness=SYSTEM_RANDOMNESS,
            now_ms=SYSTEM_CLOCK.wall_ms(),
        )
        for line in lines:
            print(line)


if __name__ == "__main__":
    main()
