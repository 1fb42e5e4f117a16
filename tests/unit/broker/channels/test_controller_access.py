"""Where the active controller is looked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.metadata import CLUSTER_ID
from tidelog.base.clock import SystemClock
from tidelog.broker.channels.controller_access import ControllerAccess, voter_addresses
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.metadata_records.register_controller_record import (
    ControllerEndpoint,
    RegisterControllerRecord,
)

CONFIG = BrokerConfig(
    {
        "node.id": "1",
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER,OTHER",
        "controller.quorum.voters": "2@voter2:9093,3@[::1]:9094",
    }
)
REGISTRATION = RegisterControllerRecord(
    controller_id=2, end_points=(ControllerEndpoint(name="CONTROLLER", host="registered2", port=1),)
)


def access(
    leader: int | None, *, registered: bool = False, endpoints: Iterable[Endpoint] = ()
) -> ControllerAccess:
    image = MetadataImage(cluster_id=CLUSTER_ID)
    if registered:
        image = replace(image, controllers={2: REGISTRATION})
    store: Any = SimpleNamespace(leader=leader, image=image)
    return ControllerAccess(CONFIG, store, SystemClock(), local=None, endpoints=lambda: endpoints)


@pytest.mark.parametrize("leader", [None, 1, 9])
async def test_a_controller_that_is_not_known_or_this_node_has_no_address(leader: int | None) -> None:
    assert access(leader).address() is None


async def test_what_the_quorum_tells_counts_most_then_the_registration_then_the_settings() -> None:
    told = [Endpoint("OTHER", "told-other", 7), Endpoint("controller", "told2", 8)]
    assert access(2, registered=True, endpoints=told).address() == BrokerAddress(2, "told2", 8)
    assert access(2, endpoints=told[:1]).address() == BrokerAddress(2, "told-other", 7)
    strange = [Endpoint("UNKNOWN", "nowhere", 7)]
    assert access(2, registered=True, endpoints=strange).address() == BrokerAddress(2, "registered2", 1)
    assert access(2).address() == BrokerAddress(2, "voter2", 9093)


def test_voters_are_read_from_the_settings() -> None:
    assert voter_addresses(CONFIG) == {
        2: BrokerAddress(2, "voter2", 9093),
        3: BrokerAddress(3, "::1", 9094),
    }
