"""The Python programs of the documents, run as tests with what each presumes.

The programs of README and of the tutorial are run by test_tutorial.py, those of docs/spark.md by
tests/spark/test_spark_document.py.
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


def test_the_producer_with_tokens_of_the_application_authenticates(tmp_path: Path) -> None:
    program, _ = code_blocks(DOCUMENTS / "security.md", "python")
    # Unsecured tokens need no identity provider, and the certificates of the second program no file here.
    producer = program.replace('"broker1.example:9093"', "servers").replace("SASL_SSL", "SASL_PLAINTEXT")
    test = f"""
import asyncio
import time

from tests.support.security.identity_provider import unsecured_token
from tidelog import EmbeddedCluster, Producer
from tidelog.broker.config.oauthbearer_config import UNSECURED_VALIDATOR


def fetch_token():
    now_s = int(time.time())
    return unsecured_token({{"sub": "alice", "iat": now_s, "exp": now_s + 60}})


async def produce(servers):
    producer = {indent(producer, "    ").strip()}
    async with producer:
        return await (await producer.send("tides", b"high"))


def test_oauthbearer():
    config = {{
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED_VALIDATOR,
    }}
    with EmbeddedCluster(config=config) as cluster:
        cluster.create_topics(["tides"])
        port = cluster.run(lambda node: node.bound_port("SASL_PLAINTEXT"))
        assert asyncio.run(produce(f"127.0.0.1:{{port}}")).offset == 0
"""
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


def test_the_acknowledgements_of_an_explicit_share_consumer_have_their_effects(tmp_path: Path) -> None:
    _, acknowledgements = code_blocks(DOCUMENTS / "share-groups.md", "python")
    imported, *calls = [line for line in acknowledgements.splitlines() if line]
    accept, release, reject, renew = calls
    test = f"""
import asyncio
from collections import Counter

{imported}
from tidelog import Admin, EmbeddedCluster, Producer, ShareConsumer
from tidelog.clients.admin.admin import ConfigChange, ConfigResource, ResourceType

DECISIONS = {{
    b"accept": [{accept.partition("#")[0].strip()!r}],
    b"release": [{release.partition("#")[0].strip()!r}, {accept.partition("#")[0].strip()!r}],
    b"reject": [{reject.partition("#")[0].strip()!r}],
    b"renew": [{renew.partition("#")[0].strip()!r}, {accept.partition("#")[0].strip()!r}],
}}


async def consume(servers):
    group = ConfigResource(ResourceType.GROUP, "workers")
    async with Admin(servers) as admin:
        change = ConfigChange(name="share.auto.offset.reset", value="earliest")
        assert (await admin.incremental_alter_configs({{group: [change]}}))[group] is None
    async with Producer(servers) as producer:
        for value in DECISIONS:
            await (await producer.send("jobs", value))
    deliveries = Counter()
    remaining = {{value: list(calls) for value, calls in DECISIONS.items()}}
    options = {{"group_id": "workers", "share_acknowledgement_mode": "explicit"}}
    async with ShareConsumer(servers, **options) as consumer:
        consumer.subscribe(["jobs"])
        while any(remaining.values()):
            for records in (await consumer.poll()).values():
                for record in records:
                    deliveries[record.value] += 1
                    names = {{"consumer": consumer, "record": record, "AcknowledgeType": AcknowledgeType}}
                    exec(remaining[record.value].pop(0), names)
        errors = await consumer.commit()
        assert not any(errors.values())
    return deliveries


def test_acknowledgements():
    with EmbeddedCluster() as cluster:
        cluster.create_topics(["jobs"])
        counts = asyncio.run(consume(cluster.bootstrap_servers))
    assert counts == {{b"accept": 1, b"release": 2, b"reject": 1, b"renew": 2}}
"""
    assert "1 passed" in run_tests(tmp_path, test)
