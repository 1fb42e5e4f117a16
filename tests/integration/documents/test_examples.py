"""The programs in examples, each as its users run it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT
from tests.support.python_programs import output_of
from tidelog.testing.embedded import EmbeddedCluster

EXAMPLES = ROOT / "examples"
OUTPUTS = {
    "asyncio_clients.py": {"orders: order-1 two boats", "payments: order-1 80 EUR"},
    "confluent_clients.py": {"written: readings offset 2", "read: buoy-7 12.1", "read: buoy-7 12.9"},
    "aiokafka_clients.py": {"read: ship-3 arrived", "read: ship-3 moored"},
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker; return its address."""
    with EmbeddedCluster() as cluster:
        cluster.create_topics(["orders", "payments", "readings", "events"])
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_example_prints_what_it_reads(name: str, servers: str) -> None:
    assert set(output_of(ROOT, f"examples/{name}", servers).splitlines()) >= OUTPUTS[name]


def test_the_example_for_pytest_passes() -> None:
    assert "1 passed" in output_of(ROOT, "-m", "pytest", "-v", "examples/test_orders.py")


def test_every_example_is_tested_and_described() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == {*OUTPUTS, "test_orders.py"}
    readme = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in names)
