"""Isolation of the loopback addresses of nodes, with iptables, in one or both directions.

Nodes bind their own connections to their own address (127.0.0.11, …), so that a rule matches only the
traffic between two nodes; clients use 127.0.0.1 and are not affected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

CHAIN: Final = "TIDELOG-FAULTS"


def reason_not_available() -> str | None:
    """Return the reason why nodes cannot be isolated on this machine; None if they can."""
    if os.geteuid() != 0:
        return "isolation of nodes needs root"
    if shutil.which("iptables") is None:
        return "iptables is not installed"
    result = subprocess.run(["iptables", "-w", "-S", "INPUT"], capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else f"iptables does not work here: {result.stderr.strip()}"


class Firewall:
    """An iptables chain in front of INPUT during the `with` block."""

    def __enter__(self) -> Firewall:
        self._run("-N", CHAIN, check=False)
        self._run("-F", CHAIN)
        self._run("-I", "INPUT", "-j", CHAIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._run("-D", "INPUT", "-j", CHAIN, check=False)
        self._run("-F", CHAIN, check=False)
        self._run("-X", CHAIN, check=False)

    def drop(self, source: str, destination: str, port: int | None = None) -> None:
        """Drop packets from one address to another, or to a port of it."""
        to_port = [] if port is None else ["-p", "tcp", "--dport", str(port)]
        self._run("-A", CHAIN, "-s", source, "-d", destination, *to_port, "-j", "DROP")

    def heal(self) -> None:
        """Remove all rules."""
        self._run("-F", CHAIN)

    @staticmethod
    def _run(*arguments: str, check: bool = True) -> None:
        subprocess.run(["iptables", "-w", *arguments], check=check, capture_output=True)
