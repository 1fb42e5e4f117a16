"""Deleted topics, and a node that stops before it deletes their objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.broker.tier.tiered_storage import TieredStorage
from tidelog.testing.embedded import EmbeddedCluster


@pytest.mark.parametrize("clean", [True, False])
def test_a_deletion_interrupted_before_its_record_is_resumed_at_the_next_start(
    clean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = EmbeddedCluster(tiered=True, data_dir=tmp_path / "cluster")
    cluster.start()
    try:
        tiered = TieredTopics(cluster)
        opener = ClientFactory(cluster.bootstrap_servers)
        for topic in ("tides", "stays"):
            tiered.create(topic)
            opener.produce(CLIENTS["confluent"], topic, [Message(bytes(900))] * 3000)
            tiered.wait_until_tiered(topic)
        opener.close()
        kept = tiered.objects("/stays-")
        with monkeypatch.context() as patched:
            # The node behaves as if it had stopped when it received the deletion.
            patched.setattr(TieredStorage, "on_roles_changed", lambda *_: None)
            tiered.delete("tides")
            (cluster.stop_node if clean else cluster.kill_node)(1)
        cluster.start_node(1)
        wait_until(lambda: not tiered.objects("/tides-"))
        assert tiered.objects("/stays-") == kept
    finally:
        cluster.stop()
