"""Changes by the console: only if they are allowed, by its own page, and by the authorizer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.console.browser import Browser, signed_in_browser
from tests.integration.console.conftest import running_console
from tests.support.chromium import running_browser
from tidelog.base.properties import properties_text
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.local_cluster.security import Security
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def changed_cluster() -> Iterator[EmbeddedCluster]:
    """Run a node with a topic of two partitions."""
    with EmbeddedCluster() as cluster:
        cluster.create_topics({"tides": 2})
        yield cluster


@pytest.fixture(scope="module")
def writable_address(changed_cluster: EmbeddedCluster) -> Iterator[str]:
    """Run a console that allows writes."""
    with running_console(changed_cluster.bootstrap_servers, "--allow-writes") as printed:
        yield printed


@pytest.fixture
async def writer(writable_address: str) -> AsyncIterator[Browser]:
    """Return a browser that has opened the address of a console that allows writes."""
    async with signed_in_browser(writable_address) as client:
        yield client


async def test_a_topic_is_created(writer: Browser, changed_cluster: EmbeddedCluster) -> None:
    document = {"name": "created", "partitions": 3, "configs": {"retention.ms": "1000"}}
    assert await writer.post("topics", document) == (200, {"name": "created", "partitions": 3})
    _, topic = await writer.get("topics/created")
    assert topic["configs"] == {"retention.ms": "1000"}
    status, error = await writer.post("topics", document)
    assert status == 502 and "created" in error["error"]


async def test_a_record_is_written(writer: Browser) -> None:
    record = {"partition": 1, "key": "brest", "value": "high", "headers": {"source": "console"}}
    status, written = await writer.post("topics/tides/records", record)
    assert (status, written["partition"]) == (200, 1)
    _, result = await writer.get(f"topics/tides/records?partition=1&offset={written['offset']}&limit=1")
    (read,) = result["records"]
    assert (read["key"], read["value"], read["headers"]) == ("brest", "high", [["source", "console"]])


async def test_offsets_of_a_group_are_planned_and_then_set(
    writer: Browser, changed_cluster: EmbeddedCluster
) -> None:
    for number in range(5):
        await writer.post("topics/tides/records", {"partition": 0, "value": str(number)})
    servers = changed_cluster.bootstrap_servers
    async with Consumer(servers, group_id="harbour") as consumer:
        await consumer.commit({TopicPartition("tides", 0): 5})
    plan = {"topic": "tides:0", "to": "offset", "number": 2}
    status, planned = await writer.post("groups/harbour/offsets", plan)
    assert (status, planned["is_executed"]) == (200, False), planned
    assert [(each["committed_offset"], each["new_offset"]) for each in planned["partitions"]] == [(5, 2)]
    async with Admin(servers) as admin:
        partition = TopicPartition("tides", 0)
        assert (await admin.list_group_offsets("harbour"))[partition].offset == 5
        status, done = await writer.post("groups/harbour/offsets", {**plan, "execute": True})
        assert (status, done["is_executed"]) == (200, True)
        assert (await admin.list_group_offsets("harbour"))[partition].offset == 2


async def test_offsets_of_a_group_with_members_are_not_reset(
    writer: Browser, changed_cluster: EmbeddedCluster
) -> None:
    async with Consumer(changed_cluster.bootstrap_servers, group_id="busy") as consumer:
        consumer.subscribe(["tides"])
        while not consumer.assignment():
            await consumer.poll(100)
        status, error = await writer.post("groups/busy/offsets", {"topic": "tides", "to": "earliest"})
    assert status == 400 and "inactive" in error["error"]


@pytest.mark.parametrize(
    ("path", "document", "text"),
    [
        ("topics", {"partitions": 1}, "name="),
        ("topics", {"name": "t", "partitions": "1"}, "partitions='1': allowed are -1 to 10000"),
        ("topics", {"name": "t", "configs": {"retention.ms": 1}}, "configs: allowed is an object of texts"),
        ("topics", ["t"], "a JSON object"),
        ("topics/tides/records", {"value": 5}, "value=5: allowed is a text or null"),
        (
            "groups/harbour/offsets",
            {"topic": "tides", "to": "yesterday"},
            "to=yesterday: allowed are earliest",
        ),
    ],
)
async def test_invalid_values_are_named(writer: Browser, path: str, document: object, text: str) -> None:
    status, error = await writer.post(path, document)
    assert status == 400, error
    assert text in error["error"]


async def test_changes_of_other_sites_and_of_forms_are_refused(writer: Browser) -> None:
    document = {"name": "foreign"}
    assert (await writer.post("topics", document, headers={"Origin": "http://evil.example"}))[0] == 403
    async with writer.session.post(f"{writer.url}api/topics", data="name=foreign") as response:
        assert response.status == 415
    _, topics = await writer.get("topics")
    assert "foreign" not in [topic["name"] for topic in topics]


async def test_the_authorizer_decides_about_changes(tmp_path: Path) -> None:
    security = Security(
        protocol="SASL_PLAINTEXT",
        mechanism="PLAIN",
        users={"admin": "admin-secret", "mallory": "mallory-secret"},
        super_users=["admin"],
    )
    statuses = {}
    with EmbeddedCluster(security=security) as cluster:
        cluster.create_topics(["tides"])
        for user in security.users:
            file = tmp_path / user
            file.write_text(properties_text(cluster.client_settings(user).properties))
            options = ("--allow-writes", "--command-config", str(file))
            with running_console(cluster.bootstrap_servers, *options) as address:
                async with signed_in_browser(address) as browser:
                    statuses[user] = [
                        (await browser.post("topics", {"name": f"of-{user}"}))[0],
                        (await browser.post("topics/tides/records", {"value": "high"}))[0],
                        (await browser.post("groups/g/offsets", {"topic": "tides", "to": "latest"}))[0],
                    ]
    assert statuses == {"admin": [200, 200, 200], "mallory": [403, 403, 403]}


async def test_a_record_is_written_with_the_form_of_the_page(writable_address: str, tmp_path: Path) -> None:
    async with running_browser(tmp_path) as page:
        await page.open(f"{writable_address}#/topics/tides", 1280)
        form = "document.querySelector('form[aria-label=\"Write a record\"]')"
        await page.wait_for(f"{form} !== null")
        await page.value(f"{form}.value.value = 'from the page'")
        await page.value(f"{form}.requestSubmit()")
        await page.wait_for(f"{form}.nextElementSibling.textContent.startsWith('Written to partition ')")
        assert page.problems == []
