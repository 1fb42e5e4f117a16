"""The active controller appends what a command has prepared, after whatever the quorum has appended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from tests.support.metadata.images import image_after_records
from tidelog.broker.metadata.active_controller import ActiveController, SubmittedCommand
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.ids import LeaderEpoch
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from tidelog.protocol.steps import run_steps

EPOCH = 3


@dataclass
class Log:
    end_offset: int = 0
    values: list[bytes] = field(default_factory=list)

    def append(self, records: list[bytes], epoch: LeaderEpoch) -> RecordsAppended:
        self.values += records
        base_offset = self.end_offset
        self.end_offset += len(records)
        return RecordsAppended(
            base_offset=base_offset, last_offset=self.end_offset - 1, epoch=epoch, context=None
        )


def set_config(image: MetadataImage) -> ControllerResult[str]:
    record = ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    return ControllerResult((record,), "done")


async def test_a_command_is_appended_after_a_control_record_appended_during_its_preparation() -> None:
    log = Log(end_offset=7)
    loader = MetadataLoader(MetadataImage(cluster_id="c"))
    active = ActiveController(EPOCH, loader, lambda: log.end_offset, log.append)
    submitted = SubmittedCommand(set_config, asyncio.get_running_loop().create_future())
    prepared = run_steps(active.perform(submitted))
    log.end_offset += 1  # such as a new set of voters
    active.complete(submitted, prepared)
    [written] = active.take_committed(9, 1)
    assert (written.end_offset, written.submitted) == (9, submitted)
    [published] = written.steps
    assert published.image.offset == active.image.offset == 8
    assert active.image.cluster_configs() == {"k": "v"}


async def test_records_below_the_newest_metadata_version_are_written_and_applied_in_its_form() -> None:
    log = Log()
    level = FeatureLevelRecord(name="metadata.version", feature_level=16)
    loader = MetadataLoader(image_after_records([level]))
    active = ActiveController(EPOCH, loader, lambda: log.end_offset, log.append)
    broker = RegisterBrokerRecord(broker_id=1, log_dirs=(UUID(int=500),))
    active.write([broker])
    [value] = log.values
    assert (value[1], value[2]) == (RegisterBrokerRecord.record_type, 2)
    assert not active.image.brokers[1].log_dirs
    active.write([FeatureLevelRecord(name="metadata.version", feature_level=17)])
    active.write([broker])
    assert log.values[2][2] == 3
    assert active.image.brokers[1].log_dirs == (UUID(int=500),)
