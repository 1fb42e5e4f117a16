"""The TLS state of one accepted connection: ciphertext in, plaintext out, and the reverse.

OpenSSL gets whole records only, and the first bytes of an incomplete record stay here. Therefore it is known
how many bytes must at least be received before there is something to decrypt.

Clients may send many small records: librdkafka sends two for each message, one of them with a few bytes.
`receive` and `read_into` therefore do as little as possible for each record.

Bounds: RECORDS_MAX records are decrypted in one call of `read_into`. A record without plaintext, for example
a key update, costs 20 times as much as a small one with plaintext. A client may send EMPTY_RECORDS_MAX
of them for each EMPTY_PER_BYTES bytes of plaintext. OpenSSL keeps the memory that the largest `receive` and
the largest `write` needed.
After an error, `take_outgoing` returns an alert if OpenSSL has detected it.
I/O: none. Source: RFC 8446, sections 4.6.3 and 5.1.
"""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections.abc import Callable
from typing import Final, cast

HEADER_BYTES: Final = 5
"""The type of a record, its version and the length of its contents."""
RECORD_BYTES_MAX: Final = HEADER_BYTES + 16_384 + 2_048
"""The largest record of all versions; OpenSSL rejects a longer one."""
RECORDS_MAX: Final = 256
EMPTY_RECORDS_MAX: Final = 256
EMPTY_PER_BYTES: Final = 1024 * 1024

_unpack_length: Final = struct.Struct(">xxxH").unpack_from


class InvalidRecordsError(Exception):
    """The client has sent records that are not accepted; the connection must be closed."""


class TlsSession:
    """The server side of a TLS connection."""

    __slots__ = (
        "_bytes_since_empty",
        "_empty_records",
        "_has_more_records",
        "_incoming",
        "_outgoing",
        "_read",
        "_unread_records",
        "has_peer_closed",
        "rest",
        "tls",
    )

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._read = cast(Callable[[int, memoryview], int], self.tls.read)
        self.rest = b""
        """The received bytes that OpenSSL does not have yet; the next `receive` must begin with them."""
        self._has_more_records = False
        """Whether `rest` may begin with a whole record."""
        self._unread_records = 0
        """The records that OpenSSL has and that are not read; at first also those of the handshake."""
        self._empty_records = 0
        """The records without plaintext, as far as EMPTY_PER_BYTES bytes have not followed."""
        self._bytes_since_empty = 0
        self.has_peer_closed = False
        """Whether the client has sent close_notify: no plaintext follows."""

    @property
    def has_unread(self) -> bool:
        """Whether `read_into` may return plaintext that was received before."""
        return self._unread_records > 0 or self._has_more_records

    @property
    def needs_records(self) -> bool:
        """Whether OpenSSL has no unread record any more, and `rest` may have some."""
        return self._has_more_records and not self._unread_records

    def missing_bytes(self, plaintext_bytes: int) -> int:
        """Return how many bytes must at least be received, so that there are `plaintext_bytes` more to read.

        At least the current record must be complete. Records are longer than their plaintext. It is only
        called if nothing is unread.
        """
        rest = self.rest
        if not rest:
            return plaintext_bytes
        record_bytes = HEADER_BYTES
        if len(rest) >= HEADER_BYTES:
            record_bytes += _unpack_length(rest)[0]
        return max(record_bytes, plaintext_bytes) - len(rest)

    def receive(self, data: memoryview) -> None:
        """Accept ciphertext: `rest` and the bytes that were received after it."""
        end, position, records = len(data), 0, 0
        last_header = end - HEADER_BYTES
        while position <= last_header and records < RECORDS_MAX:
            next_record = position + HEADER_BYTES + _unpack_length(data, position)[0]
            if next_record > end:
                if next_record - position <= RECORD_BYTES_MAX:
                    break
                # OpenSSL rejects it because of its header.
                next_record = end
            position = next_record
            records += 1
        self.rest = bytes(data[position:])
        self._has_more_records = records == RECORDS_MAX
        if position:
            self._incoming.write(data[:position])
            self._unread_records += records

    def continue_handshake(self) -> bool:
        """Use the received records for the handshake; return whether it is complete.

        Errors: ssl.SSLError if the handshake has failed.
        """
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._has_more_records:
                    return False
                self.receive(memoryview(self.rest))
            else:
                self._empty_records = -self._unread_records
                return True

    def read_into(self, view: memoryview) -> int:
        """Decrypt up to RECORDS_MAX records, until `view` is full; return the number of bytes.

        Errors: InvalidRecordsError; the bytes that were decrypted in the same call are lost.
        """
        if not self._unread_records:
            self.receive(memoryview(self.rest))
        read, size, count = self._read, len(view), 0
        assert size, "reading must be paused while there is no memory"
        try:
            while self._unread_records:
                length = read(size - count, view[count:] if count else view)
                if not length:
                    self._end()
                    break
                count += length
                if count == size:
                    if not self.tls.pending():
                        self._unread_records -= 1
                    break
                self._unread_records -= 1
        except ssl.SSLWantReadError:
            self._count_empty_records()
        except ssl.SSLError as error:
            raise InvalidRecordsError(error.reason) from error
        self._bytes_since_empty += count
        return count

    def _end(self) -> None:
        """Ignore what follows close_notify."""
        self.has_peer_closed = True
        self._unread_records = 0
        self._has_more_records = False

    def _count_empty_records(self) -> None:
        """Count the records that had no plaintext. Errors: InvalidRecordsError if there are too many."""
        if self._bytes_since_empty >= EMPTY_PER_BYTES:
            self._bytes_since_empty = self._empty_records = 0
        self._empty_records += self._unread_records
        self._unread_records = 0
        if self._empty_records >= EMPTY_RECORDS_MAX:
            raise InvalidRecordsError(
                f"{self._empty_records} records without data, less than {EMPTY_RECORDS_MAX} are allowed"
            )

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt `data`, which must not be empty."""
        written = self.tls.write(data)
        assert written == len(data), f"OpenSSL has encrypted {written} of {len(data)} bytes"

    def write_close_notify(self) -> None:
        """Write close_notify: no plaintext of this side follows."""
        # The error is that the client's close_notify is missing, or that the session has failed before.
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()

    def take_outgoing(self) -> bytes:
        """Return the ciphertext for the client since the last call."""
        return self._outgoing.read()
