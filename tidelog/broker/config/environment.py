"""Reads configs from environment variables, which have the names of the apache/kafka image.

`KAFKA_NODE_ID` is `node.id`: the prefix is removed, letters become lower case, `___` becomes `-`, `__`
becomes `_` and `_` becomes `.`. Variables that configure Java or its logging are not configs.

Source: kafka.docker.KafkaDockerWrapper of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "KAFKA_"
CLUSTER_ID_VARIABLE: Final = "CLUSTER_ID"

_NOT_CONFIGS: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)


def config_key(variable: str) -> str | None:
    """Return the config key that `variable` sets; None if it does not set one."""
    if not variable.startswith(PREFIX) or variable in _NOT_CONFIGS or variable == PREFIX:
        return None
    dotted_name = variable[len(PREFIX) :].lower().replace("_", ".")
    return dotted_name.replace("...", "-").replace("..", "_")


def configs_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the config values of the variables in `environment`, by key."""
    keys = ((config_key(variable), value) for variable, value in environment.items())
    return {key: value for key, value in keys if key is not None}
