"""A console for several users, stand-alone and inside a broker (console.listener)."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.console.browser import Browser
from tests.integration.console.conftest import running_console
from tests.support.chromium import running_browser
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.base.config_definition import ConfigError
from tidelog.base.properties import properties_text
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.oauthbearer_config import UNSECURED_VALIDATOR
from tidelog.broker.observability.console_process import ConsoleProcess
from tidelog.local_cluster.ports import free_ports
from tidelog.local_cluster.security import Security
from tidelog.security.jaas import jaas_text
from tidelog.security.oauthbearer.unsecured import create_unsecured_token
from tidelog.testing.embedded import EmbeddedCluster

USERS = {"admin": "admin-secret", "alice": "alice-secret"}


def security(protocol: str = "SASL_PLAINTEXT") -> Security:
    return Security(protocol=protocol, users=USERS, super_users=["admin"])


@pytest.fixture(scope="module")
def secured_cluster() -> Iterator[EmbeddedCluster]:
    """Run a node with SCRAM, and the topic tides, which only admin may read."""
    with EmbeddedCluster(security=security()) as cluster:
        cluster.create_topics(["tides"])
        yield cluster


@pytest.fixture(scope="module")
def sign_in_address(
    secured_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Run a console whose users sign in; return its address."""
    properties = {
        key: text
        for key, text in secured_cluster.client_settings().properties.items()
        if key != "sasl.jaas.config"
    }
    file = tmp_path_factory.mktemp("console") / "client.properties"
    file.write_text(properties_text(properties))
    options = ("--sign-in", "--command-config", str(file))
    with running_console(secured_cluster.bootstrap_servers, *options) as printed:
        yield printed


@asynccontextmanager
async def browser_of(address: str, **options: Any) -> AsyncIterator[Browser]:
    """Return a browser without a session."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, **options) as session:
        yield Browser(session, address)


async def sign_in(browser: Browser, user: str, password: str) -> int:
    """Return the status of an attempt."""
    document = {"user": user, "password": password}
    async with browser.session.post(f"{browser.url}sign-in", json=document) as response:
        return response.status


async def test_users_have_their_own_rights(sign_in_address: str) -> None:
    async with browser_of(sign_in_address) as admin, browser_of(sign_in_address) as alice:
        assert await sign_in(admin, "admin", USERS["admin"]) == 204
        assert await sign_in(alice, "alice", USERS["alice"]) == 204
        assert (await admin.get("topics/tides"))[0] == 200
        assert (await alice.get("topics/tides"))[0] == 403
        assert (await alice.get("console"))[1]["user"] == "alice"


async def test_without_a_session_there_is_only_the_page_to_sign_in(sign_in_address: str) -> None:
    async with browser_of(sign_in_address) as browser:
        async with browser.session.get(sign_in_address) as response:
            assert "Sign in" in await response.text()
        for path in ("api/topics", "api/console", "api/events"):
            async with browser.session.get(f"{browser.url}{path}") as response:
                assert response.status == 401


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("unknown", "x"), ("admin", "")])
async def test_a_wrong_user_or_password_is_refused(sign_in_address: str, user: str, password: str) -> None:
    async with browser_of(sign_in_address) as browser:
        assert await sign_in(browser, user, password) == 401
        async with browser.session.get(f"{browser.url}api/topics") as response:
            assert response.status == 401


async def test_a_session_ends_when_its_user_signs_out(sign_in_address: str) -> None:
    async with browser_of(sign_in_address) as browser:
        await sign_in(browser, "admin", USERS["admin"])
        cookies = {cookie.key: cookie.value for cookie in browser.session.cookie_jar}
        async with browser.session.post(f"{browser.url}sign-out", json={}) as response:
            assert response.status == 204
        async with (
            aiohttp.ClientSession(cookies=cookies) as old,
            old.get(f"{browser.url}api/topics") as response,
        ):
            assert response.status == 401


async def test_another_site_cannot_sign_a_user_in(sign_in_address: str) -> None:
    async with browser_of(sign_in_address) as browser:
        document = {"user": "admin", "password": USERS["admin"]}
        headers = {"Origin": "http://evil.example"}
        url = f"{browser.url}sign-in"
        async with browser.session.post(url, json=document, headers=headers) as response:
            assert response.status == 403
        async with browser.session.post(url, data=json.dumps(document)) as response:
            assert response.status == 415


async def test_the_page_signs_a_user_in(sign_in_address: str, tmp_path: Path) -> None:
    async with running_browser(tmp_path) as page:
        await page.open(sign_in_address, 400)
        await page.wait_for("document.querySelector('#sign-in button')?.disabled === false")
        assert await page.value("document.documentElement.scrollWidth") <= 400
        for password, shown in (
            ("wrong", "document.getElementById('problem').textContent.includes('wrong')"),
            (USERS["admin"], "document.querySelector('h1')?.textContent === 'Overview'"),
        ):
            await page.value(
                "(() => { const form = document.getElementById('sign-in'); form.user.value = 'admin';"
                f" form.password.value = '{password}'; form.requestSubmit(); }})()"
            )
            await page.wait_for(shown)
        assert await page.value("document.querySelector('header button').textContent") == "Sign out admin"
        assert [text for text in page.problems if "401" not in text] == []


async def test_a_form_is_sent_only_after_its_script_is_loaded(sign_in_address: str, tmp_path: Path) -> None:
    form = "document.getElementById('sign-in')"
    async with running_browser(tmp_path) as page:
        await page.call("Network.enable")
        await page.call("Network.setBlockedURLs", urls=["*sign_in.js"])
        await page.open(sign_in_address, 400)
        await page.wait_for(f"document.readyState === 'complete' && {form} !== null")
        assert await page.value(f"{form}.querySelector('button').disabled")
        # A program, such as an extension of the browser, can send the form: the policy rejects it.
        await page.value(f"{form}.user.value = 'admin'; {form}.password.value = 'admin-secret'; 0")
        await page.value(f"{form}.requestSubmit()")
        assert await page.value("document.location.href") == sign_in_address


# ---- tokens of OAUTHBEARER


async def wait_until_reachable(port: int) -> None:
    """Wait until the console accepts connections."""

    def is_reachable() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    await eventually(is_reachable)


@pytest.fixture(scope="module")
def token_address() -> Iterator[str]:
    """Run a node with OAUTHBEARER, which serves the console; return the address of the console."""
    (port,) = free_ports(1)
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED_VALIDATOR,
        "console.listener": f"HTTP://127.0.0.1:{port}",
        "console.kafka.listener.name": "SASL_PLAINTEXT",
    }
    with EmbeddedCluster(config=config):
        asyncio.run(wait_until_reachable(port))
        yield f"http://127.0.0.1:{port}/"


def token(user: str, age_ms: int = 0) -> str:
    """Return a token that is valid for an hour from its creation."""
    claims = {"unsecuredLoginStringClaim_sub": user}
    return create_unsecured_token(claims, SystemClock().wall_ms() - age_ms).value


async def sign_in_with_token(browser: Browser, text: str) -> tuple[int, str]:
    """Return status and body of an attempt."""
    async with browser.session.post(f"{browser.url}sign-in", json={"token": text}) as response:
        return response.status, await response.text()


async def test_a_user_signs_in_with_an_access_token(token_address: str) -> None:
    async with browser_of(token_address) as browser:
        assert await sign_in_with_token(browser, token("alice")) == (204, "")
        assert (await browser.get("console"))[1]["user"] == "alice"
        assert (await browser.get("overview"))[1]["healthy"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("opaque", "a token of 1 parts instead of 3"),
        (token("alice", 7_200_000), "does not accept this token"),
    ],
    ids=["not a token", "expired"],
)
async def test_a_token_that_is_not_valid_is_refused(token_address: str, text: str, reason: str) -> None:
    async with browser_of(token_address) as browser:
        status, body = await sign_in_with_token(browser, text)
        assert (status, reason in body) == (401, True)
        assert text not in body
        async with browser.session.get(f"{browser.url}api/topics") as response:
            assert response.status == 401


async def test_the_page_signs_a_user_in_with_a_token(token_address: str, tmp_path: Path) -> None:
    async with running_browser(tmp_path) as page:
        await page.open(token_address, 400)
        await page.wait_for("document.querySelector('#sign-in button')?.disabled === false")
        assert await page.value("document.documentElement.scrollWidth") <= 400
        await page.value(
            "(() => { const form = document.getElementById('sign-in');"
            f" form.token.value = '{token('alice')}'; form.requestSubmit(); }})()"
        )
        await page.wait_for("document.querySelector('header button')?.textContent === 'Sign out alice'")
        assert page.problems == []


# ---- console.listener


async def test_a_broker_serves_the_console_to_users_of_its_listener(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = {"console.listener": f"HTTP://127.0.0.1:{port}"}
    with EmbeddedCluster(security=security("SASL_SSL"), config=config) as cluster:
        cluster.create_topics(["tides"])
        async with browser_of(f"http://127.0.0.1:{port}/") as browser:
            await wait_until_reachable(port)
            assert await sign_in(browser, "admin", USERS["admin"]) == 204
            assert (await browser.get("topics/tides"))[0] == 200
            assert (await browser.post("topics", {"name": "other"}))[0] == 405
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://127.0.0.1:{port}/")


async def test_a_console_without_users_is_open_to_its_own_page_only() -> None:
    (port,) = free_ports(1)
    config = {"console.listener": f"HTTP://127.0.0.1:{port}", "console.writes.enable": "true"}
    with EmbeddedCluster(config=config):
        async with browser_of(f"http://localhost:{port}/") as browser:
            await wait_until_reachable(port)
            assert (await browser.get("overview"))[1]["healthy"]
            assert (await browser.post("topics", {"name": "tides"}))[0] == 200
            for headers, status in (
                ({"Host": "evil.example"}, 421),
                ({"Origin": "http://evil.example"}, 403),
            ):
                async with browser.session.get(f"{browser.url}api/overview", headers=headers) as response:
                    assert response.status == status


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"console.listener": "127.0.0.1:8090"}, "allowed is HTTP://host:port or HTTPS://host:port"),
        ({"console.listener": "HTTP://127.0.0.1:99999"}, "the port is 0 to 65535"),
        ({"console.listener": "HTTPS://0.0.0.0:8090"}, "HTTPS needs a key store"),
        (
            {"console.listener": "HTTP://localhost:1", "console.kafka.listener.name": "OTHER"},
            "console.kafka.listener.name=OTHER; allowed are",
        ),
        (
            {
                "console.listener": "HTTP://0.0.0.0:8090",
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": jaas_text(
                    "SCRAM-SHA-512", {"username": "node", "password": "secret"}
                ),
            },
            "credentials need HTTPS",
        ),
    ],
)
def test_a_console_that_cannot_be_served_is_a_config_error(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(
            {"node.id": "1", "log.dirs": "/tmp/t", "listeners": "PLAINTEXT://127.0.0.1:0", **settings}
        )
    assert text in str(raised.value)


async def test_a_console_that_ends_is_logged_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"host": "127.0.0.1", "port": 0, "tls": {}, "bootstrap": "127.0.0.1:1", "client": {}}
    unusable = {**settings, "allows_writes": False, "schema_registry": "ftp://registry", "prices": {}}
    console = ConsoleProcess(unusable, SystemClock(), random.Random(1))
    await console.start()
    try:
        text = "The console has ended with status 2; it is started again in"
        await eventually(lambda: sum(text in each for each in caplog.messages) == 2)
    finally:
        await console.close()
