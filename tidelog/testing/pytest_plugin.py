"""The pytest fixtures: brokers for one test, one module or one session.

| fixture | cluster |
|---|---|
| `tidelog_broker` | one broker for one test |
| `tidelog_module_broker` | one broker for all tests of a module |
| `tidelog_session_broker` | one broker for all tests; options: fixture `tidelog_session_options` |
| `tidelog_cluster` | three nodes for one test |
| `tidelog_tiered_broker` | one broker with tiered storage for one test |
| `tidelog_secured_broker` | one broker with the security of the fixture `tidelog_security` for one test |

A test with such an argument gets a running `EmbeddedCluster`; clients connect to its `bootstrap_servers`,
with its `client_settings`. The marker `tidelog` has the arguments of `EmbeddedCluster`, and `topics` and
`topic_config`, which are those of `EmbeddedCluster.create_topics`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tidelog.testing.plain_imports import PlainImports

if TYPE_CHECKING:
    from tidelog.local_cluster.security import Security
    from tidelog.testing.embedded import EmbeddedCluster

MARKER: Final = "tidelog"
_CLUSTER_OPTIONS: Final = ("nodes", "config", "directories", "has_racks", "tiered", "security")
_TOPIC_OPTIONS: Final = ("topics", "topic_config")
_IMPORTS: Final = pytest.StashKey[PlainImports]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Import this package without rewritten asserts."""
    imports = early_config.stash[_IMPORTS] = PlainImports()
    imports.install()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    options = ", ".join(_CLUSTER_OPTIONS + _TOPIC_OPTIONS)
    config.addinivalue_line("markers", f"{MARKER}(...): options of the broker of this test: {options}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo the change of imports."""
    if (imports := config.stash.get(_IMPORTS, None)) is not None:
        imports.remove()
        del config.stash[_IMPORTS]


def _cluster_class() -> type[EmbeddedCluster]:
    """Import the broker without collections of garbage: its modules stay in memory."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        from tidelog.testing.embedded import EmbeddedCluster
    finally:
        # Moves all objects to the oldest generation. Otherwise the next collection would visit them.
        gc.freeze()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
    return EmbeddedCluster


@contextmanager
def _running_cluster(request: pytest.FixtureRequest, **defaults: Any) -> Iterator[EmbeddedCluster]:
    """Run a cluster with `defaults` and the options of the markers; the closest marker has precedence."""
    options = dict(defaults)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        unknown = sorted(marker.kwargs.keys() - {*_CLUSTER_OPTIONS, *_TOPIC_OPTIONS})
        if marker.args or unknown:
            allowed = ", ".join(_CLUSTER_OPTIONS + _TOPIC_OPTIONS)
            wrong = ", ".join([*map(repr, marker.args), *unknown])
            pytest.fail(f"marker {MARKER}: unknown option {wrong}; allowed are: {allowed}", pytrace=False)
        options |= marker.kwargs
    topics, topic_config = options.pop("topics", ()), options.pop("topic_config", None)
    with _cluster_class()(**options) as cluster:
        cluster.create_topics(topics, topic_config)
        yield cluster


@pytest.fixture
def tidelog_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker on a free port of the loopback address, with temporary data."""
    with _running_cluster(request) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tidelog_module_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Yield one broker for all tests of the module, with the options of the module's marker."""
    with _running_cluster(request) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tidelog_session_options() -> dict[str, Any]:
    """Return the options of `tidelog_session_broker`, as those of the marker; a project overrides it."""
    return {}


@pytest.fixture(scope="session")
def tidelog_session_broker(
    request: pytest.FixtureRequest, tidelog_session_options: dict[str, Any]
) -> Iterator[EmbeddedCluster]:
    """Yield one broker for all tests."""
    with _running_cluster(request, **tidelog_session_options) as cluster:
        yield cluster


@pytest.fixture
def tidelog_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Yield a cluster of three nodes, each broker and controller."""
    with _running_cluster(request, nodes=3) as cluster:
        yield cluster


@pytest.fixture
def tidelog_tiered_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """Yield a broker with tiered storage; the topics of the marker are tiered."""
    tiered_topics = {"remote.storage.enable": "true"}
    with _running_cluster(request, tiered=True, topic_config=tiered_topics) as cluster:
        yield cluster


@pytest.fixture
def tidelog_security() -> Security:
    """Return the security of `tidelog_secured_broker`: SASL_SSL with SCRAM, and a super user `admin`."""
    from tidelog.local_cluster.security import Security

    return Security(users={"admin": "admin-secret", "alice": "alice-secret"}, super_users=["admin"])


@pytest.fixture
def tidelog_secured_broker(
    request: pytest.FixtureRequest, tidelog_security: Security
) -> Iterator[EmbeddedCluster]:
    """Yield a secured cluster of one broker; clients use `client_settings(user)`."""
    with _running_cluster(request, security=tidelog_security) as cluster:
        yield cluster
