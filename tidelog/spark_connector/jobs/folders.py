"""Files below one folder of whatever Spark can write to: local, HDFS, s3a and others (shell).

Through Hadoop's FileSystem in Spark's JVM, so that a job's own files are where Spark's are. Paths are
relative to the folder. Errors: those of py4j.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog.spark_connector.jobs.failures import JobFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ_BYTES_MAX = 1 << 30


class Folder:
    """One folder, which need not be there yet."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        # PySpark's own door to the JVM, which it does not type.
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        path = jvm.org.apache.hadoop.fs.Path(place)
        self._system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._root = self._system.makeQualified(path)
        self.place = str(self._root.toString())

    def full(self, path: str) -> str:
        """The path as Spark takes it."""
        return str(self._path(path).toString())

    def files(self, path: str) -> Iterator[tuple[str, int]]:
        """Every file below `path` with its bytes; nothing when it is not there."""
        if not self.exists(path):
            return
        found = self._system.listFiles(self._path(path), True)
        prefix = f"{self._root.toUri().getPath()}/"
        while found.hasNext():
            status = found.next()
            yield str(status.getPath().toUri().getPath()).removeprefix(prefix), int(status.getLen())

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return bool(self._system.exists(self._path(path)))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; it may be gone already."""
        self._system.delete(self._path(path), True)

    def make(self, path: str) -> None:
        """Make a folder, and those it is in."""
        self._system.mkdirs(self._path(path))

    def move(self, path: str, to: str) -> None:
        """Rename a file. Errors: JobFailure when it could not be done."""
        if not self._system.rename(self._path(path), self._path(to)):
            raise JobFailure(f"{self.full(path)} could not be renamed to {self.full(to)}")

    def read(self, path: str) -> str:
        """The text of a file."""
        stream = self._system.open(self._path(path))
        try:
            return bytes(stream.readNBytes(_READ_BYTES_MAX)).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """A file that is there with its whole text or not at all."""
        draft = f"{path}.draft"
        stream = self._system.create(self._path(draft), True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self.move(draft, path)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)
