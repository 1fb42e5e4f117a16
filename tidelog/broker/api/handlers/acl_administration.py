"""The common check of the three APIs of access control lists."""

from __future__ import annotations

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, KafkaError


def check_security(config: BrokerConfig) -> None:
    """Raise KafkaError SECURITY_DISABLED unless an authorizer is configured."""
    if not config.authorizer_class_name:
        text = "no authorizer is configured; see authorizer.class.name"
        raise KafkaError(ErrorCode.SECURITY_DISABLED, text)
