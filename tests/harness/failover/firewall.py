"""Cuts between the loopback addresses of nodes, with iptables: both directions or one.

Nodes bind their own connections to their own address (127.0.0.11, …), so that a rule meets just the
traffic between two nodes; clients come from 127.0.0.1 and notice nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

CHAIN: Final = "TIDELOG-FAULTS"


def why_not() -> str | None:
    """What keeps cuts from being made on this machine; None when they can be."""
    if os.geteuid() != 0:
        return "cuts between nodes need root"
    if shutil.which("iptables") is None:
        return "there is no iptables"
    tried = subprocess.run(["iptables", "-w", "-S", "INPUT"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"iptables does not work here: {tried.stderr.strip()}"


class Firewall:
    """A chain of its own in front of INPUT while the `with` block lasts."""

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
        """Let nothing from one address reach another, or a port of it."""
        to_port = [] if port is None else ["-p", "tcp", "--dport", str(port)]
        self._run("-A", CHAIN, "-s", source, "-d", destination, *to_port, "-j", "DROP")

    def heal(self) -> None:
        """Let everything pass again."""
        self._run("-F", CHAIN)

    @staticmethod
    def _run(*arguments: str, check: bool = True) -> None:
        subprocess.run(["iptables", "-w", *arguments], check=check, capture_output=True)
