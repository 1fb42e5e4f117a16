"""Creates the internal topics of streams groups on behalf of their members.

The heartbeat of a member does not wait: a later one finds the topics. While the error of a topic is
kept, its creation is not repeated, and heartbeats report the error.

Bounds: the errors of `ERRORS_MAX` topics; the oldest are removed for new ones. Source:
AutoTopicCreationManager.createStreamsInternalTopics of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from tidelog.base.clock import Clock
from tidelog.base.log_limit import LogLimit
from tidelog.broker.metadata.topic_creation import ErrorReport
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.messages.create_topics import CreatableTopic

logger = logging.getLogger(__name__)

ERRORS_MAX: Final = 1000


class TopicCreator(Protocol):
    """Creates topics in the background; implemented by `TopicCreation`."""

    def create(
        self, topics: Iterable[CreatableTopic], client: RequestContext | None, report: ErrorReport
    ) -> None:
        """Begin to create topics; `report` gets the errors."""


class _Error(NamedTuple):
    """Why a topic could not be created, and until when that is kept, in monotonic time."""

    expiry_ms: int
    text: str


class InternalTopicCreation:
    """Creates topics in the background, and keeps errors."""

    def __init__(self, creation: TopicCreator, clock: Clock) -> None:
        self._creation = creation
        self._clock = clock
        self._log_limit = LogLimit(clock.monotonic_ms)
        self._errors: dict[str, _Error] = {}
        """The oldest ones first."""

    def request(
        self, topics: Iterable[CreatableTopic], client: RequestContext, retry_after_ms: int
    ) -> Mapping[str, str]:
        """Begin to create topics for `client`. Return the errors of earlier attempts by topic.

        A topic that cannot be created is not requested again for `retry_after_ms`.
        """
        now_ms = self._clock.monotonic_ms()
        errors: dict[str, str] = {}
        to_create = []
        for topic in topics:
            error = self._errors.get(topic.name)
            if error is not None and error.expiry_ms > now_ms:
                errors[topic.name] = error.text
            else:
                to_create.append(topic)
        self._creation.create(to_create, client, partial(self._remember, retry_after_ms))
        return errors

    def _remember(self, retry_after_ms: int, name: str, text: str) -> None:
        self._log_limit.log(
            logger, logging.WARNING, "Cannot create internal topic %s of a streams group: %s", name, text
        )
        # One response can have 1,000 errors, so that each must take constant time.
        self._errors.pop(name, None)
        self._errors[name] = _Error(self._clock.monotonic_ms() + retry_after_ms, text)
        if len(self._errors) > ERRORS_MAX:
            del self._errors[next(iter(self._errors))]
