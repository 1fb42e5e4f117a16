"""Changes of the levels of this node's loggers by IncrementalAlterConfigs (KIP-412).

The node that the request names makes them. They are neither forwarded nor stored.
"""

from __future__ import annotations

from tidelog.broker.api.handlers.config_names import check_own_id
from tidelog.broker.observability.logger_levels import LoggerLevels
from tidelog.cluster.controller.configs import ResourceChange
from tidelog.cluster.controller.result import SUCCESS, Outcome
from tidelog.protocol.ids import BrokerId


class LoggerChanges:
    """Changes the levels of the loggers of this node, a broker or a controller."""

    def __init__(self, node_id: BrokerId, levels: LoggerLevels) -> None:
        self._node_id = node_id
        self._levels = levels

    def outcome(self, requested: ResourceChange, *, validate_only: bool) -> Outcome:
        """Make all changes or none. Raise KafkaError INVALID_REQUEST, INVALID_CONFIG."""
        check_own_id(self._node_id, requested.resource[1], str(self._node_id))
        self._levels.check(requested.changes)
        if not validate_only:
            self._levels.alter(requested.changes)
        return SUCCESS
