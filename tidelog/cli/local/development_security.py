"""The security of clusters for development: an administrator with a random password, and files for clients.

    client.properties       for Tidelog, and for Kafka's Java clients and tools
    librdkafka.properties   for librdkafka, for example `kcat -F`

Both files have mode 0600, because they contain the password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.base.properties import properties_text
from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.private_files import write_private
from tidelog.local_cluster.security import SECURITY_FILE, ClusterSecurity, Security
from tidelog.security.scram.credentials import random_text

ADMINISTRATOR: Final = "admin"
CLIENT_FILE: Final = "client.properties"
LIBRDKAFKA_FILE: Final = "librdkafka.properties"


def development_security() -> Security:
    """Return a description with SASL_SSL, SCRAM-SHA-512 and one super user with a new password."""
    password = random_text(SYSTEM_RANDOMNESS)
    return Security(users={ADMINISTRATOR: password}, super_users=[ADMINISTRATOR])


def open_or_create_security(folder: Path) -> ClusterSecurity:
    """Return the security in `folder`, which is created if it does not exist."""
    if (folder / SECURITY_FILE).exists():
        return ClusterSecurity.open(folder)
    return ClusterSecurity.create(development_security(), folder)


def write_client_files(folder: Path, client: ClientSettings) -> None:
    """Write the files for clients into `folder`."""
    write_private(folder / CLIENT_FILE, properties_text(client.properties))
    lines = [f"{key}={value}\n" for key, value in client.confluent_kafka.items()]
    write_private(folder / LIBRDKAFKA_FILE, "".join(lines))
