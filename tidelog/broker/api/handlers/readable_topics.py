"""The topics of OffsetCommit, TxnOffsetCommit and OffsetDelete that exist and that the client may read.

The coordinator gets only their partitions. All other partitions get an error from the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import Steps

ResultT = TypeVar("ResultT")

_READ_TOPIC: Final = (AclOperation.READ, AclResourceType.TOPIC)


class _Partition(Protocol):
    """A partition in a request."""

    @property
    def partition_index(self) -> int: ...


class _RequestedTopic(Protocol):
    """A topic in a request."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class _PartitionResult(_Partition, Protocol):
    """A partition in a response of the coordinator."""

    @property
    def error_code(self) -> int: ...


class _TopicResult(Protocol):
    """A topic in a response of the coordinator."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[_PartitionResult]: ...


class ReadableTopics:
    """The topics of one metadata image that a client may read; `names` are the names that it may read."""

    def __init__(self, image: MetadataImage, names: Container[str]) -> None:
        self._image = image
        self._names = names

    def partitions(self, name: str) -> Container[int]:
        """Return the indexes of the partitions of a topic; none if it is unknown or may not be read."""
        topic = self._image.topics_by_name.get(name)
        return () if topic is None or name not in self._names else topic.partitions

    def error(self, name: str, index: int, coordinator_error: ErrorCode = ErrorCode.NONE) -> ErrorCode:
        """Return the error of a partition for which the coordinator has no result of its own.

        `coordinator_error`: the error of the coordinator for the whole request, if any.
        """
        if name not in self._names:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if coordinator_error and index in self.partitions(name):
            return coordinator_error
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def results(
        self,
        requested: Iterable[_RequestedTopic],
        coordinator_results: Iterable[_TopicResult],
        create: Callable[[int, int], ResultT],
        coordinator_error: ErrorCode = ErrorCode.NONE,
    ) -> Steps[list[tuple[str, tuple[ResultT, ...]]]]:
        """Return the name of each requested topic with the results of its partitions.

        `create` returns the result of a partition with its index and its error code.
        """
        errors: dict[tuple[str, int], int] = {}
        for topic in coordinator_results:
            for partition in topic.partitions:
                errors[topic.name, partition.partition_index] = partition.error_code
                yield None
        topics = []
        for each in requested:
            results = []
            for one in each.partitions:
                name, index = each.name, one.partition_index
                error = errors.get((name, index))
                if error is None:
                    error = self.error(name, index, coordinator_error)
                results.append(create(index, error))
                yield None
            topics.append((each.name, tuple(results)))
            yield None
        return topics


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """The current metadata, and the checks of which topics a client may use.

    `image` returns the metadata; `slices` runs the steps of large requests.
    """

    image: Callable[[], MetadataImage]
    slices: Slices
    authorizer: Authorizer

    def readable(
        self, context: RequestContext, image: MetadataImage, names: Iterable[str]
    ) -> Steps[ReadableTopics]:
        """Return the topics of `image` that the client may read; `names` are all requested names."""
        readable = yield from accessible_names(self.authorizer, context, _READ_TOPIC, names)
        return ReadableTopics(image, readable)
