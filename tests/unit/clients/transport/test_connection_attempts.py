from __future__ import annotations

import logging

import pytest

from tests.support.waiting import eventually, remains
from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport import connection_attempts
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connection_attempts import ConnectionAttempts

BROKER = BrokerAddress(7, "tides.example", 9092)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> ConnectionAttempts:
    monkeypatch.setattr(connection_attempts, "REPORT_AFTER_MS", 40)
    monkeypatch.setattr(connection_attempts, "UNUSED_AFTER_MS", 10)
    caplog.set_level(logging.WARNING, "tidelog.clients.transport.network")
    return ConnectionAttempts(ExponentialBackoff(1, 1), SystemEnvironment())


async def test_a_broker_that_never_responds_is_reported_while_the_attempt_continues(
    attempts: ConnectionAttempts, caplog: pytest.LogCaptureFixture
) -> None:
    attempts.begin(BROKER)
    await eventually(lambda: "broker 7 at tides.example:9092 cannot be reached: no response" in caplog.text)


async def test_an_outage_is_reported_once_with_its_last_error_and_then_its_end(
    attempts: ConnectionAttempts, caplog: pytest.LogCaptureFixture
) -> None:
    for error in ("refused", "refused again"):
        attempts.begin(BROKER)
        attempts.fail(7, error)
    attempts.begin(BROKER)
    await eventually(lambda: "refused again; the broker advertises this address" in caplog.text)
    attempts.fail(7, "refused")
    attempts.begin(BROKER)
    await remains(lambda: len(caplog.records) == 1, 0.1)
    attempts.succeed(7)
    assert caplog.records[-1].getMessage() == "broker 7 can be reached again"
    assert attempts.last_error(7) is None


async def test_a_broker_that_the_client_does_not_need_is_not_reported(
    attempts: ConnectionAttempts, caplog: pytest.LogCaptureFixture
) -> None:
    attempts.begin(BROKER)
    attempts.fail(7, "refused")
    await remains(lambda: not caplog.records, 0.1)
    assert attempts.last_error(7) == "refused"


@pytest.mark.parametrize("end", ["connected", "removed", "closed"])
async def test_an_outage_that_has_ended_in_time_is_not_reported(
    attempts: ConnectionAttempts, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    attempts.begin(BROKER)
    match end:
        case "connected":
            attempts.succeed(7)
        case "removed":
            attempts.retain({1, 2})
        case _:
            attempts.close()
    await remains(lambda: not caplog.records, 0.1)
