"""Describes and changes the log levels of this process while it runs, with Kafka's level names (KIP-412).

Python's loggers have the names of their modules; the root logger is `root`. A package whose modules have
loggers is a logger, too, because its level applies to all of them.

| Kafka | TRACE | DEBUG | INFO | WARN | ERROR | FATAL |
|---|---|---|---|---|---|---|
| Python | 5 | DEBUG | INFO | WARNING | ERROR | CRITICAL |

Changes are not stored: at start the levels of the command line apply.

Errors: KafkaError INVALID_CONFIG for a logger or a level that does not exist, INVALID_REQUEST otherwise.
Source: KIP-412, KIP-1044; RuntimeLoggerManager and Log4jCoreController of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from tidelog.broker.observability.logging_setup import TRACE
from tidelog.cluster.controller.configs import ConfigChange, ConfigOperation
from tidelog.protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_OFF: Final = "OFF"

_log = logging.getLogger(__name__)


class LoggerLevels:
    """The levels of the loggers of `manager`, by default of all loggers of this process."""

    def __init__(self, manager: logging.Manager | None = None) -> None:
        self._manager = logging.root.manager if manager is None else manager

    def levels(self) -> dict[str, str]:
        """Return the level in force of each logger by name."""
        names = sorted(self._manager.loggerDict)
        return {ROOT: _level_name(self._manager.root.level)} | {
            name: self._effective_level(name) for name in names
        }

    def check(self, changes: Iterable[ConfigChange]) -> None:
        """Raise KafkaError if one of the changes is not allowed."""
        for change in changes:
            if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
                raise _invalid_request(
                    f"{_operation(change)} operation is not allowed for the BROKER_LOGGER resource"
                )
            if change.key != ROOT and change.key not in self._manager.loggerDict:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.key} does not exist!")
            if change.operation == ConfigOperation.SET and change.value not in LEVELS:
                text = f"Cannot set the log level of {change.key} to {change.value}"
                allowed = f"Valid log levels are {', '.join(sorted(LEVELS))}"
                text = f"{text} as it is not a supported log level. {allowed}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, text)
            if change.operation == ConfigOperation.DELETE and change.key == ROOT:
                raise _invalid_request(f"Removing the log level of the {ROOT} logger is not allowed")

    def alter(self, changes: Iterable[ConfigChange]) -> None:
        """Apply checked changes: set levels, or remove them so that loggers inherit their parent's level."""
        for change in changes:
            logger = self._logger(change.key)
            if change.operation == ConfigOperation.SET:
                assert change.value is not None
                logger.setLevel(LEVELS[change.value])
                _log.warning("Updated the log level of %s to %s", change.key, change.value)
            else:
                logger.setLevel(logging.NOTSET)
                _log.warning("Unset the log level of %s", change.key)

    def _logger(self, name: str) -> logging.Logger:
        return self._manager.root if name == ROOT else self._manager.getLogger(name)

    def _effective_level(self, name: str) -> str:
        """Return the level in force, also of a package that has no logger of its own."""
        loggers = self._manager.loggerDict
        while not isinstance(logger := loggers.get(name, self._manager.root), logging.Logger):
            name = name.rpartition(".")[0]
        return _level_name(logger.getEffectiveLevel())


def _level_name(level: int) -> str:
    """Return the name of the lowest of Kafka's levels that is logged at `level`."""
    return next((name for name, number in LEVELS.items() if level <= number), _OFF)


def _operation(change: ConfigChange) -> str:
    is_known = change.operation in tuple(ConfigOperation)
    return ConfigOperation(change.operation).name if is_known else f"Unknown ({change.operation})"


def _invalid_request(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
