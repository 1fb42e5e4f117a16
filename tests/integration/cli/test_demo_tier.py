"""The table of the tier in the demo: offsets, files and objects of a topic, in 80 columns."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.clients.admin.admin import Admin
from tidelog.demo.progress import Progress
from tidelog.demo.tier_view import Border, Segments, TierView, border_table
from tidelog.demo.tier_watch import TierWatch
from tidelog.local_cluster.layout import ClusterLayout, read_layout
from tidelog.testing.embedded import EmbeddedCluster


def border(**changed: object) -> Border:
    values = {
        "partition": 5,
        "leader": 3,
        "log_start": 0,
        "local_start": 124_900,
        "remote_end": 124_900,
        "high_watermark": 136_354,
        "end": 136_360,
        "local": Segments(1, 800_000),
        "remote": Segments(118, 108_300_000),
    }
    return Border(**{**values, **changed})  # type: ignore[arg-type]


def text_of(console_width: int, *borders: Border) -> str:
    output = io.StringIO()
    Console(file=output, width=console_width).print(border_table(borders, "Where"))
    return output.getvalue()


def test_the_table_has_at_most_eighty_columns_and_a_total() -> None:
    text = text_of(80, border(), border(partition=6, local_start=7))
    assert "\u2026" not in text
    rows = [" ".join(line.split()) for line in text.splitlines() if " / " in line]
    assert rows[0] == "5 3 0 124,900 124,900 136,354 136,360 1 / 118 0.8 / 108.3"
    assert rows[1].startswith("6 3 0 7 124,900 ")
    assert rows[2] == "272,708 272,720 2 / 236 1.6 / 216.6"


def test_the_table_is_shown_before_any_measurement() -> None:
    assert "0 / 0" in text_of(80)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"local": Segments(2, 900_000)}, False),
        ({"remote_end": 124_899}, False),
        ({"local_start": 1_000_000}, False),
    ],
)
def test_a_partition_is_tiered_when_only_its_active_segment_is_local(
    changed: dict[str, object], expected: bool
) -> None:
    assert border(**changed).is_tiered is expected


def test_an_incomplete_measurement_is_not_counted(
    tmp_path: Path,
) -> None:
    watch = TierWatch(
        TierView(ClusterLayout(tmp_path, "no cluster", (), {}), tmp_path, "tides"),
        "unreachable:1",
        Console(file=io.StringIO()),
    )
    assert not watch.is_tiered(2 * 136_354), "there is no state yet"
    empty = {"local_start": 0, "remote_end": 0, "high_watermark": 0, "end": 0, "remote": Segments(0, 0)}
    looks = {
        "before the first record": (border(**empty), border(**empty)),
        "the leader of one changes": (border(),),
        "before the last record": (border(), border(high_watermark=136_353)),
    }
    for watch.borders in looks.values():
        assert not watch.is_tiered(2 * 136_354), looks
    watch.borders = (border(), border())
    assert watch.is_tiered(2 * 136_354)
    watch.borders = (border(), border(local=Segments(2, 900_000)))
    assert not watch.is_tiered(2 * 136_354)


def test_only_log_files_count_as_segments(tmp_path: Path) -> None:
    for name, size in (("a/1.log", 10), ("a/1.index", 5), ("a/2.log.deleted", 7), ("b/3.log", 2)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    assert Segments.below([tmp_path / "a", tmp_path / "b", tmp_path / "missing"]) == Segments(2, 12)


def test_the_progress_bar_has_the_table_above_it_on_a_terminal_only() -> None:
    for is_terminal in (True, False):
        output = io.StringIO()
        console = Console(file=output, width=80, force_terminal=is_terminal, no_color=True, highlight=False)
        with Progress(console, "produce", 10, lambda: "the table") as progress:
            progress.advance(10)
        assert ("the table" in output.getvalue()) is is_terminal
        assert "produce: 10 records" in output.getvalue()


def test_the_view_shows_the_nodes_reports(tmp_path: Path) -> None:
    with EmbeddedCluster(3, tiered=True, data_dir=tmp_path / "cluster") as cluster:
        tiered, client_factory = TieredTopics(cluster), ClientFactory(cluster.bootstrap_servers)
        tiered.create("tides", partitions=2)
        sent = [Message(b"%d" % number + bytes(2000)) for number in range(2500)]
        client_factory.produce(CLIENTS["confluent"], "tides", sent)
        borders = tiered.wait_until_tiered("tides")
        client_factory.close()
        view = TierView(read_layout(cluster.data_dir), cluster.tier_dir, "tides")
        watch = TierWatch(view, cluster.bootstrap_servers, Console(file=io.StringIO()))

        async def read_borders() -> list[Border]:
            await watch.wait_until_synced()
            assert not watch.borders
            async with watch.follow():
                await watch.wait_for_first_state()
                assert len(watch.borders) == 2
            async with Admin(cluster.bootstrap_servers) as admin:
                return await view.borders(admin)

        first, second = asyncio.run(read_borders())
    assert (first.log_start, first.local_start, first.high_watermark) == (0, borders.local_start, len(sent))
    assert first.remote_end == borders.highest_remote + 1
    assert first.remote.count >= 4 and first.remote.size_bytes > 4_000_000
    assert first.is_tiered
    assert first.end == first.high_watermark
    assert second.high_watermark == 0 and second.remote == Segments(0, 0)
