"""The checks that the APIs of one type of groups share: whether they are served, what a client may access.

Consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071) are served only if a feature
of the cluster is finalized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps

_DESCRIBE_TOPIC: Final = (AclOperation.DESCRIBE, AclResourceType.TOPIC)


@dataclass(frozen=True, slots=True)
class GroupAccess:
    """The access of clients to groups of one type, and to the topics of these groups.

    `slices` runs the checks of many topics. `is_enabled` returns whether the APIs of these groups are served.
    """

    authorizer: Authorizer
    slices: Slices
    is_enabled: Callable[[], bool]

    def check_enabled(self) -> None:
        """Raise UNSUPPORTED_VERSION if the APIs are not served."""
        if not self.is_enabled():
            code = ErrorCode.UNSUPPORTED_VERSION
            raise KafkaError(code, code.text)

    def error_of_group(self, context: RequestContext, group_id: str) -> ErrorCode:
        """Return why the client may not describe a group; NONE if it may."""
        if not self.is_enabled():
            return ErrorCode.UNSUPPORTED_VERSION
        describe, group_type = AclOperation.DESCRIBE, AclResourceType.GROUP
        if not self.authorizer.is_authorized(context, describe, group_type, group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    async def accessible_topics(
        self, context: RequestContext, operation: AclOperation, names: Iterable[str]
    ) -> Container[str]:
        """Return those of the topics on which the client may perform the operation."""
        return await self.slices.complete(self.accessible_names(context, operation, names))

    def accessible_names(
        self, context: RequestContext, operation: AclOperation, names: Iterable[str]
    ) -> Steps[Container[str]]:
        """Do the same as `accessible_topics` in steps."""
        return accessible_names(self.authorizer, context, (operation, AclResourceType.TOPIC), names)

    async def may_subscribe(self, context: RequestContext, names: Collection[str] | None) -> bool:
        """Return whether the client may describe all topics of its subscription; None: it is not sent."""
        if not names or not self.authorizer.is_enabled:
            return True
        return await self.slices.complete(self.may_describe_topics(context, names))

    def may_describe_topics(self, context: RequestContext, names: Iterable[str]) -> Steps[bool]:
        """Return whether the client may describe all topics, in steps."""
        if not self.authorizer.is_enabled:
            return True
        topics = dict.fromkeys(names)
        allowed = yield from accessible_names(self.authorizer, context, _DESCRIBE_TOPIC, topics)
        return all(topic in allowed for topic in topics)

    def describable_topics(self, context: RequestContext, names: Iterable[str]) -> Steps[Container[str]]:
        """Return those of the topics that the client may describe, in steps; the others are not logged."""
        return accessible_names(self.authorizer, context, _DESCRIBE_TOPIC, names, logs_denial=False)

    def operations(self, context: RequestContext, group_id: str) -> int:
        """Return the bit field of the operations on a group that are allowed to the client."""
        return self.authorizer.authorized_operations(context, AclResourceType.GROUP, group_id)
