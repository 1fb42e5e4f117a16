"""Where the records of a tiered topic are: offsets from the brokers, and files and objects from the disk.

log start .. remote end            in the tier local start .. high watermark      on the disks of the
replicas, committed; records up to the end are not committed local start .. remote end          in both, until
local retention deletes the local segments
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin import Admin, OffsetSpec, TopicDescription
from tidelog.local_cluster.layout import ClusterLayout
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition, uuid_text

OFFSET_SPECS: Final = (
    OffsetSpec.EARLIEST,
    OffsetSpec.EARLIEST_LOCAL,
    OffsetSpec.LATEST_TIERED,
    OffsetSpec.LATEST,
)
MEGA: Final = 1e6


@dataclass(frozen=True, slots=True)
class Segments:
    """The number and the total size of log files in one place."""

    count: int
    size_bytes: int

    @classmethod
    def below(cls, folders: Iterable[Path]) -> Segments:
        """Return the log files that are now in `folders`; a missing folder has none."""
        sizes = [size for folder in folders for size in _log_sizes(folder)]
        return cls(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True)
class Border:
    """The offsets and segments of one partition; ends are exclusive."""

    partition: int
    leader: int
    log_start: int
    local_start: int
    remote_end: int
    high_watermark: int
    end: int
    local: Segments
    remote: Segments

    @property
    def is_tiered(self) -> bool:
        """Whether all segments except the active one are in the tier, and only there."""
        return self.local.count == 1 and self.local_start == self.remote_end


class TierView:
    """Reads the state of one topic in a local cluster whose tier is a directory.

    Errors: KafkaError if the cluster does not respond.
    """

    def __init__(self, layout: ClusterLayout, tier: Path, topic: str) -> None:
        self._layout = layout
        self._tier = tier
        self._topic = topic

    async def borders(self, admin: Admin) -> list[Border]:
        """Return the borders of each partition whose leader responds, in order."""
        topic = await self._describe_topic(admin)
        leaders = {entry.partition: entry.leader for entry in topic.partitions if entry.leader >= 0}
        names = [TopicPartition(self._topic, number) for number in leaders]
        offsets_by_spec = {
            spec: await admin.list_offsets(dict.fromkeys(names, int(spec))) for spec in OFFSET_SPECS
        }
        epochs = {entry.partition: entry.leader_epoch for entry in topic.partitions}
        # The leader's epoch is the last one of its log, and ends where the log does.
        ends = await admin.epoch_end_offsets({name: epochs[name.partition] for name in names})
        remote = self._tier / f"{self._topic}-{uuid_text(topic.topic_id)}"
        borders = []
        for name in names:
            responses = (offsets_by_spec[spec][name] for spec in OFFSET_SPECS)
            offsets = [entry.offset for entry in responses if not isinstance(entry, KafkaError)]
            end = ends[name]
            if len(offsets) < len(OFFSET_SPECS) or isinstance(end, KafkaError):
                continue  # its leader is changing
            log_start, local_start, latest_tiered, high_watermark = offsets
            leader = leaders[name.partition]
            borders.append(
                Border(
                    name.partition,
                    leader,
                    log_start,
                    local_start,
                    latest_tiered + 1,
                    high_watermark,
                    max(end.end_offset, high_watermark),
                    Segments.below([self._layout.data_folder(leader) / str(name)]),
                    Segments.below([remote / str(name.partition)]),
                )
            )
        return borders

    async def is_in_sync(self, admin: Admin) -> bool:
        """Return whether every replica of every partition is in sync."""
        topic = await self._describe_topic(admin)
        return all(set(entry.in_sync_replicas) == set(entry.replicas) for entry in topic.partitions)

    def on_disk(self, node_id: int) -> Segments:
        """Return the segments of the topic on a node's disk."""
        return Segments.below(self._layout.data_folder(node_id).glob(f"{self._topic}-*"))

    async def _describe_topic(self, admin: Admin) -> TopicDescription:
        topic = (await admin.describe_topics([self._topic]))[self._topic]
        if isinstance(topic, KafkaError):
            raise topic
        return topic


def border_table(borders: Sequence[Border], title: str) -> Table:
    """Return a table of the borders with their sums, in 80 columns."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_footer=True)
    local_bytes = sum(border.local.size_bytes for border in borders)
    remote_bytes = sum(border.remote.size_bytes for border in borders)
    local_count = sum(border.local.count for border in borders)
    remote_count = sum(border.remote.count for border in borders)
    for heading, footer in (
        ("", ""),
        ("on\nnode", ""),
        ("log\nstart", ""),
        ("local\nstart", ""),
        ("remote\nend", ""),
        ("high\nwatermark", f"{sum(border.high_watermark for border in borders):,}"),
        ("\nend", f"{sum(border.end for border in borders):,}"),
        ("segments\ndisk/tier", f"{local_count} / {remote_count}"),
        ("MB\ndisk/tier", _megabytes(local_bytes, remote_bytes)),
    ):
        table.add_column(heading, footer, justify="right", no_wrap=True)
    for border in borders:
        offsets = (border.log_start, border.local_start, border.remote_end, border.high_watermark, border.end)
        table.add_row(
            str(border.partition),
            str(border.leader),
            *(f"{offset:,}" for offset in offsets),
            f"{border.local.count} / {border.remote.count}",
            _megabytes(border.local.size_bytes, border.remote.size_bytes),
        )
    return table


def _megabytes(local_bytes: int, remote_bytes: int) -> str:
    return f"{local_bytes / MEGA:.1f} / {remote_bytes / MEGA:.1f}"


def _log_sizes(folder: Path) -> Iterator[int]:
    for path in folder.glob("*.log"):
        try:
            yield path.stat().st_size
        except FileNotFoundError:
            continue  # deleted since it was listed
