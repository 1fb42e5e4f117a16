"""Start the broker of this container; variables that are not set have defaults.

| not set | default |
|---|---|
| CLUSTER_ID | that of the apache/kafka image |
| KAFKA_NODE_ID, KAFKA_LOG_DIRS | 1, /var/lib/tidelog |
| KAFKA_LISTENERS | the names and ports of KAFKA_ADVERTISED_LISTENERS on all addresses |
| both | clients connect to localhost:9092, the port that `docker run -p 9092:9092` publishes |
| roles and quorum | one node, and therefore one replica of internal topics |
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
LISTENERS = "PLAINTEXT://:9092"
ADVERTISED = "PLAINTEXT://localhost:9092"
ONE_NODE = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
}
QUORUM = (
    "KAFKA_PROCESS_ROLES",
    "KAFKA_CONTROLLER_QUORUM_VOTERS",
    "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS",
)
MOUNTED_FILE = Path("/mnt/shared/config/server.properties")


def with_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the broker."""
    values = dict(environment)
    values.setdefault("CLUSTER_ID", CLUSTER_ID)
    values.setdefault("KAFKA_NODE_ID", "1")
    values.setdefault("KAFKA_LOG_DIRS", "/var/lib/tidelog")
    if "KAFKA_LISTENERS" not in values:
        if "KAFKA_ADVERTISED_LISTENERS" in values:
            listeners = re.sub(r"://(\[[^]]*\]|[^:,]*):", "://:", values["KAFKA_ADVERTISED_LISTENERS"])
            values["KAFKA_LISTENERS"] = listeners
        else:
            values["KAFKA_LISTENERS"], values["KAFKA_ADVERTISED_LISTENERS"] = LISTENERS, ADVERTISED
    if not any(name in values for name in QUORUM):
        values = {**ONE_NODE, **values}
    return values


def problem_of_directory(path: Path) -> str | None:
    """Return why the broker cannot write to its log directory, and what to do; None if it can."""
    existing = path
    while not existing.exists():
        existing = existing.parent
    if os.access(existing, os.W_OK | os.X_OK):
        return None
    owner = existing.stat().st_uid
    return (
        f"Cannot write to {path}: {existing} belongs to user {owner},"
        f" and the broker runs as user {os.geteuid()}."
        f" Use a named volume, or change the owner on the host (chown -R {os.geteuid()} DIRECTORY),"
        f" or run the container as the owner (--user {owner})."
    )


def main() -> None:
    """Replace this process by the broker, so that it gets the signals."""
    if MOUNTED_FILE.exists():
        # A file is complete, as in the apache/kafka image.
        environment, arguments = dict(os.environ), ["--config", str(MOUNTED_FILE)]
        environment.setdefault("CLUSTER_ID", CLUSTER_ID)
    else:
        environment, arguments = with_defaults(os.environ), []
        for directory in environment["KAFKA_LOG_DIRS"].split(","):
            problem = problem_of_directory(Path(directory.strip()))
            if problem is not None:
                sys.exit(problem)
    os.execve(
        sys.executable, [sys.executable, "-m", "tidelog.broker", *arguments, *sys.argv[1:]], environment
    )


if __name__ == "__main__":
    main()
