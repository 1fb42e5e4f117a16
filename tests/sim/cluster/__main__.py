"""Runs whole clusters: `python -m tests.sim.cluster --seeds 1000`, or `--seed 7` with its timeline."""

from __future__ import annotations

import argparse
import sys

from tests.sim.cluster.campaign import run_campaign
from tests.sim.cluster.plan import Plan, plan_of
from tests.sim.cluster.plan_text import plan_from
from tests.sim.cluster.run import Run


def main() -> int:
    """Run the seeds of the command line; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed, and print its timeline")
    parser.add_argument("--plan", type=plan_from, help="the plan of this seed, as a failure prints it")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--explore", action="store_true", help="select seeds for rare pairs of state and fault"
    )
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(options.seed, options.plan or plan_of(options.seed))
    failed = run_campaign(options.first, options.seeds, options.workers, explores=options.explore)
    return 1 if failed else 0


def _replay(seed: int, plan: Plan) -> int:
    run = Run(seed, plan)
    print(plan)
    status, result = 0, ""
    try:
        result = str(run.execute())
    except Exception as error:
        status, result = 1, repr(error)
    for line in run.simulation.trace.timeline:
        print(line)
    print(result)
    return status


if __name__ == "__main__":
    sys.exit(main())
