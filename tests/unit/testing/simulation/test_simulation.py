"""The examples of docs/simulation.md, and the failures that a simulation reports."""

import asyncio
import re
import time
from typing import Any

import pytest

from tests.support.paths import ROOT
from tidelog.testing.simulation.simulation import Simulation, SimulationFailure

_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def examples() -> list[str]:
    """Return the code of the document: imports first, then the examples."""
    return _EXAMPLE.findall((ROOT / "docs/simulation.md").read_text())


@pytest.mark.parametrize("number", [1, 2])
def test_the_examples_of_the_document_pass(number: int) -> None:
    imports, *functions = examples()
    names: dict[str, Any] = {}
    exec(imports + functions[number - 1], names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    test()


def test_a_run_that_does_not_end_is_a_failure_with_seed_and_virtual_time() -> None:
    with Simulation(seed=3) as simulation:
        client = simulation.cluster.client("app")
        with pytest.raises(SimulationFailure, match=r"seed 3, after 60\.000 s: app\.1 has not finished"):
            simulation.run(client, asyncio.Event().wait(), timeout_s=60)


def test_the_use_of_the_systems_clock_is_a_failure() -> None:
    async def read_the_clock() -> None:
        try:
            time.time()
        except RuntimeError:
            pass

    with Simulation(seed=3) as simulation, pytest.raises(SimulationFailure, match=r"time\.time is used by"):
        simulation.run(simulation.cluster.client("app"), read_the_clock())


def test_an_error_that_no_task_handles_is_a_failure() -> None:
    async def forget_a_task() -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(1)

    with (
        Simulation(seed=3) as simulation,
        pytest.raises(SimulationFailure, match="an unhandled error in app"),
    ):
        simulation.run(simulation.cluster.client("app"), forget_a_task())
