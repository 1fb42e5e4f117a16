"""Parts of a put are not copied: a copy of megabytes would block the interpreter and the event loop."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pytest

from tidelog.remote.objects.stores.streams import Parts

MIB = 1024 * 1024


class RecordingSource(io.BytesIO):
    """A source that keeps the chunks that it returned."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.returned: list[bytes] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.returned.append(super().read(size))
        return self.returned[-1]


@pytest.mark.parametrize("size", [5 * MIB, 12 * MIB + 3])
def test_a_part_references_the_bytes_read_from_the_file(size: int) -> None:
    source = RecordingSource(Random(size).randbytes(size))
    parts = Parts("store", "key", source, size)
    parts_taken = []
    while part := parts.next_part(5 * MIB):
        parts_taken.append(part)
    assert b"".join(parts_taken) == source.getvalue()
    assert all(any(part is returned for returned in source.returned) for part in parts_taken)


def test_a_file_that_grows_during_put_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(MIB + 1))
    with (
        path.open("rb") as file,
        pytest.raises(Exception, match=f"{MIB + 1} bytes or more; announced were {MIB}"),
    ):
        Parts("store", "key", file, MIB).next_part(5 * MIB)
