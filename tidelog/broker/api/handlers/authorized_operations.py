"""The operations that a client may perform on a resource, as the bit field of responses (KIP-430).

Without an authorizer, every client may perform all operations of the type of resource.

Source: AclEntry.supportedOperations of Apache Kafka 4.3; bit n is operation n.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

NOT_ASKED: Final = -(2**31)
"""The value of the field if the client did not request it."""


class Operation(IntEnum):
    """An operation on a resource; the numbers are those of access control entries."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
