"""Reads standard input while the event loop runs (shell).

A daemon thread reads files, pipes and terminals, because not all of them can be polled. It reads the raw
stream, so that it holds no lock if the interpreter exits while the thread waits.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 64 * 1024
# Chunks that are read in advance.
QUEUE_CHUNKS_MAX: Final = 4


async def read_input() -> AsyncIterator[bytes]:
    """Yield standard input in chunks until its end. Errors: OSError."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(QUEUE_CHUNKS_MAX)
    buffer = sys.stdin.buffer
    stream = getattr(buffer, "raw", buffer)

    def read_all() -> None:
        try:
            while True:
                room.acquire()
                data = _read(stream)
                loop.call_soon_threadsafe(chunks.put_nowait, data)
                if not data or isinstance(data, OSError):
                    return
        except RuntimeError:
            return  # the loop is closed

    threading.Thread(target=read_all, name="tidelog-stdin", daemon=True).start()
    while True:
        item = await chunks.get()
        room.release()
        if isinstance(item, OSError):
            raise item
        if not item:
            return
        yield item


def _read(stream: BinaryIO) -> bytes | OSError:
    try:
        return stream.read(CHUNK_BYTES)
    except OSError as error:
        return error
    except ValueError:
        return b""  # the stream is closed because the interpreter exits
