"""Commands with brokers whose advertised address is wrong, and with topics that do not exist."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import Result

from tests.support.cli import tidelog, tidelog_output
from tests.support.waiting import TIMEOUT_S
from tidelog.testing.embedded import EmbeddedCluster

WRONG = "nosuch.invalid:9092"


@pytest.fixture(scope="module")
def misconfigured() -> Iterator[str]:
    with EmbeddedCluster(config={"advertised.listeners": f"PLAINTEXT://{WRONG}"}) as cluster:
        # The first record creates the topic, and cannot be written.
        assert produce_with_short_timeouts(cluster.bootstrap_servers).exit_code == 1
        yield cluster.bootstrap_servers


def produce_with_short_timeouts(bootstrap: str) -> Result:
    options = ("-X", "delivery.timeout.ms=400", "-X", "request.timeout.ms=300", "-X", "linger.ms=0")
    return tidelog("produce", "tides", *options, stdin="high\n", bootstrap=bootstrap)


def start(*arguments: str, bootstrap: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *arguments],
        env={**os.environ, "TIDELOG_BOOTSTRAP": bootstrap},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_produce_names_the_address_that_cannot_be_resolved_before_it_ends(misconfigured: str) -> None:
    with start("produce", "tides", bootstrap=misconfigured) as command:
        assert command.stdin and command.stderr
        command.stdin.write("high\n")
        command.stdin.flush()
        line = command.stderr.readline()
        assert command.poll() is None
        command.kill()
    assert f"broker 1 at {WRONG} cannot be reached: the host name cannot be resolved" in line, line


def test_consume_names_the_address_that_cannot_be_resolved(misconfigured: str) -> None:
    result = tidelog("consume", "tides", bootstrap=misconfigured)
    assert result.exit_code == 1
    assert f"broker 1 at {WRONG} cannot be reached" in result.stderr


def test_an_expired_record_carries_the_error_of_the_connection(misconfigured: str) -> None:
    result = produce_with_short_timeouts(misconfigured)
    assert result.exit_code == 1
    assert f"the last error: broker 1 at {WRONG} cannot be reached" in result.stderr, result.stderr
    assert "1 of 1 record was not written: 1 record for tides-0 expired" in result.stderr, result.stderr


def test_consume_reports_that_the_topic_does_not_exist_and_waits_for_it() -> None:
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        with start("consume", "tides", "-n", "1", bootstrap=servers) as command:
            assert command.stderr
            assert command.stderr.readline() == (
                "tidelog: topic 'tides' does not exist; waiting until it is created\n"
            )
            tidelog_output("produce", "tides", stdin="high\n", bootstrap=servers)
            output, errors = command.communicate(timeout=TIMEOUT_S)
    assert (output, errors, command.returncode) == ("high\n", "", 0)
