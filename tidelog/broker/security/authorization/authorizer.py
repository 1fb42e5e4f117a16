"""The port to the authorizer, and the authorizer that allows everything.

Source: Authorizer and AuthHelper of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.security.authorization.supported_operations import supported_bits
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.framing import RequestHeader


class Requester(Protocol):
    """The client of a request; implemented by Request and RequestContext."""

    @property
    def header(self) -> RequestHeader:
        """The header of the request."""

    @property
    def principal(self) -> str:
        """The authenticated principal, as type:name."""

    @property
    def client_address(self) -> str:
        """The address of the client, without the port."""


class Authorizer(Protocol):
    """Decides whether a client may perform an operation on a resource.

    `is_enabled` is False if everything is allowed; produce and fetch requests need no checks then.
    `logs_denial`: a denied access is logged. It is False where the decision only selects what a client sees.
    """

    is_enabled: bool

    def is_authorized(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        """Return whether the client may perform `operation` on the resource `name`."""

    def is_authorized_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the client may perform `operation` on at least one resource of a type."""

    def authorized_operations(self, requester: Requester, resource_type: AclResourceType, name: str) -> int:
        """Return all operations that the client may perform on a resource, as a bit field (KIP-430)."""


class AllowEverything:
    """The authorizer of a node without authorizer.class.name."""

    is_enabled = False

    def is_authorized(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        """Return True."""
        return True

    def is_authorized_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return True."""
        return True

    def authorized_operations(self, requester: Requester, resource_type: AclResourceType, name: str) -> int:
        """Return all operations of the type of resource."""
        return supported_bits(resource_type)
