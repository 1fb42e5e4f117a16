"""Whether a simulated machine has power and a simulated process runs, for all parts that depend on it."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.scheduler import Scheduler


class Drift:
    """The clocks of a machine that run, or have run, faster or slower than the virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._since_ns = 0
        self._ahead_ns = 0
        """By how much the clocks were ahead at `since_ns`."""
        self._rate_ppm = 0

    def use_rate(self, rate_ppm: int) -> None:
        """Run faster by `rate_ppm` millionths from now on; slower if it is negative."""
        now_ns = self._scheduler.now_ns
        self._ahead_ns = self.local_ns(now_ns) - now_ns
        self._since_ns, self._rate_ppm = now_ns, rate_ppm

    def local_ns(self, virtual_ns: int) -> int:
        """Return what the clocks show at a virtual time, which has not passed."""
        return virtual_ns + self._ahead_ns + (virtual_ns - self._since_ns) * self._rate_ppm // 1_000_000

    def virtual_ns(self, local_ns: int) -> int:
        """Return the virtual time at which the clocks show `local_ns`."""
        elapsed_ns = local_ns - self._ahead_ns - self._since_ns
        return self._since_ns + elapsed_ns * 1_000_000 // (1_000_000 + self._rate_ppm)


class MachineState:
    """The address, power, disk and wall clock of one machine."""

    def __init__(self, scheduler: Scheduler, name: str, address: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.address = address
        self.has_power = True
        self.disk = CrashFileSystem()
        self.disk_delay_ns_max = 0
        self.wall_ahead_ms = 0
        """By how much the wall clock is ahead of the virtual time, besides the drift."""
        self.drift: Drift | None = None
        """None until the clocks drift for the first time."""
        self._at_power_on: list[Callable[[], None]] = []

    def let_clocks_drift(self, rate_ppm: int) -> None:
        """Run all clocks and timers faster by `rate_ppm` millionths from now on; 0 ends the drift."""
        if self.drift is None:
            self.drift = Drift(self.scheduler)
        self.drift.use_rate(rate_ppm)

    def disk_delay_ns(self) -> int:
        """Return how long the disk delays a function of another thread."""
        longest = self.disk_delay_ns_max
        return self.scheduler.rng.randrange(longest) if longest else 0

    def call_at_power_on(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the machine has power again."""
        self._at_power_on.append(callback)

    def turn_off(self) -> None:
        """Turn the power off."""
        self.has_power = False

    def lose_unsynced(self) -> None:
        """Lose a random part of what was not synced."""
        self.disk = self.disk.crash(self.scheduler.rng.getrandbits(32))

    def reopen_disk(self) -> None:
        """Give the next process the same disk; each use by the previous one raises SimulatedCrash."""
        self.disk = self.disk.reopened()

    def turn_on(self) -> None:
        """Turn the power on."""
        if not self.has_power:
            self.has_power = True
            callbacks, self._at_power_on = self._at_power_on, []
            for callback in callbacks:
                callback()


class ProcessState:
    """Whether a process runs; `on_power_failure` is called when its disk has lost power."""

    def __init__(self, machine: MachineState, name: str, on_power_failure: Callable[[], None]) -> None:
        self.machine = machine
        self.name = name
        self.is_running = True
        self.is_paused = False
        self.spent_ns = 0
        """The time that the function of the current thread has spent so far with waiting."""
        self._on_power_failure = on_power_failure
        self._at_resume: list[Callable[[], None]] = []

    def check_power(self) -> bool:
        """Return whether the process still runs, after an operation that may have been the last one."""
        if self.is_running and not self.machine.disk.has_power:
            self._on_power_failure()
        return self.is_running

    def spend(self, duration_ns: int) -> None:
        """Let the function of the current thread wait."""
        self.spent_ns += duration_ns

    def begin_function(self) -> None:
        """Record that a thread runs its next function, which has not waited yet."""
        self.spent_ns = 0

    def call_when_resumed(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the process continues."""
        self._at_resume.append(callback)

    def pause(self) -> None:
        """Run no further callback until `resume`."""
        self.is_paused = True

    def end(self) -> None:
        """End the process: it runs no further callback."""
        self.is_running = False

    def resume(self) -> None:
        """Continue a paused process."""
        self.is_paused = False
        callbacks, self._at_resume = self._at_resume, []
        for callback in callbacks:
            callback()
