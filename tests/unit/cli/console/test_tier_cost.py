"""What a topic costs in the object store."""

from __future__ import annotations

import pytest

from tidelog.cli.console.tier_cost import NO_PRICES, TierPrices


def test_the_cost_is_that_of_a_month_and_of_the_requests_that_wrote_the_objects() -> None:
    prices = TierPrices(gb_month=0.023, thousand_requests=0.005, currency="EUR")
    cost = prices.cost(objects=3_000, size_bytes=100 << 30)
    assert cost == {"month": pytest.approx(2.3), "requests": pytest.approx(0.015), "currency": "EUR"}


def test_without_prices_there_is_no_cost() -> None:
    assert NO_PRICES.cost(objects=3, size_bytes=1) is None
