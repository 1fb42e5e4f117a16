"""One log line per event, whatever its text contains."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tidelog.broker.observability.logging_setup import LogFormat, configure_logging


@pytest.fixture(autouse=True)
def _restore_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines_of(log_format: LogFormat, level: str = "INFO") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    configure_logging(log_format, level, stream)
    return logging.getLogger("tidelog.broker.test"), stream


def test_text_lines_are_key_value_pairs() -> None:
    logger, stream = lines_of("text")
    logger.warning("closing %s", "now", extra={"peer": "10.0.0.1:5", "count": 3})
    line = stream.getvalue()
    assert line.endswith(
        ' level=WARNING logger=tidelog.broker.test msg="closing now" peer=10.0.0.1:5 count=3\n'
    )
    time = line.split(" ", 1)[0]
    assert time.startswith("time=2")
    assert time.endswith("Z")


def test_json_lines_have_the_same_fields() -> None:
    logger, stream = lines_of("json")
    logger.info("größe %d", 1, extra={"topic": "t"})
    fields = json.loads(stream.getvalue())
    assert (fields["level"], fields["msg"], fields["topic"]) == ("INFO", "größe 1", "t")


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "evil", ["a\nlevel=ERROR forged", "a\r\nb", "\x1b[31m", "a\u2028b", "a\x85b", 'a"b', ""]
)
def test_text_of_a_peer_cannot_forge_a_log_line(log_format: LogFormat, evil: str) -> None:
    logger, stream = lines_of(log_format)
    logger.info("client id %s", evil, extra={"client": evil})
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert text.rstrip("\n").isprintable()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_stays_on_its_line(log_format: LogFormat) -> None:
    logger, stream = lines_of(log_format)
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        logger.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "ZeroDivisionError" in stream.getvalue()


def test_the_level_applies_and_repeated_set_up_replaces_handlers() -> None:
    _, first = lines_of("text")
    logger, second = lines_of("text", "WARNING")
    logger.info("quiet")
    logger.warning("loud")
    assert first.getvalue() == ""
    assert "quiet" not in second.getvalue()
    assert second.getvalue().count("\n") == 1


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure_logging("text", "LOUD", io.StringIO())


def test_extra_fields_cannot_replace_the_standard_ones() -> None:
    logger, stream = lines_of("json")
    logger.info("true", extra={"level": "FORGED", "logger": "FORGED", "time": "FORGED"})
    assert "FORGED" not in stream.getvalue()
