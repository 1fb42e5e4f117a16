"""Quotas of addresses that are given as host names."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import eventually
from tidelog.base.sampled_rate import Windows
from tidelog.broker.network.connection_rates import CONNECTION_CREATION_RATE, ConnectionRates
from tidelog.broker.quotas.address_quotas import AddressQuotas
from tidelog.cluster.image import ClientQuotas

ADDRESSES = {"one.example": "10.0.0.1", "two.example": "10.0.0.2"}


def quotas(*names: str) -> ClientQuotas:
    return {(("ip", name),): {CONNECTION_CREATION_RATE: 1.0} for name in names}


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Yield a thread in which only the names of ADDRESSES can be resolved."""

    def resolve(host: str, *_: Any, **__: Any) -> list[Any]:
        if host not in ADDRESSES:
            raise socket.gaierror("Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ADDRESSES[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with ThreadPoolExecutor(1) as threads:
        yield threads


def limited_addresses(rates: ConnectionRates) -> set[str]:
    return set(rates._address_limits)


@on_both_loops
async def test_the_address_of_a_host_name_has_its_quota(executor: ThreadPoolExecutor) -> None:
    rates = ConnectionRates(Windows(2, 1_000))
    address_quotas = AddressQuotas(rates, executor)
    address_quotas.update(quotas("10.0.0.9", "one.example", "two.example"))
    assert limited_addresses(rates) == {"10.0.0.9"}
    await eventually(lambda: limited_addresses(rates) == {"10.0.0.1", "10.0.0.2", "10.0.0.9"})
    address_quotas.update(quotas("two.example"))
    assert limited_addresses(rates) == {"10.0.0.2"}
    await address_quotas.close()


@on_both_loops
async def test_a_host_name_without_an_address_is_reported_once_and_has_no_quota(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    rates = ConnectionRates(Windows(2, 1_000))
    address_quotas = AddressQuotas(rates, executor)
    with caplog.at_level(logging.WARNING):
        address_quotas.update(quotas("missing.example", "one.example"))
        await eventually(lambda: limited_addresses(rates) == {"10.0.0.1"})
        address_quotas.update(quotas("missing.example", "one.example", "10.0.0.9"))
        await asyncio.sleep(0)
    assert limited_addresses(rates) == {"10.0.0.1", "10.0.0.9"}
    assert [record.getMessage() for record in caplog.records] == [
        "Quota of ip missing.example has no effect: the host name has no address (Name or service not known)"
    ]
    await address_quotas.close()
