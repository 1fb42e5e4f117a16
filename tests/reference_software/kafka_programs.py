"""Command lines of Apache Kafka and of Tidelog: format a directory, start a broker, run one of Kafka's tools.

Apache Kafka is started from its jars (`mvn dependency:copy-dependencies`); a checkout or a distribution is
not needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tests.reference_software.environment import python_environment

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
WITHIN_S: Final = 90.0

LOGGING: Final = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level={level}
rootLogger.appenderRef.out.ref=out
"""

SHIPPED_JAVA_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""The options that the start scripts of Apache Kafka's distribution pass to every JVM."""

SHIPPED_BROKER_HEAP: Final = ("-Xmx1G", "-Xms1G")
"""The heap that `kafka-server-start.sh` chooses."""


class Engine(Enum):
    """The implementation that a node runs."""

    KAFKA = "Apache Kafka"
    TIDELOG = "Tidelog"


class FormatError(Exception):
    """Raised if a log directory cannot be formatted; the text contains the output of the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Command lines of the two kinds of broker and of Kafka's tools.

    `folder` holds the logging configuration; `plugins` are classpath entries behind Kafka's own.
    """

    folder: Path
    jars: Path
    plugins: Sequence[str] = ()
    broker_options: Sequence[str] = (*SHIPPED_JAVA_OPTIONS, *SHIPPED_BROKER_HEAP)
    tool_options: Sequence[str] = (*SHIPPED_JAVA_OPTIONS, "-Xmx512M")
    niceness: int = 0

    def write_logging(self) -> None:
        """Write the logging configuration of brokers and of tools, at the distribution's levels."""
        self._logging("broker").write_text(LOGGING.format(level="INFO"))
        self._logging("tool").write_text(LOGGING.format(level="WARN"))

    def format(self, engine: Engine, config: Path, *options: str) -> None:
        """Format the log directory that `config` names. Raise FormatError on failure."""
        if engine is Engine.KAFKA:
            command = self._java("tool", ("-Xmx128m", "-XX:TieredStopAtLevel=1"))
            command += ["kafka.tools.StorageTool", "format"]
        else:
            command = [str(Path(sys.executable).with_name("tidelog")), "storage", "format"]
        command += ["--cluster-id", CLUSTER_ID, "--config", str(config), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode != 0:
            raise FormatError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")

    def start(self, engine: Engine, config: Path, output: Path) -> subprocess.Popen[bytes]:
        """Start a node; append its output to `output`."""
        if engine is Engine.KAFKA:
            command = [*self._java("broker", self.broker_options), "kafka.Kafka", str(config)]
        else:
            command = [sys.executable, "-m", "tidelog.broker", "--config", str(config)]
        if self.niceness:
            command = ["nice", "-n", str(self.niceness), *command]
        with output.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=python_environment())

    def tool(
        self, main_class: str, *arguments: str, timeout_s: float = WITHIN_S
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools to its end."""
        command = [*self._java("tool", self.tool_options), main_class, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)

    def _java(self, kind: str, options: Sequence[str]) -> list[str]:
        classpath = os.pathsep.join([f"{self.jars}/*", *self.plugins])
        return ["java", *options, f"-Dlog4j2.configurationFile={self._logging(kind)}", "-cp", classpath]

    def _logging(self, kind: str) -> Path:
        return self.folder / f"{kind}-log4j2.properties"
