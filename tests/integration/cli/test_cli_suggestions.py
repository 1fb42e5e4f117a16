"""Suggestions for mistyped commands, options and keys; completion in shells."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.cli import tidelog_failure
from tidelog.testing.embedded import EmbeddedCluster


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("tpoic",), "tidelog: No such command 'tpoic'; did you mean topic? Try 'tidelog --help'."),
        (("topic", "crate", "x"), "did you mean 'create'"),
        (("topic", "list", "--jsn"), "--json"),
        (("topic", "list", "-X", "securty.protocol=SSL"), "did you mean security_protocol"),
        (("dev", "-o", "log.retention.hour=3"), "the key is unknown; did you mean log.retention.hours"),
        (("cluster", "start", "-o", "num.partition=3"), "the key is unknown; did you mean num.partitions"),
    ],
)
def test_a_mistyped_name_is_refused_with_similar_names(arguments: tuple[str, ...], hint: str) -> None:
    assert hint in tidelog_failure(*arguments, code=2)


def test_a_mistyped_key_of_a_topic_is_refused_with_similar_keys() -> None:
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        error = tidelog_failure("topic", "create", "tides", "-c", "retention.m=1", bootstrap=servers)
    assert "did you mean retention.ms" in error


def test_a_shell_completes_commands_and_subcommands() -> None:
    assert completions("tidelog to") == ["topic", "token"]
    assert "describe" in completions("tidelog topic de")


def completions(line: str) -> list[str]:
    """Return what bash offers after `line`."""
    environment = {
        **os.environ,
        "_TIDELOG_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tidelog"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()
