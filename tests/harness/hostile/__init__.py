"""Hostile clients of a running broker: their effect on a well-behaved client, and the resources they leave.

    attack              one attack: its name, what it does, its bounds
    attacks/            all attacks, one subject per file
    attack_context      the attacker's connections, its time limit, its findings
    target              the broker process under attack, its resources and its metrics
    regular_client      the client that measures response times, a process of its own
    observer            collects that client's measurements
    measurements        response times of a phase (pure)
    run                 one attack from start to release
    report_rows         a row of the table and its goals (pure)
    report              table and JSON

`python -m tests.harness.hostile [names] [--seconds N]` runs it; docs/testing.md describes it.

Every attack connects to the loopback address only, has a limit of count and time, and stops by itself.
"""
