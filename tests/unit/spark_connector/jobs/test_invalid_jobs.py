"""A job that cannot run reports the reason in one line, before it starts anything, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.paths import ROOT
from tests.support.spark.local_spark import require_java
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.jobs.topic_span import TopicSource, find_span
from tidelog.testing.embedded import EmbeddedCluster

JOBS = (
    ("archive", "tides", "rows"),
    ("stats", "tides"),
    ("transform", "tides", "ebb", "--sql", "SELECT value FROM source", "--checkpoint", "checkpoint"),
    ("verify", "tides", "-C", "storage.backend.class=filesystem", "-C", "storage.root=."),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


def line_of(*arguments: str, code: int, script: str = "", path: str | None = None) -> str:
    """Run the command in a new process after `script`, with this PATH; return its line on standard error."""
    program = f"{script}\nfrom tidelog.cli.main import main\nmain({list(arguments)!r})"
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"] if path is None else path}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (ended.returncode, ended.stdout) == (code, b""), ended
    (line,) = ended.stderr.decode().splitlines()
    return line


@pytest.mark.parametrize("arguments", JOBS, ids=lambda job: job[0])
def test_without_java_a_job_names_what_to_install(arguments: tuple[str, ...]) -> None:
    line = line_of("spark", *arguments, code=2 if arguments[0] == "verify" else 1, path="/nowhere")
    assert line.startswith("tidelog: Spark needs Java, and none is on the PATH: install Java 17 or later")


def test_an_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    line = line_of("spark", "stats", "tides", code=1, path=str(tmp_path))
    assert f"Spark needs Java 17 or later, and {java} is Java 11" in line


def test_without_pyspark_a_job_names_what_to_install() -> None:
    script = "import sys\nfor name in ('pyspark', 'pyarrow'): sys.modules[name] = None"
    line = line_of("spark", "stats", "tides", code=1, script=script)
    assert line == "tidelog: Spark needs pyspark, pyarrow: pip install 'tidelog[spark]'"


def test_help_lists_the_jobs_without_pyspark() -> None:
    text = tidelog_output("spark", "--help")
    assert all(f"\n  {name}" in text for name in ("archive", "verify", "transform", "stats"))
    program = (
        "import sys\nfrom tidelog.cli.app import app\n"
        "try:\n app(args=['spark', 'stats', '--help'], prog_name='tidelog')\n"
        "except SystemExit: pass\n"
        "assert not {'pyspark', 'pyarrow', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


@pytest.mark.parametrize("arguments", JOBS[:3], ids=lambda job: job[0])
def test_an_unknown_topic_is_refused(arguments: tuple[str, ...], cluster: EmbeddedCluster) -> None:
    require_java()
    line = tidelog_failure("spark", *arguments, bootstrap=cluster.bootstrap_servers)
    assert line == f"tidelog: there is no topic tides at {cluster.bootstrap_servers}"


def test_verify_refuses_an_unknown_topic(cluster: EmbeddedCluster) -> None:
    require_java()
    line = tidelog_failure("spark", *JOBS[3], code=2, bootstrap=cluster.bootstrap_servers)
    assert "[UNKNOWN_TOPIC_OR_PARTITION]" in line


def test_an_unknown_target_or_the_source_topic_is_refused(cluster: EmbeddedCluster) -> None:
    require_java()
    servers = cluster.bootstrap_servers
    tidelog_output("topic", "create", "flood", bootstrap=servers)
    query = ("--sql", "SELECT value FROM source", "--checkpoint", "checkpoint")
    line = tidelog_failure("spark", "transform", "flood", "ebb", *query, bootstrap=servers)
    assert line == f"tidelog: there is no topic ebb at {servers}"
    line = tidelog_failure("spark", "transform", "flood", "flood", *query, code=2, bootstrap=servers)
    assert "topic flood would be written to itself" in line


def test_a_recreated_topic_is_not_appended_to_an_archive(
    cluster: EmbeddedCluster,
) -> None:
    servers = cluster.bootstrap_servers
    tidelog_output("topic", "create", "neap", bootstrap=servers)
    tidelog_output("produce", "neap", stdin="one\ntwo\n", bootstrap=servers)
    source = TopicSource(servers=servers, topics=("neap",), options={})
    partition = TopicPartition("neap", 0)
    assert find_span(source, None, None, {partition: 1}).size == 1
    with pytest.raises(JobFailure, match="neap-0 was read up to offset 3 before, and ends at 2 now"):
        find_span(source, None, None, {partition: 3})


def test_unreachable_brokers_are_reported() -> None:
    require_java()
    options = ("-o", "kafka.default.api.timeout.ms=300")
    line = tidelog_failure("spark", *JOBS[1], *options, bootstrap="127.0.0.1:1")
    assert "no broker can be reached" in line


def test_invalid_options_are_reported(cluster: EmbeddedCluster) -> None:
    require_java()
    servers = cluster.bootstrap_servers
    refused = [
        (("-o", "subscribe=x"), "option subscribe is set by the job"),
        (("-o", "minPartition=1"), "Unknown option: 'minPartition'; did you mean minPartitions"),
        (("-o", "minPartitions"), "-o 'minPartitions' is not key=value"),
        (("-C", "storage.root=."), "-C need --tier direct or --tier offline"),
        (
            ("--tier", "direct"),
            "Missing option: rsm.config.storage.backend.class; it is required with tier=direct",
        ),
        (("--from", "noon"), "Invalid option: --from='noon'; expected"),
    ]
    for options, words in refused:
        assert words in tidelog_failure("spark", *JOBS[1], *options, code=2, bootstrap=servers)
