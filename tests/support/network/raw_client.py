"""A connection that sends arbitrary bytes to a broker and returns the responses, without a client library."""

from __future__ import annotations

import select
import socket
import struct
from typing import TypeVar

from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.registry import APIS, ApiKey, request_type, response_type
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

RESPONSE_TIMEOUT_S = 60.0
PROBE_CORRELATION_ID = 0x7EADBEEF
_PROBE = encode_request(ApiKey.API_VERSIONS, 0, PROBE_CORRELATION_ID, "probe", ApiVersionsRequest())
_SIZE = struct.Struct(">i")


class RawClient:
    """One connection; `closed` after the broker closed it."""

    def __init__(self, host: str, port: int, timeout_s: float = RESPONSE_TIMEOUT_S) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = (host, port)
        self._correlation_id = 0
        self.closed = False

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    @property
    def local_address(self) -> tuple[str, int]:
        """Return the local address of the connection."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def send_request(self, request: ApiMessage, version: int, response: type[ResponseT]) -> ResponseT:
        """Return the response to a valid request; ConnectionError if the broker closes instead."""
        self._correlation_id += 1
        api_key = request.api_key
        self._socket.sendall(encode_request(api_key, version, self._correlation_id, "raw", request))
        frame = self.receive()
        if frame is None:
            raise ConnectionError(f"closed on {type(request).__name__} version {version}")
        correlation_id, position = read_response_header(frame, api_key, version)
        assert correlation_id == self._correlation_id
        return decode(response, frame[position:], version)

    def send(self, data: bytes) -> None:
        """Send arbitrary bytes. Raises errors of the socket."""
        self._socket.sendall(data)

    def has_response(self, timeout_s: float) -> bool:
        """Return whether data or the end of the connection arrives within `timeout_s`."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))

    def responses_to(self, frame: bytes) -> list[bytes] | None:
        """Send bytes and then a valid ApiVersions request; return the frames before its response.

        Return None if the broker closed the connection. Raises TimeoutError if it does neither.
        """
        responses: list[bytes] = []
        try:
            self._socket.sendall(frame + _PROBE)
        except ConnectionError:
            self.closed = True
            return None
        while (response := self.receive()) is not None:
            if int.from_bytes(response[:4], "big") == PROBE_CORRELATION_ID:
                return responses
            responses.append(bytes(response))
        return None

    def receive(self) -> memoryview | None:
        """Return the next frame without its size; None after the broker closed."""
        size = self._read_exactly(_SIZE.size)
        return None if size is None else self._read_exactly(_SIZE.unpack(size)[0])

    def _read_exactly(self, count: int) -> memoryview | None:
        data = bytearray(count)
        view = memoryview(data)
        received = 0
        while received < count:
            try:
                got = self._socket.recv_into(view[received:])
            except ConnectionError:
                got = 0
            if got == 0:
                self.closed = True
                return None
            received += got
        return view


def served_versions(host: str, port: int) -> list[tuple[ApiKey, int]]:
    """Return every (API, version) that the broker advertises and that has messages."""
    with RawClient(host, port) as client:
        response = client.send_request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return [
        (ApiKey(entry.api_key), version)
        for entry in response.api_keys
        for version in range(entry.min_version, entry.max_version + 1)
        if entry.api_key in APIS and version in request_type(entry.api_key).valid_versions
    ]


def decode_response(api_key: ApiKey, version: int, response: bytes) -> ApiMessage:
    """Return a response frame as a message."""
    _, position = read_response_header(memoryview(response), api_key, version)
    return decode(response_type(api_key), response[position:], version)
