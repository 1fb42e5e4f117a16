"""The gauges of a simulated node, as its metrics report them."""

from __future__ import annotations

from tidelog.testing.simulation.cluster import SimulatedNode


class Gauges:
    """Reads gauges of a node by name; the node must run."""

    def __init__(self, node: SimulatedNode) -> None:
        assert node.broker is not None
        self._families = {family.name: family for family in node.broker.metrics.families}

    def total(self, name: str, *labels: str) -> float:
        """Return the sum of a gauge over the label values that begin with `labels`."""
        values = self._families[name].values()
        return sum(value for names, value in values if names[: len(labels)] == labels)  # type: ignore[misc]
