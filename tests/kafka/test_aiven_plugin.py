"""Aiven's plugin reads and deletes segments of Tidelog, and Tidelog reads and deletes those of the plugin.

Needs Java 17 and, in TIDELOG_AIVEN_CLASSPATH, the jars of the plugin and of Kafka (see
tests.support.tier.aiven_plugin).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.tier.aiven_plugin import AivenPlugin
from tests.support.tier.sealed_segments import make_segment
from tests.support.tier.segment_configs import KINDS, compressible, configs_of, key_pair, write_key_pair
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.layout.custom_metadata import CustomMetadata, encode_custom_metadata
from tidelog.remote.objects.layout.object_keys import main_path

CLASSPATH = os.environ.get("TIDELOG_AIVEN_CLASSPATH", "")
SIZES = (1000, 54_321)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bucket_is_shared_with_the_plugin(kind: str, size: int, tmp_path: Path) -> None:
    root = tmp_path / "bucket"
    root.mkdir()
    configs = configs_of(kind, *write_key_pair(key_pair(), tmp_path))
    storage = {"storage.backend.class": "filesystem", "storage.root": str(root)}
    ours = storage_manager_from_config({**storage, **configs})
    theirs = AivenPlugin(CLASSPATH, root, tmp_path / "work", configs)
    log = compressible(size)
    own = make_segment(tmp_path / "mine", log, seed=1, with_transactions=True)
    custom_metadata = ours.copy_log_segment_data(own.metadata, own.files)
    start, end = size // 3, None if size < 1000 else size // 2
    read, indexes = theirs.read(own, custom_metadata, start, end)
    assert read == log[start : None if end is None else end + 1]
    assert indexes == own.indexes
    other = make_segment(tmp_path / "other", log, seed=2)
    metadata = other.with_custom_metadata(theirs.copy(other))
    assert ours.fetch_log_segment(metadata, start, end).read() == read
    for index_type, content in other.indexes.items():
        assert ours.fetch_index(metadata, index_type).read() == content
    theirs.delete(own, custom_metadata)
    ours.delete_log_segment_data(metadata)
    assert [path for path in (root / "tier").rglob("*") if path.is_file()] == []
    ours.close()


def test_the_plugin_deletes_no_objects_to_which_a_segment_refers(tmp_path: Path) -> None:
    root = tmp_path / "bucket"
    root.mkdir()
    configs = configs_of("plain", *write_key_pair(key_pair(), tmp_path))
    theirs = AivenPlugin(CLASSPATH, root, tmp_path / "work", configs)
    source = make_segment(tmp_path / "source", compressible(1000), seed=3)
    theirs.copy(source)
    before = sorted(path for path in root.rglob("*") if path.is_file())
    reference = make_segment(tmp_path / "reference", compressible(1000), seed=4)
    custom_metadata = encode_custom_metadata(CustomMetadata(source_path=main_path(source.metadata)))
    theirs.delete(reference, custom_metadata)
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before
    with pytest.raises(AssertionError):
        theirs.read(reference, custom_metadata, 0, None)
