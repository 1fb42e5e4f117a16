"""Which metrics a client pushes because of the subscriptions in the metadata."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from tests.support.metadata.images import image_after_records
from tidelog.broker.telemetry.subscriptions import MetricsSubscriptions, RequestedMetrics
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.metadata_records.config_record import ConfigRecord

JAVA = {"client_software_name": "apache-kafka-java", "client_id": "orders-1"}
INSTANCE = UUID("0e6b3b1d-9ea4-4d35-a4b7-55bd8e4d1a33")


class SubscriptionsFixture:
    """Subscriptions that follow the configs of an image."""

    def __init__(self) -> None:
        self.subscriptions = MetricsSubscriptions()
        self._image = MetadataImage(cluster_id="c")

    def set_configs(self, name: str, **configs: str | None) -> None:
        """Set or, with None, delete configs of a subscription."""
        records = [
            ConfigRecord(
                resource_type=ResourceType.CLIENT_METRICS,
                resource_name=name,
                name=key.replace("_", "."),
                value=value,
            )
            for key, value in configs.items()
        ]
        self._image = image_after_records(records, self._image)
        self.subscriptions.update(self._image, [(ResourceType.CLIENT_METRICS, name)])


def test_a_client_without_subscription_pushes_nothing_and_asks_every_five_minutes() -> None:
    fixture = SubscriptionsFixture()
    assert fixture.subscriptions.requested_of(JAVA) == RequestedMetrics(metrics=(), push_interval_ms=300_000)


def test_the_metrics_of_all_matching_subscriptions_are_pushed_at_the_shortest_interval() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("java", metrics="b.,a.", interval_ms="5000", match="client_software_name=apache.*")
    fixture.set_configs("all", metrics="a.,c.", interval_ms="9000")
    fixture.set_configs("others", metrics="d.", interval_ms="100", match="client_id=billing.*")
    requested = fixture.subscriptions.requested_of(JAVA)
    assert requested == RequestedMetrics(metrics=("a.", "b.", "c."), push_interval_ms=5_000)


def test_all_conditions_of_a_subscription_must_match_the_whole_attribute() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("s", metrics="a.", match="client_id=orders,client_software_name=apache.*")
    assert fixture.subscriptions.requested_of(JAVA).metrics == ()
    assert fixture.subscriptions.requested_of(JAVA | {"client_id": "orders"}).metrics == ("a.",)


def test_a_client_without_a_matched_attribute_does_not_match() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("s", metrics="a.", match="client_source_port=.*")
    assert fixture.subscriptions.requested_of(JAVA).metrics == ()


def test_all_metrics_replace_the_other_prefixes() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("some", metrics="a.")
    fixture.set_configs("all", metrics="*")
    assert fixture.subscriptions.requested_of(JAVA).metrics == ("*",)


def test_a_deleted_subscription_is_not_applied() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("s", metrics="a.")
    version = fixture.subscriptions.version
    fixture.set_configs("s", metrics=None)
    assert fixture.subscriptions.requested_of(JAVA).metrics == ()
    assert fixture.subscriptions.version > version


def test_a_pattern_of_a_kafka_broker_that_re2_does_not_have_is_logged_and_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = SubscriptionsFixture()
    with caplog.at_level(logging.WARNING):
        fixture.set_configs("s", metrics="a.", match="client_id=(?=a)b")
    assert fixture.subscriptions.requested_of(JAVA).metrics == ()
    assert "Client metrics subscription s is not used" in caplog.text


def test_the_id_of_a_subscription_depends_on_metrics_interval_and_client() -> None:
    requested = RequestedMetrics(metrics=("*",), push_interval_ms=1_000)
    same = RequestedMetrics(metrics=("*",), push_interval_ms=1_000)
    others = (
        RequestedMetrics(metrics=("a.",), push_interval_ms=1_000),
        RequestedMetrics(metrics=("*",), push_interval_ms=2_000),
    )
    assert requested.subscription_id(INSTANCE) == same.subscription_id(INSTANCE)
    assert -(2**31) <= requested.subscription_id(INSTANCE) < 2**31
    ids = {each.subscription_id(INSTANCE) for each in (requested, *others)}
    assert len(ids | {requested.subscription_id(UUID(int=500))}) == 4


def test_an_interval_above_the_default_is_not_used() -> None:
    fixture = SubscriptionsFixture()
    fixture.set_configs("s", metrics="a.", interval_ms="3600000")
    assert fixture.subscriptions.requested_of(JAVA).push_interval_ms == 300_000
