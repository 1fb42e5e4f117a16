"""The parts of a put: a copy of some megabytes would hold the interpreter, and the event loop with it."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pytest

from tidelog.remote.objects.stores.streams import Parts

MIB = 1024 * 1024


class Remembering(io.BytesIO):
    """A source that keeps what it gave."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.given: list[bytes] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.given.append(super().read(size))
        return self.given[-1]


@pytest.mark.parametrize("size", [5 * MIB, 12 * MIB + 3])
def test_a_part_of_a_file_is_what_the_file_gave_and_no_copy_of_it(size: int) -> None:
    source = Remembering(Random(size).randbytes(size))
    parts = Parts("store", "key", source, size)
    taken = []
    while part := parts.next_part(5 * MIB):
        taken.append(part)
    assert b"".join(taken) == source.getvalue()
    assert all(any(part is given for given in source.given) for part in taken)


def test_a_file_that_grows_while_it_is_put_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(MIB + 1))
    with (
        path.open("rb") as file,
        pytest.raises(Exception, match=f"{MIB + 1} bytes or more; announced were {MIB}"),
    ):
        Parts("store", "key", file, MIB).next_part(5 * MIB)
