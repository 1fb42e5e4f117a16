"""Runs one attack: measure, attack, disconnect the attacker, wait for the release, measure again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.measurements import Phase, phase_of
from tests.harness.hostile.observer import Observer
from tests.harness.hostile.report_rows import RELEASED_S_MAX, AttackMeasurements, Row, failures_of, misses_of
from tests.harness.hostile.target import Resources, Target, TargetError

SAMPLE_EVERY_S: Final = 0.05
POLL_S: Final = 0.05
SERVED_TIMEOUT_S: Final = 30.0
"""The time without any response after which the broker counts as hanging."""
WARM_UP_S: Final = 0.3
TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The size and the duration of attacks."""

    scale: float
    """1 for the sizes of the issue."""
    seconds: float
    """The minimum duration of each attack."""
    quiet_seconds: float
    """The duration of the measurements before and after it."""


LONG: Final = Effort(scale=1.0, seconds=4.0, quiet_seconds=1.5)
SHORT: Final = Effort(scale=0.02, seconds=0.05, quiet_seconds=0.02)


class Peaks:
    """The peaks of memory and descriptors during sampling."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.memory_bytes = self.descriptors = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Peaks:
        with suppress(OSError):
            self._target.reset_peak_memory()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(OSError):
            self.memory_bytes = max(self.memory_bytes, self._target.peak_memory_bytes())

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_EVERY_S):
            with suppress(OSError):
                self.memory_bytes = max(self.memory_bytes, self._target.memory_bytes())
                self.descriptors = max(self.descriptors, self._target.descriptors())


class Runner:
    """Runs attacks one after another against a target that is observed."""

    def __init__(self, target: Target, observer: Observer, effort: Effort) -> None:
        self._target = target
        self._observer = observer
        self._effort = effort
        self._before: Phase | None = None

    def run(self, attack: Attack) -> Row:
        """Run `attack` and evaluate it."""
        target = self._target
        context = AttackContext(target, self._effort.seconds, self._effort.scale)
        log_start = len(target.log())
        before = self._measure_before()
        try:
            # Resources that an earlier attack left are not counted again for the next one.
            resources = target.resources()
            with Peaks(target) as peaks:
                self._attack(attack, context)
                disconnected_ns = time.monotonic_ns()
                context.disconnect_all()
                released_s, left = self._wait_for_release(attack, resources, disconnected_ns, context)
            released_ns = time.monotonic_ns()
            time.sleep(self._effort.quiet_seconds)
            after = phase_of(self._observer.between(released_ns, time.monotonic_ns()))
            log = target.log()[log_start:]
            measurements = AttackMeasurements(
                before=before,
                during=phase_of(self._observer.between(context.started_ns, disconnected_ns)),
                after=after,
                blocked_ms=phase_of(self._observer.between(context.started_ns, released_ns)).blocked_ms,
                stall_ms=None if left is None else left.stall_ms,
                memory_before=resources.memory_bytes,
                memory_peak=max(peaks.memory_bytes, resources.memory_bytes),
                memory_after=target.memory_bytes(),
                descriptors_before=resources.descriptors,
                descriptors_peak=max(peaks.descriptors, resources.descriptors),
                descriptors_after=target.descriptors(),
                released_s=released_s,
                log_lines=log.count("\n"),
                seconds=(disconnected_ns - context.started_ns) / 1e9,
            )
        except (OSError, TargetError) as error:
            return self._unobserved(attack, context, error, target.log()[log_start:])
        finally:
            context.disconnect_all()
        if TRACEBACK in log:
            context.failures.append("a traceback was logged: " + _last_line_of_traceback(log))
        return Row(
            attack=attack,
            measurements=measurements,
            failures=[*context.failures, *failures_of(attack, measurements)],
            misses=misses_of(measurements),
            notes=context.notes,
        )

    def _attack(self, attack: Attack, context: AttackContext) -> None:
        try:
            attack.run(context)
        except TimeoutError:
            context.note("the attacker got no response in time")
        except ConnectionError as error:
            context.note(f"the attacker was disconnected: {error}")
        except Exception as error:
            # A failing attack must not discard the results of the others.
            context.failures.append(f"the attack itself failed: {error!r}"[:300])
        if not context.started_ns:
            context.begin()

    def _measure_before(self) -> Phase:
        """Return the phase without an attack; attacks with a shared target share it."""
        if self._before is None:
            self._observer.wait_until_served(time.monotonic_ns(), SERVED_TIMEOUT_S)
            time.sleep(WARM_UP_S)
            start_ns = time.monotonic_ns()
            time.sleep(self._effort.quiet_seconds)
            self._before = phase_of(self._observer.between(start_ns, time.monotonic_ns()))
        return self._before

    def _wait_for_release(
        self, attack: Attack, before: Resources, disconnected_ns: int, context: AttackContext
    ) -> tuple[float | None, Resources | None]:
        """Return the seconds until everything was released, or None, and the resources in use then."""
        if not self._observer.wait_until_served(disconnected_ns, SERVED_TIMEOUT_S):
            context.failures.append(f"the well-behaved client had no response for {SERVED_TIMEOUT_S:.0f} s")
            return None, None
        deadline = time.monotonic() + RELEASED_S_MAX
        while True:
            now: Resources | None = None
            try:
                now = self._target.resources()
                remainder = _unreleased_resources(attack, before, now)
            except OSError as error:
                remainder = f"the metrics are not served: {error}"
            if remainder is None:
                return (time.monotonic_ns() - disconnected_ns) / 1e9, now
            if time.monotonic() > deadline or self._target.exit_code is not None:
                context.failures.append(remainder)
                return None, now
            time.sleep(POLL_S)

    def _unobserved(self, attack: Attack, context: AttackContext, error: Exception, log: str) -> Row:
        code = self._target.exit_code
        failure = (
            f"the broker ended with the exit code {code}"
            if code is not None
            else f"cannot be observed: {error!r}"
        )
        last = log.strip().splitlines()[-1:]
        return Row(
            attack=attack,
            measurements=None,
            failures=[failure, *context.failures, *last],
            misses=(),
            notes=context.notes,
        )


@contextmanager
def running_target(
    effort: Effort, settings: Mapping[str, str] | None = None, open_files_max: int | None = None
) -> Iterator[Runner]:
    """Start a target and its well-behaved client."""
    with Target(settings, open_files_max) as target, Observer(target) as observer:
        yield Runner(target, observer, effort)


def run_alone(attack: Attack, effort: Effort) -> Row:
    """Run one attack against a separate target."""
    with running_target(effort, attack.settings, attack.open_files_max) as runner:
        return runner.run(attack)


def _unreleased_resources(attack: Attack, before: Resources, now: Resources) -> str | None:
    """Return the resources that the broker still has from the attack, or None."""
    # The well-behaved client opens one connection repeatedly.
    if now.connections > before.connections + 1:
        return f"{now.connections - before.connections} connections are still open"
    if now.delayed_operations > before.delayed_operations:
        return f"{now.delayed_operations} operations are still in a purgatory"
    if now.descriptors > before.descriptors + 1 + attack.descriptors_kept:
        return f"{now.descriptors - before.descriptors} more descriptors are open"
    remainder = now.memory_bytes - before.memory_bytes
    if remainder > attack.memory_kept_mib * MEBIBYTE:
        return f"{remainder / MEBIBYTE:.0f} MiB more are in use"
    return None


def _last_line_of_traceback(log: str) -> str:
    lines = log[log.index(TRACEBACK) :].splitlines()
    return next((line for line in lines[1:] if line and not line.startswith(" ")), "")
