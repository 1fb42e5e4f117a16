"""The common part of the Describe APIs of consumer, share and streams groups: checks around a description.

A group with a topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED, without members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Generic, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import (
    consumer_group_describe,
    share_group_describe,
    streams_group_describe,
)
from tidelog.protocol.steps import Steps, map_steps

DescribedT = TypeVar(
    "DescribedT",
    consumer_group_describe.DescribedGroup,
    share_group_describe.DescribedGroup,
    streams_group_describe.DescribedGroup,
)
"""The description of a group in the response of its API."""

_HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


@dataclass(frozen=True, slots=True)
class GroupDescriber(Generic[DescribedT]):
    """Describes the groups of one type that the client may describe.

    `create` is the type of a description. `describe` returns that of a group, with the error of the
    coordinator in it. `topics_of` returns the names of the topics in a description. `hidden_topic` is the
    text of the error if the client may not describe one of them.
    """

    access: GroupAccess
    create: type[DescribedT]
    describe: Callable[[str], Steps[DescribedT]]
    topics_of: Callable[[DescribedT], Iterable[str]]
    hidden_topic: str = _HIDDEN_TOPIC

    def describe_all(
        self, context: RequestContext, group_ids: Iterable[str], includes_operations: bool
    ) -> Steps[tuple[DescribedT, ...]]:
        """Return the description of every distinct group; errors are in the descriptions.

        `includes_operations`: whether to add the operations that are allowed to the client.
        """
        return (
            yield from map_steps(
                lambda group_id: self._describe(context, group_id, includes_operations),
                dict.fromkeys(group_ids),
            )
        )

    def _describe(
        self, context: RequestContext, group_id: str, includes_operations: bool
    ) -> Steps[DescribedT]:
        error = self.access.error_of_group(context, group_id)
        if error is not ErrorCode.NONE:
            return self.create(group_id=group_id, error_code=error)
        group = yield from self.describe(group_id)
        if group.error_code != ErrorCode.NONE:
            return group
        if not (yield from self.access.may_describe_topics(context, self.topics_of(group))):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return self.create(group_id=group_id, error_code=error, error_message=self.hidden_topic)
        if includes_operations:
            return replace(group, authorized_operations=self.access.operations(context, group_id))
        return group
