"""Responds to every frame with its correlation id and as many bytes as a Produce response has.

    python -m benchmarks.servers.echo <response bytes>

It measures the latency of a request without the work of the broker: event loop, sockets and load.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

from benchmarks.servers.framed import SIZE_BYTES, serve

_SIZE_AND_CORRELATION: Final = struct.Struct(">i4s")
_CORRELATION_AT: Final = 4


def main() -> None:
    """Echo until SIGTERM."""
    response_bytes = int(sys.argv[1])
    padding = bytes(response_bytes - _SIZE_AND_CORRELATION.size)

    def echo(frame: memoryview) -> bytes:
        correlation_id = bytes(frame[_CORRELATION_AT : _CORRELATION_AT + 4])
        return _SIZE_AND_CORRELATION.pack(response_bytes - SIZE_BYTES, correlation_id) + padding

    serve(echo)


if __name__ == "__main__":
    main()
