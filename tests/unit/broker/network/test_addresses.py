"""Normalization of addresses for comparison."""

from __future__ import annotations

import pytest

from tidelog.broker.network.addresses import comparable_host, normalized_address


@pytest.mark.parametrize("text", ["10.0.0.7", "::ffff:10.0.0.7", "0:0:0:0:0:ffff:a00:7"])
def test_all_forms_of_an_ipv4_address_are_equal(text: str) -> None:
    assert normalized_address(text) == comparable_host(text) == "10.0.0.7"


def test_all_forms_of_an_ipv6_address_are_equal() -> None:
    assert normalized_address("0:0:0:0:0:0:0:1") == normalized_address("::1") == "::1"


def test_a_host_name_and_a_wildcard_are_compared_as_text() -> None:
    assert [comparable_host(text) for text in ("build", "*", "")] == ["build", "*", ""]


def test_the_zone_of_a_link_local_address_is_not_compared() -> None:
    assert comparable_host("fe80::1%eth0") == "fe80::1"


def test_a_host_name_is_not_normalized() -> None:
    with pytest.raises(ValueError, match="build"):
        normalized_address("build")
