"""The text of a plan for the command line: a JSON object of all fields that differ from the defaults."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from tests.sim.cluster.plan import FaultRates, Plan


def text_of(plan: Plan) -> str:
    """Return the text of a plan."""
    return json.dumps({**_changed(plan, Plan()), **_faults(plan)}, sort_keys=True)


def plan_from(text: str) -> Plan:
    """Return the plan of a text. Errors: ValueError, TypeError."""
    values = {key: _immutable(value) for key, value in json.loads(text).items()}
    return Plan(**{**values, "faults": FaultRates(**values.get("faults", {}))})


def _immutable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _faults(plan: Plan) -> dict[str, Any]:
    changed = _changed(plan.faults, FaultRates())
    return {"faults": changed} if changed else {}


def _changed(value: Any, default: Any) -> dict[str, Any]:
    return {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if field.name != "faults" and getattr(value, field.name) != getattr(default, field.name)
    }
