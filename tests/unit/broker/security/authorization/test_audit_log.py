"""Lines of the audit log: each denied access, up to a limit for each principal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from tests.support.messages.access_control_entries import Client
from tests.support.security.authorizers import acl_authorizer
from tidelog.broker.security.authorization.audit_log import PRINCIPALS_MAX, AuditLog
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType


class Timers:
    """Functions that are called at the end of the period."""

    def __init__(self) -> None:
        self._functions: list[Callable[[], None]] = []

    def call_later(self, _: float, function: Callable[[], None]) -> None:
        self._functions.append(function)

    def expire(self) -> None:
        functions, self._functions = self._functions, []
        for function in functions:
            function()


@pytest.fixture(autouse=True)
def _enabled(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        yield


def deny(authorizer: StandardAuthorizer, count: int, principal: str = "User:alice") -> None:
    for number in range(count):
        authorizer.is_authorized(Client(principal), AclOperation.READ, AclResourceType.TOPIC, f"t{number}")


def test_a_client_that_is_denied_very_many_topics_writes_a_bounded_number_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    timers = Timers()
    authorizer = acl_authorizer(audit=AuditLog(timers.call_later, 100))
    deny(authorizer, 100_000)
    assert len(caplog.records) == 100
    timers.expire()
    assert caplog.messages[100] == (
        "Principal = User:alice is Denied 99900 more operations in the last 10 s, which are not logged"
    )
    deny(authorizer, 1)
    timers.expire()
    assert len(caplog.records) == 102


def test_each_principal_has_its_own_limit(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = acl_authorizer(audit=AuditLog(Timers().call_later, 2))
    deny(authorizer, 5)
    deny(authorizer, 5, "User:bob")
    assert [line.args[0] for line in caplog.records if isinstance(line.args, tuple)] == [
        *["User:alice"] * 2,
        *["User:bob"] * 2,
    ]


def test_very_many_principals_share_one_limit(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    authorizer = acl_authorizer(audit=AuditLog(timers.call_later, 1))
    for number in range(PRINCIPALS_MAX + 500):
        deny(authorizer, 1, f"User:{number}")
    assert len(caplog.records) == PRINCIPALS_MAX + 1
    timers.expire()
    assert caplog.messages[-1].startswith("Principal = (others) is Denied 499 more operations")


def test_without_a_limit_every_denied_access_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    deny(acl_authorizer(audit=AuditLog(Timers().call_later, -1)), 1_000)
    assert len(caplog.records) == 1_000
