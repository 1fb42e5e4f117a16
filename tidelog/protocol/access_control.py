"""The numbers that requests and records contain for access control entries.

Source: ResourceType, PatternType, AclOperation and AclPermissionType of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum


class AclResourceType(IntEnum):
    """The type of the resource that an entry applies to; ANY is for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the resource name of an entry is compared; MATCH and ANY are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation that an entry allows or denies; ANY is for filters."""

    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """Whether an entry allows or denies; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3
