"""The event loop of one simulated process: its time is virtual, and it stops for ever when the process ends.

The callbacks of one process run in the order in which they were scheduled, as asyncio promises. The seed
determines the rest: how long each iteration takes, how iterations of several processes interleave, when bytes
arrive and when work of other threads completes.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from tidelog.testing.simulation.executors import SimulatedExecutor
from tidelog.testing.simulation.sockets import SimulatedSockets
from tidelog.testing.simulation.states import ProcessState

_DEFAULT_THREADS: Final = 8
_CALLBACK_NS_MIN: Final = 1_000
_CALLBACK_RANDOM_BITS: Final = 15
_CLOCK_READING_NS: Final = 200
_NS_PER_S: Final = 1_000_000_000
ErrorContext = dict[str, Any]
ArgumentTs = TypeVarTuple("ArgumentTs")
ResultT = TypeVar("ResultT")


class _Future(asyncio.Future[Any]):
    """A future whose hash is the same in each run of a seed: the order of a set depends on it."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = cast(SimulatedLoop, self.get_loop()).next_number()
        return self._number


class _Task(asyncio.Task[Any]):
    """A task whose hash is the same in each run of a seed."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = cast(SimulatedLoop, self.get_loop()).next_number()
        return self._number


class _Handle(asyncio.Handle):
    """A handle without the fields of asyncio's debug mode: most of a run is creating and calling handles."""

    __slots__ = ()
    _repr = _source_traceback = None

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: SimulatedLoop, context: Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process with these sockets."""

    def __init__(self, process: ProcessState, sockets: SimulatedSockets) -> None:
        self._scheduler = process.machine.scheduler
        self._process = process
        self._trace_code = self._scheduler.trace.code(f"loop {process.name}")
        self._sockets = sockets
        sockets.call_when_readable(self.notify)
        self._ready: deque[asyncio.Handle] = deque()
        self._readers: dict[int, asyncio.Handle] = {}
        self._is_scheduled = False
        self._busy_until_ns = 0
        self._number = 0
        """The number of hashes of tasks and futures so far."""
        self._spent_ns = 0
        """The time that the current iteration has taken so far."""
        self._default_executor = SimulatedExecutor(process, _DEFAULT_THREADS)
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, ErrorContext], object] | None = None
        self.failures: list[ErrorContext] = []
        """Errors that no task has handled."""
        self.kept: list[asyncio.Task[Any]] = []
        """The tasks of a process that has ended: they must not be closed while the simulation runs."""

    # ---- time

    def read_ns(self) -> int:
        """Return the time of this machine, with that of the current iteration; reading it takes time."""
        self._spent_ns += _CLOCK_READING_NS
        now_ns, drift = self._scheduler.now_ns + self._spent_ns, self._process.machine.drift
        return now_ns if drift is None else drift.local_ns(now_ns)

    def time(self) -> float:
        """Return the time of this machine in seconds."""
        return self.read_ns() / _NS_PER_S

    # ---- callbacks

    def call_soon(
        self,
        callback: Callable[[Unpack[ArgumentTs]], object],
        *args: *ArgumentTs,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call in the next iteration."""
        handle = _Handle(callback, args, self, copy_context() if context is None else context)
        if self._process.is_running:
            self._ready.append(handle)
            if not self._is_scheduled:
                self.wake()
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[ArgumentTs]], object],
        *args: *ArgumentTs,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call in the next iteration: all threads of a simulated process are scheduled tasks."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[ArgumentTs]], object],
        *args: *ArgumentTs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call after `delay` seconds."""
        return self.call_at(self.read_ns() / _NS_PER_S + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[ArgumentTs]], object],
        *args: *ArgumentTs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at a time of this loop."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self._process.is_running:
            due_ns, drift = int(when * _NS_PER_S) + 1, self._process.machine.drift
            if drift is not None:
                due_ns = drift.virtual_ns(due_ns) + 1
            self._scheduler.at(due_ns, partial(self._on_timer, timer))
        return timer

    def _on_timer(self, timer: asyncio.TimerHandle) -> None:
        if not timer.cancelled() and self._process.is_running:
            self._ready.append(timer)
            if not self._is_scheduled:
                self.wake()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave the cancelled timer in the queue; it is dropped at its time."""

    def wake(self) -> None:
        """Schedule an iteration if there is something to do, and the process is not paused."""
        if self._ready and not self._is_scheduled and not self._process.is_paused:
            self._is_scheduled = True
            scheduler = self._scheduler
            if self._busy_until_ns <= scheduler.now_ns:
                scheduler.soon(self._iterate)
            else:
                scheduler.at(self._busy_until_ns, self._iterate)

    def _iterate(self) -> None:
        """Run the callbacks that are ready now; those that they schedule run in the next iteration."""
        self._is_scheduled = False
        process = self._process
        if not process.is_running or process.is_paused:
            return
        scheduler, ready, random_bits = self._scheduler, self._ready, self._scheduler.rng.getrandbits
        count = len(ready)
        scheduler.trace.add(self._trace_code, count)
        self._spent_ns = 0
        events._set_running_loop(self)
        scheduler.current = process.name
        try:
            for _ in range(count):
                handle: Any = ready.popleft()
                if not handle._cancelled:
                    self._spent_ns += _CALLBACK_NS_MIN + random_bits(_CALLBACK_RANDOM_BITS)
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except BaseException as error:
                        self._on_error(handle, error)
                    if not (process.is_running and process.machine.disk.has_power):
                        process.check_power()
                        return
        finally:
            events._set_running_loop(None)
            scheduler.current = ""
            self._busy_until_ns = scheduler.now_ns + self._spent_ns
            self._spent_ns = 0
        if ready:
            self.wake()

    def _on_error(self, handle: Any, error: BaseException) -> None:
        """Handle the error of a callback, as asyncio does. A loss of power in a callback ends the process."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        if not self._process.check_power():
            return
        self.call_exception_handler(
            {"message": f"Exception in callback {handle._callback}", "exception": error, "handle": handle}
        )

    def end(self) -> None:
        """Drop everything: the process has ended."""
        self.kept.extend(asyncio.all_tasks(self))
        self._ready.clear()
        self._readers.clear()

    def close_coroutines(self) -> None:
        """Close the coroutines of all tasks; call it after the simulation."""
        for task in self.kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                cast(Coroutine[Any, Any, Any], task.get_coro()).close()
        self.kept.clear()

    # ---- tasks, futures, threads

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future."""
        return _Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Start a task."""
        text = None if name is None else str(name)
        return _Task(coro, loop=self, name=text, context=context)

    def next_number(self) -> int:
        """Return the hash of a task or future."""
        self._number += 1
        return self._number

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[Unpack[ArgumentTs]], ResultT],
        *args: *ArgumentTs,
    ) -> asyncio.Future[ResultT]:
        """Run a function as a scheduled task of a simulated executor."""
        chosen = self._default_executor if executor is None else executor
        return asyncio.wrap_future(chosen.submit(func, *args), loop=self)

    # ---- descriptors

    def add_reader(
        self, fd: Any, callback: Callable[[Unpack[ArgumentTs]], object], *args: *ArgumentTs
    ) -> None:
        """Call as long as a simulated descriptor is readable."""
        self.remove_reader(fd)
        self._readers[fd] = asyncio.Handle(callback, args, self, None)
        self.notify(fd)

    def remove_reader(self, fd: Any) -> bool:
        """Stop calling."""
        handle = self._readers.pop(fd, None)
        if handle is None:
            return False
        handle.cancel()
        return True

    def notify(self, descriptor: int) -> None:
        """Check a descriptor, because it may be readable now."""
        if descriptor in self._readers:
            self.call_soon(self._call_reader, descriptor)

    def _call_reader(self, descriptor: int) -> None:
        handle = self._readers.get(descriptor)
        if handle is not None and self._sockets.is_readable(descriptor):
            handle._run()
            if self._sockets.is_readable(descriptor):
                self.notify(descriptor)

    # ---- network

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """Return the address of a simulated machine. Errors: socket.gaierror."""
        address = self._sockets.network.address_of(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port)))]

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect to a listener of a simulated machine; return transport and protocol. Errors: OSError."""
        if options.get("ssl") is not None:
            raise OSError(errno.EPROTONOSUPPORT, "TLS is not simulated")
        endpoint = await self._sockets.network.connect(self._process, str(host), int(port))
        return await self._sockets.attach(self, endpoint, protocol_factory)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:
        """Return transport and protocol of an accepted socket."""
        if options.get("ssl") is not None:
            raise OSError(errno.EPROTONOSUPPORT, "TLS is not simulated")
        return await self._sockets.attach(self, sock.endpoint, protocol_factory)

    # ---- state and errors

    get_debug = staticmethod(bool)
    """Return False: the debug mode of asyncio reads the system's clock. Each future calls this."""

    def is_running(self) -> bool:
        """Return whether the process runs."""
        return self._process.is_running

    def is_closed(self) -> bool:
        """Return whether the process has ended."""
        return not self._process.is_running

    def set_exception_handler(self, handler: Any) -> None:
        """Use another handler for unhandled errors."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        """Return the handler for unhandled errors; None for the default."""
        return self._exception_handler

    def call_exception_handler(self, context: ErrorContext) -> None:
        """Call the handler for unhandled errors, unless the process has ended."""
        if not self._process.is_running:
            return
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: ErrorContext) -> None:
        """Collect the error: a simulation fails if there is one."""
        self.failures.append(context)
