"""The topic's settings as one log uses them."""

from __future__ import annotations

from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.validation_rules import ValidationRules


class LogSettings:
    """The current config of a log, and the validation rules that are derived from it."""

    __slots__ = ("config", "rules")

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.rules = ValidationRules.of(config)

    def update(self, config: LogConfig) -> None:
        """Use `config` from the next operation on."""
        self.config = config
        self.rules = ValidationRules.of(config)
