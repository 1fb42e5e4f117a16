from __future__ import annotations

from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords


def test_the_size_is_that_of_all_keys_and_values() -> None:
    encoded = EncodedRecords([(b"key", b"value"), (b"tombstone", None)])
    assert encoded.size_bytes == 8 + 9
    encoded.append((b"k", b""))
    encoded.extend(EncodedRecords([(b"other", b"12345")]))
    assert encoded.records == [(b"key", b"value"), (b"tombstone", None), (b"k", b""), (b"other", b"12345")]
    assert encoded.size_bytes == 8 + 9 + 1 + 10
