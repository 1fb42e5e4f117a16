"""In-process requests from a node to its own controller."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.in_process import InProcessRequests


class InProcessController(InProcessRequests):
    """Implements LocalController for a ControllerChannel: calls the controller's dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, is_active: Callable[[], bool], clock: Clock, client_id: str
    ) -> None:
        super().__init__(dispatcher, clock, client_id)
        self._is_active = is_active

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._is_active()
