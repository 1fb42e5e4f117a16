"""The sources of the active controller's address, and their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.metadata.images import CLUSTER_ID
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.controller_address import ControllerAddress, voter_addresses
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


def address(
    leader: int | None, *, registered: bool = False, endpoints: Iterable[Endpoint] = ()
) -> BrokerAddress | None:
    image = MetadataImage(cluster_id=CLUSTER_ID)
    if registered:
        image = replace(image, controllers={2: REGISTRATION})
    store: Any = SimpleNamespace(leader=leader, image=image)
    return ControllerAddress(CONFIG, store, lambda: endpoints).find()


@pytest.mark.parametrize("leader", [None, 1, 9])
def test_an_unknown_controller_or_this_node_has_no_address(leader: int | None) -> None:
    assert address(leader) is None


def test_endpoints_of_the_quorum_precede_the_registration_and_the_configuration() -> None:
    reported = [Endpoint("OTHER", "reported-other", 7), Endpoint("controller", "reported2", 8)]
    assert address(2, registered=True, endpoints=reported) == BrokerAddress(2, "reported2", 8)
    assert address(2, endpoints=reported[:1]) == BrokerAddress(2, "reported-other", 7)
    strange = [Endpoint("UNKNOWN", "nowhere", 7)]
    assert address(2, registered=True, endpoints=strange) == BrokerAddress(2, "registered2", 1)
    assert address(2) == BrokerAddress(2, "voter2", 9093)


def test_voters_are_read_from_the_configuration() -> None:
    assert voter_addresses(CONFIG) == {
        2: BrokerAddress(2, "voter2", 9093),
        3: BrokerAddress(3, "::1", 9094),
    }
