"""The errors of one log: which are reported for one operation, and which end all writes to the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.storage.disk.errors import CorruptFile, InterruptedChange, StorageFailure, is_descriptor_shortage
from tidelog.storage.log.observer import LogObserver


class LogFailures:
    """Tracks whether the files of a log are in a known state, and completes interrupted changes.

    Invariant: steps of a change are pending only while `failure` is an InterruptedChange.
    """

    __slots__ = ("_directory", "_observer", "_pending_steps", "failure")

    def __init__(self, directory: str, observer: LogObserver) -> None:
        self._directory = directory
        self._observer = observer
        self._pending_steps: deque[Callable[[], object]] = deque()
        self.failure: StorageFailure | None = None
        """Why the log refuses writes. Unless a change is interrupted, its directory must go offline."""

    def relocate(self, directory: str) -> None:
        """Name `directory` in errors from now on: the log is stored there."""
        self._directory = directory

    def fail(self, failure: StorageFailure) -> None:
        """Refuse all writes from now on; a failure other than an interrupted change is kept."""
        if self.failure is None or isinstance(self.failure, InterruptedChange):
            self.failure = failure

    def storage_errors(self, operation: str, *, is_final: bool = False) -> StorageErrors:
        """Return a context that converts errors of the disk to a KafkaError; see `storage_error`."""
        return StorageErrors(self, operation, is_final)

    def storage_error(self, operation: str, error: Exception, *, is_final: bool = False) -> KafkaError:
        """Return the error for the response.

        With `is_final` the contents of the disk are unknown after a failure of this operation, and the log
        refuses all further writes. A StorageFailure is always final, a shortage of descriptors never.
        """
        if isinstance(error, CorruptFile | DecodeError):
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{operation} of {self._directory}: {error}")
        if is_final and isinstance(error, OSError) and not is_descriptor_shortage(error):
            error = StorageFailure(self._directory, operation, str(error))
        if isinstance(error, StorageFailure):
            self.failure = self.failure or error
            return error
        text = f"{operation} of {self._directory} failed: {error}"
        self._observer.operation_refused(text, is_shortage=is_descriptor_shortage(error))
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def refuse_after_failure(self) -> None:
        """Raise StorageFailure if an earlier failure left the log's files in an unknown state.

        An interrupted change is completed if that is possible now. The operation is refused in any case:
        the caller may have planned it for the log as it was before.
        """
        if isinstance(self.failure, InterruptedChange):
            interrupted = self.failure
            self.resume_interrupted()
            raise interrupted
        if self.failure is not None:
            raise StorageFailure(self._directory, "append", f"the log failed before: {self.failure}")

    def perform(self, operation: str, steps: Iterable[Callable[[], object]]) -> None:
        """Execute all `steps`, which change the log from one valid state to another.

        If a step finds no file descriptor, the log refuses all operations until `resume_interrupted` has
        executed the remaining steps. A step that raised may be executed again.
        Errors: KafkaError KAFKA_STORAGE_ERROR, which is final for all other errors of the disk.
        """
        assert not self._pending_steps, f"{self._directory}: {operation}, but another change is not complete"
        self._pending_steps.extend(steps)
        self._continue(operation)

    def resume_interrupted(self) -> None:
        """Complete an interrupted change, if that is possible now. Errors: those of `perform`."""
        if isinstance(self.failure, InterruptedChange):
            self._continue(self.failure.operation)

    def _continue(self, operation: str) -> None:
        self.failure = None
        try:
            with self.storage_errors(operation, is_final=True):
                while self._pending_steps:
                    self._pending_steps[0]()
                    self._pending_steps.popleft()
        except KafkaError as error:
            if not is_descriptor_shortage(error):
                self._pending_steps.clear()
                raise
            self.failure = InterruptedChange(self._directory, operation, str(error))
            raise self.failure from error


class StorageErrors:
    """A context of one operation: errors of the disk leave it as a KafkaError that names the file.

    It is a class, because each read enters it, and a generator's context costs five calls more.
    """

    __slots__ = ("_failures", "_is_final", "_operation")

    def __init__(self, failures: LogFailures, operation: str, is_final: bool) -> None:
        self._failures = failures
        self._operation = operation
        self._is_final = is_final

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raise a KafkaError instead of `error` if that is an error of the disk."""
        if isinstance(error, OSError | StorageFailure | CorruptFile | DecodeError):
            raise self._failures.storage_error(self._operation, error, is_final=self._is_final) from error
