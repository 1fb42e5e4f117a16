"""Kafka Connect with a file as source and another one as sink: all lines pass through a topic.

mvn dependency:copy-dependencies -DoutputDirectory=jars
CLASSPATH='jars/*' python copy_file.py localhost:9092
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIGS = Path(__file__).parent
LINES = ["high", "low", "slack"]
TIMEOUT_S = 90

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "in.txt").write_text("\n".join([*LINES, ""]))
    worker = subprocess.Popen(
        [
            "java",
            "-Xmx512m",
            "org.apache.kafka.connect.cli.ConnectStandalone",
            *(str(CONFIGS / f"{each}.properties") for each in ("worker", "source", "sink")),
        ],
        env={**os.environ, "BOOTSTRAP_SERVERS": sys.argv[1], "FOLDER": name},
    )
    try:
        output, deadline = folder / "out.txt", time.monotonic() + TIMEOUT_S
        lines: list[str] = []
        while len(lines) < len(LINES) and worker.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            lines = output.read_text().split() if output.exists() else []
    finally:
        worker.terminate()
        worker.wait()
print("copied", lines)
