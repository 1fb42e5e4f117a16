"""Files in one folder of any file system of Spark: local, HDFS, s3a and others (shell).

It uses Hadoop's FileSystem in Spark's JVM, so that the files of a job are where Spark writes. Paths are
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
    """One folder, which may not exist yet."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        # PySpark's access to the JVM has no types.
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        path = jvm.org.apache.hadoop.fs.Path(location)
        self._system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._root = self._system.makeQualified(path)
        self.location = str(self._root.toString())

    def full(self, path: str) -> str:
        """Return the full path for Spark."""
        return str(self._path(path).toString())

    def files(self, path: str) -> Iterator[tuple[str, int]]:
        """Yield every file below `path` with its size in bytes; nothing if it does not exist."""
        if not self.exists(path):
            return
        files = self._system.listFiles(self._path(path), True)
        prefix = f"{self._root.toUri().getPath()}/"
        while files.hasNext():
            status = files.next()
            yield str(status.getPath().toUri().getPath()).removeprefix(prefix), int(status.getLen())

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return bool(self._system.exists(self._path(path)))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its contents, if it exists."""
        self._system.delete(self._path(path), True)

    def create(self, path: str) -> None:
        """Create a folder and its parents."""
        self._system.mkdirs(self._path(path))

    def move(self, path: str, to: str) -> None:
        """Rename a file. Errors: JobFailure if that fails."""
        if not self._system.rename(self._path(path), self._path(to)):
            raise JobFailure(f"{self.full(path)} could not be renamed to {self.full(to)}")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        stream = self._system.open(self._path(path))
        try:
            return bytes(stream.readNBytes(_READ_BYTES_MAX)).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write a file atomically: it exists with its whole text or not at all."""
        draft = f"{path}.draft"
        stream = self._system.create(self._path(draft), True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self.move(draft, path)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)
