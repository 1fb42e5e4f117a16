from __future__ import annotations

import logging

import pytest

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.observability.start_banner import keys_without_effect, start_banner

SETTINGS = {"node.id": "7", "listeners": "PLAINTEXT://host:9092", "log.dirs": "/data/a,/data/b"}


def test_the_banner_describes_the_node() -> None:
    assert start_banner(BrokerConfig(SETTINGS), "1.2.3") == (
        "Tidelog 1.2.3: node 7, broker and controller; log directories /data/a, /data/b;"
        " listeners PLAINTEXT://host:9092; tiered storage disabled"
    )


def test_keys_that_have_no_effect_are_those_that_differ_from_the_default() -> None:
    own = {
        "num.io.threads": "16",
        "num.network.threads": "3",
        "num.partitions": "4",
        "zookeeper.connect": "x",
    }
    assert keys_without_effect(BrokerConfig({**SETTINGS, **own})) == ["num.io.threads"]


def test_keys_of_the_authorizer_are_known(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BrokerConfig.load("node.id=1\nallow.everyone.if.no.acl.found=true\nsuper.users=User:admin")
    assert not caplog.records
