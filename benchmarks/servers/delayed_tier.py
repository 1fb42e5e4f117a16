"""A broker with a distant object store: every GET has an additional delay.

python -m benchmarks.servers.delayed_tier <milliseconds> <arguments of the broker>
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import tidelog.remote.objects.config
from benchmarks.delayed_store import delayed
from tidelog.broker.node.process import main
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, StorePorts


def run(arguments: list[str]) -> int:
    """Run the broker; return its exit code."""
    delay_ms = float(arguments[0])

    def make(backend_class: str, values: Mapping[str, str], ports: StorePorts = SYSTEM_PORTS) -> ObjectStore:
        return delayed(object_store(backend_class, values, ports), delay_ms)

    vars(tidelog.remote.objects.config)["object_store"] = make
    return main(arguments[1:], "delayed_tier")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
