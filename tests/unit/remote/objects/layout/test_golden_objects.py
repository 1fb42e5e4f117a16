"""Objects of Aiven's plugin are read, and written objects are equal where nothing is random."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.paths import GOLDEN_FILES
from tests.support.tier.sealed_segments import StoredSegment, make_segment
from tests.support.tier.segment_configs import KINDS, compressible, configs_of
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.layout.custom_metadata import decode_custom_metadata
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound

GOLDEN = GOLDEN_FILES / "segment_objects"
CUSTOM_METADATA = json.loads((GOLDEN / "custom_metadata.json").read_text())
EMPTY = {"encrypted": frozenset({IndexType.PRODUCER_SNAPSHOT})}


def golden_segment(kind: str, directory: Path) -> StoredSegment:
    """Return the segment that the plugin received."""
    number = KINDS.index(kind)
    return make_segment(
        directory,
        compressible(3456, seed=number),
        seed=number,
        with_transactions=number % 2 == 1,
        empty=EMPTY.get(kind, frozenset()),
    )


def configs(kind: str, root: Path) -> dict[str, str]:
    storage = {"storage.backend.class": "filesystem", "storage.root": str(root)}
    return {**storage, **configs_of(kind, GOLDEN / "public.pem", GOLDEN / "private.pem")}


def objects(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("a-*/**/*") if path.is_file()
    }


@pytest.mark.parametrize("cache", ["memory", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_written_by_the_aiven_plugin_is_read(kind: str, cache: str, tmp_path: Path) -> None:
    segment = golden_segment(kind, tmp_path)
    metadata = segment.with_custom_metadata(bytes.fromhex(CUSTOM_METADATA[kind]))
    # The golden directory is only read: the store is a copy of it.
    root = tmp_path / "bucket"
    for name, data in objects(GOLDEN / kind).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    manager = storage_manager_from_config({**configs(kind, root), "fetch.chunk.cache.class": cache})
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log
    assert manager.fetch_log_segment(metadata, 999, 2000).read() == segment.log[999:2001]
    for index_type in IndexType:
        if index_type in segment.indexes:
            assert manager.fetch_index(metadata, index_type).read() == segment.indexes[index_type]
        else:
            with pytest.raises(RemoteResourceNotFound):
                manager.fetch_index(metadata, index_type)
    manager.delete_log_segment_data(metadata)
    assert objects(root) == {}
    manager.close()


@pytest.mark.parametrize("kind", KINDS)
def test_object_names_and_manifests_equal_the_plugins(kind: str, tmp_path: Path) -> None:
    segment = golden_segment(kind, tmp_path)
    root = tmp_path / "bucket"
    root.mkdir()
    manager = storage_manager_from_config(configs(kind, root))
    custom_metadata = manager.copy_log_segment_data(segment.metadata, segment.files)
    manager.close()
    ours, theirs = objects(root), objects(GOLDEN / kind)
    assert sorted(ours) == sorted(theirs)
    if kind == "plain":
        assert ours == theirs
        assert custom_metadata is not None and custom_metadata.hex() == CUSTOM_METADATA[kind]
    (name,) = [name for name in ours if name.endswith("rsm-manifest")]
    our_text, their_text = ours[name].decode(), theirs[name].decode()
    our_fields, their_fields = json.loads(our_text), json.loads(their_text)
    for fields in (our_fields, their_fields):
        # Random fields, and sizes that differ between versions of zstd.
        fields.get("encryption", {}).update(dataKey="", aad="")
        fields["chunkIndex"]["transformedChunks"] = ""
    # Compared as text, so that the order of fields is compared as well.
    assert json.dumps(our_fields) == json.dumps(their_fields)
    assert " " not in our_text


def test_custom_metadata_of_the_plugin_is_read() -> None:
    metadata = decode_custom_metadata(bytes.fromhex(CUSTOM_METADATA["plain"]))
    assert metadata.remote_size == sum(len(data) for data in objects(GOLDEN / "plain").values())
    assert metadata.object_prefix == "tier/a-"
    (name,) = [name for name in objects(GOLDEN / "plain") if name.endswith(".log")]
    assert f"{metadata.object_prefix}{metadata.object_key}.log" == name
