"""Exit code 0 when this container's broker says that it serves; for HEALTHCHECK."""

import os
import sys
import urllib.request

PORT = os.environ.get("KAFKA_METRICS_PORT", "9404")

try:
    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=1.5)
except OSError as error:
    sys.exit(f"not healthy: {error}")
