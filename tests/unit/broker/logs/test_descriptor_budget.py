"""The descriptors available to connections and partitions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tidelog.broker.logs.descriptor_budget import (
    TABLE_SIZE,
    DescriptorBudget,
    process_budget,
    raise_open_file_limit,
    reserve_descriptor_table,
)

REFUSAL = "there are {} connections, allowed are 448 of the 1024 files that the process may open (ulimit -n)"


def test_partitions_get_half_of_the_descriptors_and_connections_the_rest() -> None:
    budget = DescriptorBudget(1024)
    assert (budget.partitions_max, budget.reserve, budget.connections_max) == (512, 64, 448)
    assert budget.pooled_max < budget.reserve, "files that were only read are paid for by the reserve"
    assert budget.connection_refusal(500, connections=447) is None
    assert budget.connection_refusal(500, connections=448) == REFUSAL.format(448)


def test_a_connection_that_would_use_the_reserve_is_refused() -> None:
    budget = DescriptorBudget(1024)
    assert budget.connection_refusal(959, connections=1) is None
    assert budget.connection_refusal(960, connections=1) == REFUSAL.format(1)


def test_a_small_limit_leaves_a_reserve_too() -> None:
    budget = DescriptorBudget(160)
    assert (budget.partitions_max, budget.reserve, budget.connections_max) == (80, 32, 48)
    assert DescriptorBudget(40).connections_max == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the size of the table")
def test_the_table_of_descriptors_has_space_for_a_burst_of_connections() -> None:
    raise_open_file_limit()
    open_before = len(os.listdir("/proc/self/fd"))
    reserve_descriptor_table()
    status = Path("/proc/self/status").read_text()
    (size,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("FDSize:"))
    assert size >= min(TABLE_SIZE, process_budget().limit)
    assert len(os.listdir("/proc/self/fd")) == open_before
