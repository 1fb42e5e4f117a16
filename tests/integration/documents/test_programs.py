"""The Python programs of the documents, run as tests with what each presumes.

The programs of README and of the tutorial are run by test_tutorial.py. Those of docs/spark.md, the excerpt
for OAUTHBEARER in docs/security.md and the acknowledgements in docs/share-groups.md are not run.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Final

from tests.support.document_commands import code_blocks
from tests.support.paths import ROOT
from tests.support.python_programs import output_of

IMPORTS: Final = "import confluent_kafka\nimport pytest\n"
DOCUMENTS: Final = ROOT / "docs"


def run_tests(folder: Path, program: str) -> str:
    """Run a file of tests, which pass, with pytest; return the last line of the output."""
    file = folder / "test_document.py"
    file.write_text(IMPORTS + program)
    return output_of(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)).splitlines()[-1]


def test_the_tests_of_the_fixtures_pass(tmp_path: Path) -> None:
    produces = """
    def produce(broker):
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("tides", "high")
        assert producer.flush(30) == 0
    """
    first, marked, retention = code_blocks(DOCUMENTS / "pytest.md", "python")
    first = first.replace("test_orders", "test_orders_without_a_mark")
    program = "\n".join((dedent(produces), first, marked, retention))
    assert "3 passed" in run_tests(tmp_path, program)


def test_the_tests_of_the_simulation_pass(tmp_path: Path) -> None:
    program = "\n".join(code_blocks(DOCUMENTS / "simulation.md", "python"))
    assert "2 passed" in run_tests(tmp_path, program)


def test_the_program_with_a_secured_cluster_runs(tmp_path: Path) -> None:
    _, program = code_blocks(DOCUMENTS / "security.md", "python")
    check = "assert producer.list_topics(timeout=30).brokers"
    test = "\n".join(("def test_secured():", indent(f"{program}\n    {check}", "    ")))
    assert "1 passed" in run_tests(tmp_path, test)


def test_the_program_of_a_share_consumer_processes_records(tmp_path: Path) -> None:
    read, _ = code_blocks(DOCUMENTS / "share-groups.md", "python")
    test = f"""
import asyncio

from tidelog import Admin, EmbeddedCluster, Producer
from tidelog.clients.admin.admin import ConfigChange, ConfigResource, ResourceType


class Finished(Exception):
    pass


def work(value):
    assert value == b"one"
    raise Finished


async def consume(servers):
    group = ConfigResource(ResourceType.GROUP, "workers")
    async with Admin(servers) as admin:
        change = ConfigChange(name="share.auto.offset.reset", value="earliest")
        assert (await admin.incremental_alter_configs({{group: [change]}}))[group] is None
    async with Producer(servers) as producer:
        await (await producer.send("jobs", b"one"))
{indent(read.replace('"localhost:9092"', "servers"), "    ")}


def test_share_consumer():
    with EmbeddedCluster() as cluster, pytest.raises(Finished):
        cluster.create_topics(["jobs"])
        asyncio.run(consume(cluster.bootstrap_servers))
"""
    assert "1 passed" in run_tests(tmp_path, test)
