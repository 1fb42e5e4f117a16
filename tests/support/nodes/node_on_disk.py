"""A complete broker on a simulated disk, and a client on the same event loop."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.schema import ApiMessage
from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
ResultT = TypeVar("ResultT")

RESPONSE_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.001
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "node.id": "1",
    "log.dirs": "/disk-1,/disk-2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
}


class PowerCut(Exception):
    """The disk lost power during a request."""


class Connection:
    """Sends one request at a time; PowerCut after the disk failed."""

    def __init__(
        self, disk: CrashFileSystem, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._disk = disk
        self._reader = reader
        self._writer = writer

    async def send_request(self, request: ApiMessage, version: int, response: type[ResponseT]) -> ResponseT:
        """Return the broker's response."""
        self._writer.write(encode_request(request.api_key, version, 1, "test", request))
        return await until_power_cut(self._disk, self._receive_response(request.api_key, version, response))

    async def _receive_response(self, api_key: int, version: int, response: type[ResponseT]) -> ResponseT:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = memoryview(await self._reader.readexactly(size))
        _, position = read_response_header(frame, api_key, version)
        return decode(response, frame[position:], version)

    def require_ok(self, error_code: int, response: object) -> None:
        """Raise an error of a response if the disk works; PowerCut otherwise."""
        if error_code and not self._disk.has_power:
            raise PowerCut
        assert error_code == 0, response

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def until_power_cut(disk: CrashFileSystem, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Return the result of `work`; PowerCut if the disk fails first."""
    task = asyncio.ensure_future(work)
    deadline = asyncio.get_running_loop().time() + RESPONSE_TIMEOUT_S
    while not task.done():
        if not disk.has_power or asyncio.get_running_loop().time() > deadline:
            task.cancel()
            with suppress(BaseException):
                await task
            assert not disk.has_power, f"no response within {RESPONSE_TIMEOUT_S} s"
            raise PowerCut
        await asyncio.wait([task], timeout=LOOK_EVERY_S)
    if not disk.has_power and task.exception() is not None:
        raise PowerCut
    return task.result()


@asynccontextmanager
async def node_on(disk: CrashFileSystem) -> AsyncIterator[Connection]:
    """Yield a connection to a broker on `disk`; the broker ends without a shutdown."""
    asyncio.get_running_loop().set_exception_handler(_report)
    node = await until_power_cut(disk, BrokerNode.start(BrokerConfig(CONFIG), ports=system_ports(fs=disk)))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.bound_port())
    connection = Connection(disk, reader, writer)
    try:
        yield connection
    finally:
        connection.close()
        with suppress(BaseException):
            await node.abandon()
        # Report unhandled errors of the crash now instead of during a later test.
        gc.collect()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log unexpected errors; a crash interrupts tasks of the broker anywhere."""
    if not isinstance(context.get("exception"), SimulatedCrash):
        loop.default_exception_handler(context)
