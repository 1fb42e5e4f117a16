"""Error codes equal Kafka's; KafkaError and DecodeError name the cause."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError


def test_codes_names_and_retriability_equal_kios() -> None:
    ours = {(int(code), code.name, code.retriable) for code in ErrorCode}
    theirs = {(int(code), code.name.upper(), code.retriable) for code in KioErrorCode}
    assert ours == theirs


def test_a_kafka_error_without_message_describes_its_code() -> None:
    assert str(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) == "unknown topic or partition"
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is -7")
    assert (error.code, str(error)) == (ErrorCode.INVALID_CONFIG, "retention.ms is -7")


def test_a_decode_error_is_a_value_error() -> None:
    assert issubclass(DecodeError, ValueError)
