"""The destinations of the metrics of clients: a collector of OpenTelemetry, or a file.

The collector gets OTLP over HTTP, in protobuf. The file has one line of OTLP in JSON for each push, as the
file exporter of OpenTelemetry's specification writes it; other collectors read such files. A file that has
reached its maximum size is renamed to `<path>.1`, which replaces the former one.

Source: OpenTelemetry Protocol specification, OTLP/HTTP and file exporter.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

from tidelog.broker.telemetry.forwarding import RejectedMetrics
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics

_TIMEOUT_S: Final = 5
_REPEATED: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""The errors after which a client of OTLP sends the same request again."""
_HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"


class OtlpCollector:
    """Sends metrics to the URL of a collector, with the headers of the variable of OpenTelemetry."""

    def __init__(self, endpoint: str) -> None:
        """Errors: ValueError for a URL that is not http or https."""
        if not endpoint.startswith(("http://", "https://")):
            raise ValueError("allowed is a URL that starts with http:// or https://")
        self.name = endpoint

    def write(self, batch: Sequence[PushedMetrics]) -> None:
        """Send one request. Errors: OSError, RejectedMetrics."""
        from opentelemetry.util.re import parse_env_headers

        # Concatenated messages are one message with all their resources.
        body = b"".join(metrics.data.SerializeToString() for metrics in batch)
        headers = dict(parse_env_headers(os.environ.get(_HEADERS_VARIABLE, ""), liberal=True))
        headers["content-type"] = "application/x-protobuf"
        request = urllib.request.Request(self.name, data=body, headers=headers, method="POST")
        try:
            urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()
        except HTTPError as error:
            if error.code not in _REPEATED:
                raise RejectedMetrics(str(error)) from None
            raise


class OtlpFile:
    """Appends metrics to a file of at most about `max_bytes`."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.name = str(path)
        self._path = path
        self._max_bytes = max_bytes

    def write(self, batch: Sequence[PushedMetrics]) -> None:
        """Append one line for each push. Errors: OSError."""
        from google.protobuf.json_format import MessageToDict

        lines = [
            json.dumps(MessageToDict(metrics.data, use_integers_for_enums=True), separators=(",", ":"))
            for metrics in batch
        ]
        if self._path.exists() and self._path.stat().st_size >= self._max_bytes:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
