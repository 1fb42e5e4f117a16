"""Compression: round trips with other implementations, and bounds on the decompressed size."""

from __future__ import annotations

import gzip
import re
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import aiokafka.codec
import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.compression_bombs import (
    MEBIBYTE,
    compression_bomb,
    snappy_block_that_declares,
    zstd_frame_that_declares,
    zstd_frame_with_window,
)
from tests.support.batches.damage import damaged_copies
from tests.support.paths import ROOT
from tidelog.protocol.compression import (
    BoundExceeded,
    Compression,
    compress,
    compress_view,
    decompress,
    expand,
)
from tidelog.protocol.errors import DecodeError

CODECS = list(Compression)[1:]
ENOUGH = 1 << 22


def text(length: int) -> bytes:
    """Return bytes that compress a little."""
    random = Random(length)
    words = [b"tide", b"log", b"moon", b"ebb", b"flood", random.randbytes(9)]
    return b" ".join(random.choice(words) for _ in range(length // 3 + 1))[:length]


@pytest.mark.parametrize("length", [0, 1, 100, 32767, 32768, 32769, 65535, 65536, 65537, 300_000])
@pytest.mark.parametrize("codec", Compression)
def test_compressed_bytes_decompress_to_the_original(codec: Compression, length: int) -> None:
    data = text(length)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(b"__" + data))[2:]):
        compressed = compress(codec, buffer)
        assert decompress(codec, compressed, ENOUGH) == data
        assert compress_view(codec, buffer) == compressed
        assert codec is Compression.NONE or expand(codec, compressed, ENOUGH) == data
    assert decompress(codec, memoryview(bytearray(b"__" + compressed))[2:], ENOUGH) == data
    assert codec is Compression.NONE or length < 1000 or len(compressed) < length * 0.9


@pytest.mark.parametrize("codec", Compression)
def test_a_result_of_exactly_the_bound_is_allowed(codec: Compression) -> None:
    for length in (1, 5000, 70_000, 300_000):
        data = text(length)
        compressed = compress(codec, data)
        assert decompress(codec, compressed, length) == data
        with pytest.raises(DecodeError, match=rf"more than {length - 1} bytes"):
            decompress(codec, compressed, length - 1)
        if codec is not Compression.NONE:
            assert expand(codec, compressed, length) == data
            with pytest.raises(BoundExceeded, match=rf"more than {length - 1} bytes"):
                expand(codec, compressed, length - 1)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, range(1, 10)),
        (Compression.SNAPPY, [1, 5]),
        (Compression.LZ4, [1, 3, 9, 12, 17]),
        (Compression.ZSTD, [-131072, -7, -1, 1, 3, 12, 19, 22]),
    ],
)
def test_every_level_of_kafka_is_allowed(codec: Compression, levels: list[int]) -> None:
    data = text(100_000)
    for level in levels:
        assert decompress(codec, compress(codec, data, level), ENOUGH) == data
    if codec is not Compression.SNAPPY:
        assert len(compress(codec, data, levels[-1])) < len(compress(codec, data, levels[0]))


def test_codecs_are_found_by_config_name() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [Compression.from_name(name) for name in names] == list(Compression)
    for name in ("brotli", "GZIP", ""):
        with pytest.raises(ValueError, match=f"'{name}'"):
            Compression.from_name(name)


def test_other_clients_and_tidelog_read_each_others_compression() -> None:
    data = text(200_000)
    others = {
        Compression.GZIP: (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
        Compression.SNAPPY: (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
        Compression.LZ4: (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
        Compression.ZSTD: (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
    }
    for codec, (encode, decode) in others.items():
        assert decompress(codec, encode(data), ENOUGH) == data
        assert bytes(decode(compress(codec, data))) == data


def test_lz4_frames_are_valid_for_kafkas_reader() -> None:
    frame = compress(Compression.LZ4, text(200_000))
    assert frame[:4] == b"\x04\x22\x4d\x18"
    version, blocks_independent, content_size, reserved = (
        frame[4] >> 6,
        frame[4] >> 5 & 1,
        frame[4] >> 3 & 1,
        frame[4] & 0x03,
    )
    assert (version, blocks_independent, content_size, reserved) == (1, 1, 0, 0)
    assert frame[5] == 4 << 4, "blocks of 64 KiB"


def test_snappy_has_xerial_framing_with_blocks_of_32_kib() -> None:
    data = text(80_000)
    framed = compress(Compression.SNAPPY, data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    lengths = []
    position = 16
    while position < len(framed):
        size = int.from_bytes(framed[position : position + 4], "big")
        lengths.append(cramjam.snappy.decompress_raw_len(framed[position + 4 : position + 4 + size]))
        position += 4 + size
    assert lengths == [32768, 32768, 80_000 - 65536]


def test_snappy_without_framing_as_of_librdkafka_is_read() -> None:
    data = text(200_000)
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), ENOUGH) == data


def test_concatenated_streams_are_read_as_one() -> None:
    first, second = text(50_000), text(70_000)
    for codec in CODECS:
        both = compress(codec, first) + compress(codec, second)
        assert decompress(codec, both, ENOUGH) == first + second
        with pytest.raises(DecodeError):
            decompress(codec, both, 119_999)


def test_gzip_members_with_names_and_comments_are_read() -> None:
    header = b"\x1f\x8b\x08\x18\0\0\0\0\0\xff" + b"name\0" + b"comment\0"
    assert decompress(Compression.GZIP, header + gzip.compress(b"tide")[10:], 100) == b"tide"


@pytest.mark.parametrize("codec", CODECS)
def test_empty_input_is_refused(codec: Compression) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, b"", ENOUGH)


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_stream_is_refused(codec: Compression) -> None:
    data = text(40_000)[:33_000]
    compressed = compress(codec, data)
    read = []
    for length in (
        *range(60),
        *range(60, len(compressed), 97),
        *range(len(compressed) - 60, len(compressed)),
    ):
        try:
            read.append(decompress(codec, compressed[:length], ENOUGH))
        except DecodeError:
            continue
    # Only snappy's framing has no end mark: truncated between blocks it is a shorter valid stream.
    assert read == ([b""] if codec is Compression.SNAPPY else [])


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_streams_are_decompressed_or_refused(codec: Compression) -> None:
    for damaged in damaged_copies(compress(codec, text(3000)), codec.name, flips=1500):
        try:
            assert len(decompress(codec, damaged, 10_000)) <= 10_000
        except DecodeError:
            continue


@settings(max_examples=300, deadline=None)
@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=100), framed=st.booleans())
def test_random_bytes_are_decompressed_or_refused(codec: Compression, data: bytes, framed: bool) -> None:
    start = {
        Compression.GZIP: b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
        Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
        Compression.LZ4: compress(Compression.LZ4, b"")[:7],
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    }[codec]
    try:
        assert len(decompress(codec, start + data if framed else data, 1000)) <= 1000
    except DecodeError:
        return


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1, -(2**31), 100])
def test_a_wrong_snappy_block_size_is_refused(size: int) -> None:
    framed = bytearray(compress(Compression.SNAPPY, b"tide" * 10))
    struct.pack_into(">i", framed, 16, size)
    with pytest.raises(DecodeError):
        decompress(Compression.SNAPPY, framed, ENOUGH)


@pytest.mark.parametrize("size", [0, 2, 4, 1000, 2**20, 2**31, 2**32 - 1])
def test_a_wrong_snappy_length_is_refused(size: int) -> None:
    block = snappy_block_that_declares(size)
    for data in (block, compress(Compression.SNAPPY, b"") + struct.pack(">i", len(block)) + block):
        with pytest.raises(DecodeError):
            decompress(Compression.SNAPPY, data, 2**40)
    assert decompress(Compression.SNAPPY, snappy_block_that_declares(3), 3) == b"abc"


@pytest.mark.parametrize("size", [0, 1, MEBIBYTE - 1, MEBIBYTE + 1, 2 * MEBIBYTE, 2**31, 2**32 - 1])
def test_a_zstd_frame_with_a_wrong_content_size_is_refused_or_decompressed(size: int) -> None:
    frame = zstd_frame_that_declares(size)
    with pytest.raises(DecodeError):
        decompress(Compression.ZSTD, frame, 1000)
    try:
        # A declared size slightly above the content is allowed.
        assert decompress(Compression.ZSTD, frame, 2 * MEBIBYTE) == bytes(MEBIBYTE)
        assert MEBIBYTE < size <= 2 * MEBIBYTE
    except DecodeError:
        pass


def test_zstd_frames_may_omit_their_size() -> None:
    assert decompress(Compression.ZSTD, zstd_frame_with_window(20), MEBIBYTE) == bytes(MEBIBYTE)
    for window_log in (30, 31, 41):
        with pytest.raises(DecodeError):
            decompress(Compression.ZSTD, zstd_frame_with_window(window_log), MEBIBYTE)


@pytest.mark.parametrize("codec", CODECS)
def test_highly_compressed_input_is_decompressed_within_the_bound(codec: Compression) -> None:
    assert decompress(codec, compression_bomb(codec, 3), 3 * MEBIBYTE) == bytes(3 * MEBIBYTE)


ATTACK_SCRIPT = """
import re, sys
from pathlib import Path
from tidelog.protocol.compression import Compression, decompress
from tidelog.protocol.errors import DecodeError

def peak_memory_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

codec = Compression.from_name(sys.argv[1])
data = Path(sys.argv[2]).read_bytes()
before = peak_memory_kib()
outcome = "expanded"
try:
    decompress(codec, data, int(sys.argv[3]))
except DecodeError:
    outcome = "refused"
print(outcome, peak_memory_kib() - before)
"""


def attack(codec: Compression, data: bytes, max_bytes: int, directory: Path) -> tuple[str, int]:
    """Decompress `data` in a separate process; return the result and the additional KiB of memory."""
    (directory / "data").write_bytes(data)
    command = [
        sys.executable,
        "-c",
        ATTACK_SCRIPT,
        codec.name.lower(),
        str(directory / "data"),
        str(max_bytes),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    outcome, kibibytes = done.stdout.split()
    return outcome, int(kibibytes)


@pytest.mark.parametrize("mebibytes", [1, 16])
@pytest.mark.parametrize("codec", CODECS)
def test_highly_compressed_input_beyond_the_bound_uses_bounded_memory(
    codec: Compression, mebibytes: int, tmp_path: Path
) -> None:
    outcome, kibibytes = attack(codec, compression_bomb(codec, 256), mebibytes * MEBIBYTE, tmp_path)
    assert outcome == "refused"
    assert kibibytes <= mebibytes * 1024 + 4096


@pytest.mark.parametrize(
    ("codec", "data", "outcome"),
    [
        pytest.param(Compression.SNAPPY, snappy_block_that_declares(2**31), "refused", id="snappy size"),
        pytest.param(Compression.ZSTD, zstd_frame_that_declares(2**27), "expanded", id="zstd size"),
        pytest.param(Compression.ZSTD, zstd_frame_that_declares(2**31), "refused", id="zstd huge size"),
        pytest.param(Compression.ZSTD, zstd_frame_with_window(27), "expanded", id="zstd window"),
        pytest.param(Compression.ZSTD, zstd_frame_with_window(31), "refused", id="zstd huge window"),
    ],
)
def test_declared_sizes_and_windows_are_not_allocated(
    codec: Compression, data: bytes, outcome: str, tmp_path: Path
) -> None:
    got, kibibytes = attack(codec, data, 2 * MEBIBYTE, tmp_path)
    assert kibibytes <= 8 * 1024
    assert got == outcome


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_the_error_of_the_bound_keeps_no_decompressed_memory(codec: Compression) -> None:
    """Errors are kept for a while with their tracebacks, which refer to the frames of `expand`."""
    payload = compression_bomb(codec, 20)
    kept = []
    before = shared_memory_bytes()
    for _ in range(4):
        with pytest.raises(BoundExceeded) as raised:
            expand(codec, payload, 16 * MEBIBYTE)
        kept.append(raised.value)
    assert shared_memory_bytes() - before < MEBIBYTE
    assert len(kept) == 4


def shared_memory_bytes() -> int:
    """Return the resident anonymous mappings of this process."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc on this machine: the resident memory is unknown")
    match = re.search(r"RssShmem:\s+(\d+) kB", status.read_text())
    assert match is not None
    return int(match[1]) * 1024
