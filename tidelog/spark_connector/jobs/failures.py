"""The failure of a job as one line, extracted from Spark's long messages.

An error in a Python worker arrives as text with the tracebacks of all processes that it passed. The last line
of the innermost traceback outside Spark's own code says what happened.
"""

from __future__ import annotations

import re
from typing import Final

_EXCEPTION_LINE: Final = re.compile(
    r"^\s*(?:Caused by: |: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|NotFound)): (.*)$"
)
_MACHINERY: Final = ("py4j.", "org.apache.spark.", "java.", "pyspark.errors.", "pyspark.serializers")
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_LENGTH_MAX: Final = 600


class JobFailure(Exception):
    """A job cannot start or continue; the text gives the reason in one line."""


def cause_in(text: str) -> str:
    """Return the line of Spark's error `text` that states what happened; Tidelog's exceptions come first."""
    spark_message = ""
    for line in text.splitlines():
        match = _EXCEPTION_LINE.match(line)
        if match is None:
            continue
        name, message = match[1], match[2].strip()
        if message and not name.startswith(_MACHINERY) and not _CONDITION.match(message):
            return _shorten(message)
        # The last cause is the origin of the others.
        if not spark_message or line.startswith("Caused by: "):
            spark_message = message
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return _shorten(_CONDITION.sub("", spark_message or first))


def _shorten(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else text[: _LENGTH_MAX - 3] + "..."
