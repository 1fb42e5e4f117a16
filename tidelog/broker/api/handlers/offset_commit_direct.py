"""OffsetCommit of few partitions, which exist and which the client may read: nearly every commit.

Such a request is served from its bytes, without messages, and all of its partitions get the same result: that
of the append. `offset_commit` serves all other requests, among them those that the coordinator refuses, so
that every error has one origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.groups.services.offset_commits import OffsetCommitService
from tidelog.broker.network.request import Request
from tidelog.cluster.image import MetadataImage, TopicImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.views.offset_commit_view import (
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_WITH_TOPIC_ID,
    CommitTopic,
    encode_offset_commit_response,
    read_offset_commit_request,
)

BODY_BYTES_MAX: Final = 4 * 1024
"""The size of the largest request that is served at once: its partitions, at most 230, take about 0.5 ms."""


class DirectOffsetCommit:
    """Commits the offsets of small requests."""

    def __init__(self, commits: OffsetCommitService, topics: TopicAccess) -> None:
        self._commits = commits
        self._topics = topics

    def handle(self, request: Request) -> bool:
        """Commit, and respond when the offsets are committed; return False if nothing has been done."""
        header, version = request.header, request.header.api_version
        if version < FIRST_FLEXIBLE_VERSION or len(request.body) > BODY_BYTES_MAX:
            return False
        view = read_offset_commit_request(request.body, version)
        if view is None:
            return False
        requested = view.topics
        topics = _existing_topics(self._topics.image(), requested, version)
        if topics is None or not self._is_authorized(request, view.group_id, topics):
            return False

        def on_completed(error: ErrorCode) -> None:
            if request.is_open:
                throttle_time_ms = 0 if request.quota is None else request.quota.throttle(request)
                request.respond(
                    encode_offset_commit_response(header.correlation_id, requested, error, throttle_time_ms)
                )

        try:
            is_committing = self._commits.commit_view(view, topics, version, on_completed)
        except KafkaError:
            return False
        if is_committing and request.is_open:
            request.release_frame()
            request.begin_remote_time()
            request.begin_waiting(_on_abandoned)
        return is_committing

    def _is_authorized(
        self, request: Request, group_id: str, topics: Sequence[tuple[TopicImage, CommitTopic]]
    ) -> bool:
        """Return whether the client may read the group and all topics; `offset_commit` logs denials."""
        authorizer, read = self._topics.authorizer, AclOperation.READ
        if not authorizer.is_enabled:
            return True
        return authorizer.is_authorized(
            request, read, AclResourceType.GROUP, group_id, logs_denial=False
        ) and all(
            authorizer.is_authorized(request, read, AclResourceType.TOPIC, topic.name, logs_denial=False)
            for topic, _ in topics
        )


def _existing_topics(
    image: MetadataImage, requested: Sequence[CommitTopic], version: int
) -> list[tuple[TopicImage, CommitTopic]] | None:
    """Return the topics of the metadata with what is requested of them; None unless all partitions exist."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    topics = []
    for each in requested:
        topic = image.topics_by_id.get(each.topic_id) if by_id else image.topics_by_name.get(each.name)
        if topic is None or not each.partitions:
            return None
        known = topic.partitions
        for partition in each.partitions:
            if partition[0] not in known:
                return None
        topics.append((topic, each))
    return topics or None


def _on_abandoned(_: Request) -> None:
    """Do nothing: the offsets are committed although the client has closed its side."""
