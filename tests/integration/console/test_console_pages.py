"""The pages of the console in a real browser."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.console.conftest import HOSTILE, SHARE_GROUP, running_console
from tests.support.chromium import Page, running_browser
from tidelog.testing.embedded import EmbeddedCluster

PICTURES = os.environ.get("TIDELOG_CONSOLE_PICTURES")
"""A directory for pictures of every page; none are written by default."""
PAGES = {
    "overview": ("#/", "Overview"),
    "topics": ("#/topics", "Topics"),
    "topic": ("#/topics/tides", "tides"),
    "groups": ("#/groups", "Groups"),
    "group": (f"#/groups/{quote(HOSTILE, safe='')}", HOSTILE),
    "share group": (f"#/share-groups/{SHARE_GROUP}", SHARE_GROUP),
    "transactions": ("#/transactions", "Transactions"),
    "quotas": ("#/quotas", "Quotas"),
    "access": ("#/acls", "Access control entries"),
}
HEADING = "document.querySelector('h1')?.textContent"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with running_browser(tmp_path) as browser_page:
        yield browser_page


async def open_page(page: Page, address: str, name: str, width: int) -> None:
    """Open a page of the console, and wait until it and the state of the cluster are shown."""
    fragment, heading = PAGES[name]
    await page.open(f"{address}{fragment}", width)
    await page.wait_for(
        f"{HEADING} === {heading!r}" if "'" not in heading else f"{HEADING}?.includes('onerror')"
    )
    await page.wait_for("document.getElementById('state').textContent === 'healthy'")


@pytest.mark.parametrize("width", [1280, 400])
async def test_every_page_fits_in_its_window_and_breaks_no_rule(address: str, page: Page, width: int) -> None:
    for name in PAGES:
        await open_page(page, address, name, width)
        if name == "topic":
            await page.wait_for("document.querySelectorAll('[aria-label=Records] tbody tr').length === 50")
        assert await page.value("document.documentElement.scrollWidth") <= width, name
        assert await page.value("document.querySelectorAll('main table th:not([scope])').length") == 0
        if PICTURES is not None:
            (Path(PICTURES) / f"{name}-{width}.png").write_bytes(await page.screenshot())
    assert page.problems == []


async def test_contents_of_records_and_names_are_shown_as_text_and_never_run(
    address: str, page: Page
) -> None:
    for name in ("topic", "groups", "group"):
        await open_page(page, address, name, 1280)
        if name == "topic":
            await page.wait_for("document.body.textContent.includes('onerror')")
        assert HOSTILE in await page.value("document.querySelector('main').textContent")
        assert await page.value("document.querySelectorAll('main script, main img').length") == 0
        assert "run" not in str(await page.value("document.title")).split()
    assert page.problems == []


async def test_a_script_that_reached_the_page_would_not_run(address: str, page: Page) -> None:
    await open_page(page, address, "overview", 1280)
    await page.value(
        "document.querySelector('main').innerHTML = '<img src=x onerror=\"document.title=\\'run\\'\">'"
    )
    await page.wait_for("document.querySelector('main img')?.complete")
    assert await page.value("document.title") != "run"
    assert any("Content Security Policy" in problem for problem in page.problems)


@pytest.mark.long
async def test_a_topic_of_2000_partitions_is_shown(page: Page) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topics({"wide": 2_000})
        with running_console(cluster.bootstrap_servers) as address:
            await page.open(f"{address}#/topics/wide", 1280)
            await page.wait_for(
                "document.querySelectorAll('[aria-label=Partitions] tbody tr').length === 2000"
            )
            await page.open(f"{address}#/", 1280)
            await page.wait_for("document.querySelector('main').textContent.includes('2,000')")
    assert page.problems == []


async def test_the_tier_is_described_for_screen_readers(address: str, page: Page) -> None:
    await open_page(page, address, "topic", 1280)
    label = await page.value("document.querySelector('svg.band').getAttribute('aria-label')")
    assert label.startswith("partition 0: offsets 0 to 103; in the object store 0 to ")
    assert "; leader epochs 0 from 0" in label


async def test_pages_are_reached_with_the_keyboard(address: str, page: Page) -> None:
    await open_page(page, address, "overview", 1280)
    for _ in range(3):
        await page.press("Tab", 9)
    assert await page.value("document.activeElement.textContent") == "Topics"
    await page.press("Enter", 13, "\r")
    await page.wait_for(f"{HEADING} === 'Topics'")
    assert await page.value("document.activeElement.id") == "content"
