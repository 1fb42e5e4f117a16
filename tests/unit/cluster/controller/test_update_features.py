"""Feature levels are raised and lowered within the range that every node supports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    broker_registration_record,
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.brokers import supported_features
from tidelog.cluster.controller.controllers import register_controller
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.update_features import UpgradeType, update_features
from tidelog.cluster.features import METADATA_VERSION, SUPPORTED_FEATURES
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.controller_registration import ControllerRegistrationRequest, Listener
from tidelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.register_broker_record import BrokerFeature, RegisterBrokerRecord
from tidelog.protocol.metadata_records.register_controller_record import (
    ControllerFeature,
    RegisterControllerRecord,
)
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1, static_configs={"min.insync.replicas": "2"})


def broker_with(broker: int, **ranges: tuple[int, int]) -> RegisterBrokerRecord:
    supported = {feature.name: feature for feature in supported_features()}
    features = [
        BrokerFeature(
            name=name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for name, each in supported.items()
        if name.replace(".", "_") not in ranges
    ]
    features += [
        BrokerFeature(name=name.replace("_", "."), min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    ]
    return replace(broker_registration_record(broker), features=tuple(features))


IMAGE = image_after_records([broker_with(1)], image_with_brokers(features=True))


def apply_updates(
    image: MetadataImage,
    levels: dict[str, int],
    kind: int = UpgradeType.UPGRADE,
    *,
    validate_only: bool = False,
) -> MetadataImage:
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    )
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    return image_after_result(image, update_features(image, SETTINGS, request))


def refusal(image: MetadataImage, name: str, level: int, kind: int = UpgradeType.UPGRADE) -> str:
    with pytest.raises(KafkaError) as error:
        apply_updates(image, {name: level}, kind)
    assert error.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return str(error.value)


def test_a_level_is_lowered_as_a_safe_downgrade_and_raised_again() -> None:
    image = apply_updates(IMAGE, {"transaction.version": 0}, UpgradeType.SAFE_DOWNGRADE)
    assert "transaction.version" not in image.features
    assert apply_updates(image, {"transaction.version": 1}).features["transaction.version"] == 1


def test_an_upgrade_or_downgrade_must_match_its_type() -> None:
    assert "only a downgrade" in refusal(IMAGE, "transaction.version", 0)
    lower = apply_updates(IMAGE, {"transaction.version": 0}, UpgradeType.UNSAFE_DOWNGRADE)
    assert "a downgrade cannot" in refusal(lower, "transaction.version", 1, UpgradeType.SAFE_DOWNGRADE)
    assert "no upgrade type" in refusal(IMAGE, "transaction.version", 1, 0)
    assert "at least 0" in refusal(IMAGE, "transaction.version", -1)


def test_version_0_has_allow_downgrade_instead_of_a_type() -> None:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=0, allow_downgrade=True)
    result = update_features(IMAGE, SETTINGS, UpdateFeaturesRequest(feature_updates=(update,)))
    assert "transaction.version" not in image_after_result(IMAGE, result).features


def test_validate_only_changes_nothing_but_refuses() -> None:
    assert apply_updates(IMAGE, {"transaction.version": 0}, 2, validate_only=True).features == IMAGE.features
    with pytest.raises(KafkaError):
        apply_updates(IMAGE, {"transaction.version": 9}, validate_only=True)


def test_one_invalid_feature_refuses_all_changes() -> None:
    with pytest.raises(KafkaError):
        apply_updates(
            IMAGE,
            {"eligible.leader.replicas.version": 0, "transaction.version": 9},
            UpgradeType.SAFE_DOWNGRADE,
        )


def test_a_level_that_a_node_does_not_support_is_refused() -> None:
    assert "does not know" in refusal(IMAGE, "moon.version", 1)
    assert "this controller supports 0 to 2" in refusal(IMAGE, "transaction.version", 3)
    lower = apply_updates(IMAGE, {"transaction.version": 0}, UpgradeType.SAFE_DOWNGRADE)
    old = broker_with(2, transaction_version=(0, 0))
    assert "broker 2 supports 0 to 0" in refusal(image_after_records([old], lower), "transaction.version", 1)
    controller = RegisterControllerRecord(
        controller_id=3,
        features=(
            ControllerFeature(name="transaction.version", min_supported_version=0, max_supported_version=0),
        ),
    )
    assert "controller 3 supports 0 to 0" in refusal(
        image_after_records([controller], lower), "transaction.version", 1
    )


@pytest.mark.parametrize("feature", ["share.version", "streams.version"])
def test_the_levels_of_group_protocols_can_be_lowered_and_raised(feature: str) -> None:
    lower = apply_updates(IMAGE, {feature: 0}, UpgradeType.SAFE_DOWNGRADE)
    assert feature not in lower.features
    assert apply_updates(lower, {feature: 1}).features[feature] == 1


def test_the_metadata_version_is_not_lowered_across_record_changes() -> None:
    older = image_after_records([FeatureLevelRecord(name=METADATA_VERSION, feature_level=28)], IMAGE)
    assert apply_updates(older, {METADATA_VERSION: 30}).features[METADATA_VERSION] == 30
    assert apply_updates(older, {METADATA_VERSION: 25}, 2).features[METADATA_VERSION] == 25
    assert "metadata could be lost" in refusal(older, METADATA_VERSION, 22, UpgradeType.SAFE_DOWNGRADE)
    assert "unsafe" in refusal(older, METADATA_VERSION, 22, UpgradeType.UNSAFE_DOWNGRADE)
    assert "metadata could be lost" in refusal(IMAGE, METADATA_VERSION, 29, UpgradeType.SAFE_DOWNGRADE)
    assert "7 to 30" in refusal(IMAGE, METADATA_VERSION, 31)


def test_kraft_version_is_raised_by_the_quorum_and_never_lowered() -> None:
    def change_level(level: int, now: int, kind: int = UpgradeType.UPGRADE) -> ControllerResult[bool]:
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=(update,))
        return update_features(IMAGE, SETTINGS, request, now)

    assert change_level(1, 0) == ControllerResult((NoOpRecord(),), True)
    for level in (0, 1):
        assert change_level(level, level) == ControllerResult((), False)
    assert change_level(1, 1, UpgradeType.SAFE_DOWNGRADE) == ControllerResult((), False)
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        with pytest.raises(KafkaError, match="cannot become static") as error:
            change_level(0, 1, kind)
        assert error.value.code is ErrorCode.INVALID_UPDATE_VERSION
    with pytest.raises(KafkaError, match="0 to 1"):
        change_level(2, 1)


def test_eligible_leader_replicas_need_a_min_insync_replicas_config_and_a_new_metadata_version() -> None:
    name = "eligible.leader.replicas.version"
    without = apply_updates(IMAGE, {name: 0}, UpgradeType.SAFE_DOWNGRADE)
    without = image_after_records(
        [
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
            ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="1"),
        ],
        without,
    )
    image = apply_updates(without, {name: 1})
    assert image.cluster_configs() == {"min.insync.replicas": "2"}
    assert image.broker_configs(1) == {}
    old = image_after_records([FeatureLevelRecord(name=METADATA_VERSION, feature_level=22)], without)
    assert "requires metadata.version" in refusal(old, name, 1)
    assert apply_updates(old, {name: 1, METADATA_VERSION: 30}).features[name] == 1


def test_eligible_replicas_are_not_restored_when_the_feature_is_enabled_again() -> None:
    """The high watermark may have passed it, or it may have lost its records meanwhile."""
    name = "eligible.leader.replicas.version"
    brokers = image_after_records([broker_with(1), broker_with(2)], IMAGE)
    image = with_topics(brokers, creatable("orders", 1, 2))
    topic = image.topics_by_name["orders"]
    shrunk = PartitionChangeRecord(
        partition_id=0, topic_id=topic.id, isr=(1,), leader=1, eligible_leader_replicas=(2,)
    )
    image = image_after_records([shrunk], image)
    assert image.topics_by_name["orders"].partitions[0].eligible_leader_replicas == (2,)
    image = apply_updates(image, {name: 0}, UpgradeType.SAFE_DOWNGRADE)
    # The controller is not informed: with this value the leader may commit alone.
    one = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    image = apply_updates(image_after_records([one], image), {name: 1})
    assert image.topics_by_name["orders"].partitions[0].eligible_leader_replicas == ()
    image = image_after_records(
        run_steps(broker_changes.fence_records(image, SETTINGS, image.brokers[1])), image
    )
    assert image.topics_by_name["orders"].partitions[0].leader == NO_LEADER


def test_controllers_register_their_listeners() -> None:
    request = ControllerRegistrationRequest(
        controller_id=3,
        listeners=(Listener(name="CONTROLLER", host="host3", port=9093),),
    )
    image = image_after_result(IMAGE, register_controller(IMAGE, request))
    [end_point] = image.controllers[3].end_points
    assert (end_point.name, end_point.host, end_point.port) == ("CONTROLLER", "host3", 9093)
    old = image_after_records([FeatureLevelRecord(name=METADATA_VERSION, feature_level=14)], IMAGE)
    with pytest.raises(KafkaError) as error:
        register_controller(old, request)
    assert error.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_every_known_feature_can_be_updated() -> None:
    for name in SUPPORTED_FEATURES:
        level = IMAGE.features.get(name, 0)
        assert apply_updates(IMAGE, {name: level}).features.get(name, 0) == level
