"""Checks the access to the configs of a resource.

The configs of brokers, their loggers and client metrics belong to the cluster.
Source: ConfigHelper and ControllerApis.authorizeAlterResource of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer, Requester
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.cluster.image import ConfigResource, ResourceType
from tidelog.protocol.access_control import AclOperation, AclResourceType


def require_config_access(
    authorizer: Authorizer, requester: Requester, operation: AclOperation, resource: ConfigResource
) -> None:
    """Raise KafkaError if the client may not perform the operation on the configs of `resource`."""
    resource_type, name = resource
    if resource_type == ResourceType.TOPIC:
        require_access(authorizer, requester, operation, AclResourceType.TOPIC, name)
    elif resource_type == ResourceType.GROUP:
        require_access(authorizer, requester, operation, AclResourceType.GROUP, name)
    else:
        require_access(authorizer, requester, operation, AclResourceType.CLUSTER, CLUSTER_NAME)
