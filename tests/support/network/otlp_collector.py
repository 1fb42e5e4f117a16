"""A collector of OpenTelemetry metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


class FakeCollector:
    """An HTTP server that returns `status`, and keeps the headers and the messages of its requests."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[dict[str, str], ExportMetricsServiceRequest]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {key.lower(): value for key, value in self.headers.items()}
                collector.requests.append((headers, ExportMetricsServiceRequest.FromString(body)))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        """The URL for metrics."""
        return f"http://127.0.0.1:{self.server.server_port}/v1/metrics"

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics of the last request by name."""
        if not self.requests:
            return {}
        (resource,) = self.requests[-1][1].resource_metrics
        return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


@contextmanager
def running_collector() -> Iterator[FakeCollector]:
    """Yield a collector on a free port of the loopback address."""
    collector = FakeCollector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()
