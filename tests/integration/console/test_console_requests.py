"""The console's responses to requests: documents, records, events, and refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from tests.integration.console.browser import Browser, signed_in_browser
from tests.integration.console.conftest import HOSTILE, SHARE_GROUP, running_console
from tidelog.base.properties import properties_text
from tidelog.local_cluster.security import Security
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
async def browser(address: str) -> AsyncIterator[Browser]:
    """Return a browser that has opened the printed address."""
    async with signed_in_browser(address) as client:
        yield client


async def test_the_page_and_its_files_have_a_strict_policy(browser: Browser) -> None:
    for path in ("", "static/console.js", "static/console.css", "api/overview", "nothing"):
        async with browser.session.get(f"{browser.url}{path}") as response:
            assert response.status == (404 if path == "nothing" else 200)
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
            assert "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_requests_without_the_cookie_or_with_another_host_are_refused(address: str) -> None:
    url = URL(address).with_query(None)
    async with aiohttp.ClientSession() as session:
        for path in ("", "api/topics", "static/console.js"):
            async with session.get(f"{url}{path}") as response:
                assert response.status == 401
        async with session.get(f"{url}?token=wrong") as response:
            assert response.status == 401
        async with session.get(address, headers={"Host": "evil.example"}) as response:
            assert response.status == 421
            assert "Set-Cookie" not in response.headers


async def test_the_token_redirects_to_the_page_whatever_the_path_is(address: str) -> None:
    url = URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    path = f"//evil.example/?{url.query_string}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    assert b"\r\nLocation: /\r\n" in response


async def test_the_cookie_is_hidden_from_scripts_and_other_sites(address: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(address, allow_redirects=False) as response,
    ):
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie


async def test_two_consoles_of_one_machine_are_used_at_the_same_time(
    browser: Browser, cluster: EmbeddedCluster
) -> None:
    with running_console(cluster.bootstrap_servers) as second:
        async with browser.session.get(second) as response:
            assert response.status == 200
        assert (await browser.get("overview"))[0] == 200


async def test_the_console_changes_nothing(browser: Browser) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        async with browser.session.request(method, f"{browser.url}api/topics") as response:
            assert response.status == 405


async def test_overview_topics_and_groups(browser: Browser) -> None:
    _, overview = await browser.get("overview")
    assert (overview["healthy"], [node["state"] for node in overview["nodes"]]) == (True, ["serving"])
    _, topics = await browser.get("topics")
    assert [topic["partitions"] for topic in topics if topic["name"] == "tides"] == [2]
    _, topic = await browser.get("topics/tides")
    assert topic["is_tiered"]
    assert [each["log_end_offset"] for each in topic["partitions"]] == [103, 0]
    _, groups = await browser.get("groups")
    assert [(group["group_id"], group["group_type"]) for group in groups] == [
        (HOSTILE, "classic"),
        (SHARE_GROUP, "share"),
    ]
    _, group = await browser.get(f"groups/{quote(HOSTILE, safe='')}")
    assert group["total_lag"] == 43
    for path in ("transactions", "quotas"):
        assert await browser.get(path) == (200, [])


async def test_a_share_group_with_its_offsets(browser: Browser) -> None:
    _, group = await browser.get(f"share-groups/{SHARE_GROUP}")
    assert (group["state"], group["members"]) == ("Empty", [])
    assert [(each["topic"], each["partition"]) for each in group["offsets"]] == [("tides", 0), ("tides", 1)]
    status, document = await browser.get("share-groups/nosuch")
    assert status == 404, document


async def test_the_topics_have_their_end_offsets_for_rates(browser: Browser) -> None:
    _, topics = await browser.get("topics")
    assert {topic["name"]: topic["end_offsets"] for topic in topics}["tides"] == 103


async def test_the_topics_have_the_sizes_of_their_leaders_for_rates_in_bytes(browser: Browser) -> None:
    _, topics = await browser.get("topics")
    written, empty = {topic["name"]: topic["leader_sizes_bytes"] for topic in topics}["tides"]
    assert written > 1_000
    assert empty == 0


async def test_the_tier_has_its_cost_if_prices_are_known(browser: Browser, cluster: EmbeddedCluster) -> None:
    assert (await browser.get("topics/tides/tier"))[1]["cost"] is None
    prices = ("--price-gb-month", "0.023", "--price-1000-requests", "0.005", "--price-currency", "EUR")
    with running_console(cluster.bootstrap_servers, *prices) as address:
        async with signed_in_browser(address) as other:
            _, tier = await other.get("topics/tides/tier")
    assert tier["cost"] == {
        "month": pytest.approx(0.023 * tier["size_bytes"] / 2**30),
        "requests": pytest.approx(0.005 * tier["objects"] / 1000),
        "currency": "EUR",
    }


async def test_the_tier_has_leader_epochs_objects_and_copies(browser: Browser) -> None:
    _, tier = await browser.get("topics/tides/tier")
    assert [each["partition"] for each in tier["partitions"]] == [0, 1]
    assert tier["partitions"][0]["leader_epochs"] == [{"leader_epoch": 0, "start_offset": 0}]
    assert (tier["objects"], tier["size_bytes"]) == (3 * tier["segments"], 0)
    assert (await browser.get("topics/nosuch/tier"))[0] == 404


async def test_records_from_an_offset_and_the_last_ones(browser: Browser) -> None:
    _, search = await browser.get("topics/tides/records?partition=0&offset=10&limit=2")
    assert [(each["offset"], each["key"]) for each in search["records"]] == [(10, "key-10"), (11, "key-11")]
    assert (search["next_offset"], search["is_complete"], search["end_offset"]) == (12, False, 103)
    _, search = await browser.get("topics/tides/records?partition=0&limit=2")
    assert [each["value"] for each in search["records"]] == [{"base64": "/wA="}, None]
    assert search["is_complete"]


async def test_records_from_a_time_and_with_filters(browser: Browser) -> None:
    _, all_records = await browser.get("topics/tides/records?partition=0&offset=0&limit=500")
    middle = all_records["records"][50]["timestamp_ms"]
    _, search = await browser.get(f"topics/tides/records?partition=0&timestamp_ms={middle}&limit=1")
    assert search["records"][0]["timestamp_ms"] >= middle
    _, search = await browser.get("topics/tides/records?partition=0&offset=0&key=key-9")
    assert [each["offset"] for each in search["records"]] == [9, *range(90, 100)]
    _, search = await browser.get("topics/tides/records?partition=0&offset=0&text=onerror")
    assert [each["headers"] for each in search["records"]] == [[[HOSTILE, HOSTILE]]]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("topics/nosuch", 404, "nosuch"),
        ("topics/nosuch/records", 404, "nosuch"),
        ("topics/tides/records?partition=9", 404, "tides-9 does not exist"),
        ("topics/tides/records?limit=501", 400, "limit=501: allowed are 1 to 500"),
        ("topics/tides/records?offset=-1", 400, "offset=-1"),
    ],
)
async def test_errors_name_the_problem(browser: Browser, path: str, status: int, text: str) -> None:
    status_code, document = await browser.get(path)
    assert status_code == status, document
    assert text in document["error"]


async def test_reading_a_topic_that_does_not_exist_does_not_create_it(browser: Browser) -> None:
    assert (await browser.get("topics/created-by-reading/records"))[0] == 404
    _, topics = await browser.get("topics")
    assert "created-by-reading" not in [topic["name"] for topic in topics]


async def test_events_contain_the_overview(browser: Browser) -> None:
    async with browser.session.get(f"{browser.url}api/events") as response:
        assert response.content_type == "text/event-stream"
        assert await response.content.readline() == b"event: overview\n"
        line = await response.content.readline()
        assert json.loads(line.removeprefix(b"data: "))["healthy"]


async def test_the_console_has_the_rights_of_its_connection(tmp_path: Path) -> None:
    security = Security(
        protocol="SASL_PLAINTEXT",
        mechanism="PLAIN",
        users={"admin": "admin-secret", "mallory": "mallory-secret"},
        super_users=["admin"],
    )
    with EmbeddedCluster(security=security) as cluster:
        cluster.create_topics(["tides"])
        statuses = {}
        for user in security.users:
            file = tmp_path / user
            file.write_text(properties_text(cluster.client_settings(user).properties))
            with running_console(cluster.bootstrap_servers, "--command-config", str(file)) as address:
                async with signed_in_browser(address) as browser:
                    paths = ("topics/tides/records", "topics/tides", "acls")
                    statuses[user] = [(await browser.get(path))[0] for path in paths]
    assert statuses == {"admin": [200, 200, 200], "mallory": [403, 403, 403]}


async def test_a_head_request_occupies_no_stream_of_events(browser: Browser) -> None:
    async with browser.session.head(f"{browser.url}api/events") as response:
        assert response.status == 405


async def test_a_cookie_that_is_not_utf_8_is_refused(address: str) -> None:
    url = URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    cookie = b"tidelog_console_%d=\xff" % (url.port or 0)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + cookie + b"\r\nConnection: close\r\n\r\n")
    status_line = await reader.readline()
    writer.close()
    assert b" 401 " in status_line
