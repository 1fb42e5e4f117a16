"""The loggers of a process by Kafka's names of levels."""

from __future__ import annotations

import logging

import pytest

from tidelog.broker.observability.logger_levels import LEVELS, LoggerLevels
from tidelog.broker.observability.logging_setup import TRACE
from tidelog.cluster.controller.configs import ConfigChange, ConfigOperation
from tidelog.protocol.errors import ErrorCode, KafkaError

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


def loggers() -> tuple[logging.Manager, LoggerLevels]:
    """Yield separate loggers, so that those of the test do not change."""
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    for name in (
        "tidelog.broker.network.listener",
        "tidelog.broker.node.node",
        "tidelog.broker.network.connection",
    ):
        manager.getLogger(name)
    return manager, LoggerLevels(manager)


def change_levels(levels: LoggerLevels, *changes: tuple[str, int, str | None]) -> dict[str, str]:
    config_changes = [ConfigChange(*change) for change in changes]
    levels.check(config_changes)
    levels.alter(config_changes)
    return levels.levels()


def test_a_level_applies_to_child_loggers_without_a_level() -> None:
    _, levels = loggers()
    levels_after = change_levels(
        levels, ("tidelog.broker.network", SET, "DEBUG"), ("tidelog.broker.network.listener", SET, "ERROR")
    )
    assert levels_after == {
        "root": "INFO",
        "tidelog": "INFO",
        "tidelog.broker": "INFO",
        "tidelog.broker.node": "INFO",
        "tidelog.broker.network": "DEBUG",
        "tidelog.broker.network.connection": "DEBUG",
        "tidelog.broker.network.listener": "ERROR",
        "tidelog.broker.node.node": "INFO",
    }
    assert change_levels(levels, ("root", SET, "WARN"))["tidelog.broker.node.node"] == "WARN"
    levels_after = change_levels(
        levels, ("tidelog.broker.network.listener", DELETE, None), ("tidelog.broker.network", DELETE, None)
    )
    assert set(levels_after.values()) == {"WARN"}


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (logging.NOTSET, "TRACE"),
        (TRACE, "TRACE"),
        (logging.DEBUG, "DEBUG"),
        (15, "INFO"),
        (logging.WARNING, "WARN"),
        (logging.CRITICAL, "FATAL"),
        (logging.CRITICAL + 1, "OFF"),
    ],
)
def test_every_level_of_python_has_a_name(level: int, name: str) -> None:
    manager, levels = loggers()
    manager.root.setLevel(level)
    assert levels.levels()["root"] == name


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_that_is_set_is_described(name: str) -> None:
    manager, levels = loggers()
    assert change_levels(levels, ("tidelog.broker", SET, name))["tidelog.broker.node.node"] == name
    assert manager.getLogger("tidelog.broker.node.node").isEnabledFor(LEVELS[name])
    assert not manager.getLogger("tidelog.broker.node.node").isEnabledFor(LEVELS[name] - 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("root", ConfigOperation.APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (("root", 7, "INFO"), ErrorCode.INVALID_REQUEST),
        (("tidelog.broker", SET, "WARNING"), ErrorCode.INVALID_CONFIG),
        (("tidelog.broker", SET, "debug"), ErrorCode.INVALID_CONFIG),
        (("tidelog.broke", SET, "DEBUG"), ErrorCode.INVALID_CONFIG),
        (("tidelog.broke", DELETE, None), ErrorCode.INVALID_CONFIG),
        (("", SET, "DEBUG"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_creates_no_logger(change: tuple[str, int, str | None], code: ErrorCode) -> None:
    manager, levels = loggers()
    before = set(manager.loggerDict)
    with pytest.raises(KafkaError) as refused:
        levels.check([ConfigChange(*change)])
    assert refused.value.code is code
    assert set(manager.loggerDict) == before


def test_the_process_has_the_loggers_of_its_modules() -> None:
    levels = LoggerLevels().levels()
    assert {"root", "tidelog.broker", "tidelog.broker.observability.logger_levels"} <= levels.keys()
