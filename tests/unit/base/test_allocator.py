"""The allocator of a process that keeps freed memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHUNKS = 100
_PROGRAM = f"""
import os, resource, sys
from concurrent.futures import ThreadPoolExecutor
from tidelog.base.allocator import keep_freed_memory

if sys.argv[1] == "keeps" and not keep_freed_memory():
    sys.exit(3)
zeroes = os.open("/dev/zero", os.O_RDONLY)

def read_chunks(count):
    for _ in range(count):
        chunks = [os.pread(zeroes, 4 << 20, 0) for _ in range(3)]
        assert all(len(chunk) == 4 << 20 for chunk in chunks)

with ThreadPoolExecutor(1) as pool:
    pool.submit(read_chunks, 5).result()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pool.submit(read_chunks, {CHUNKS}).result()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("the allocator of this system is not that of glibc")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_chunks_get_no_new_pages_while_freed_memory_is_kept() -> None:
    kept = page_faults("keeps")
    assert kept < CHUNKS
    assert page_faults("default") > 100 * CHUNKS
