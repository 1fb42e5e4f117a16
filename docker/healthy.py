"""End with exit code 0 if the broker of this container reports that it is ready; for HEALTHCHECK."""

import os
import ssl
import sys
import urllib.request

PORT = os.environ.get("KAFKA_METRICS_PORT", "9404")
HAS_TLS = os.environ.get("KAFKA_METRICS_SECURITY_PROTOCOL") == "SSL"
# The certificate has the name of the host, not 127.0.0.1; the connection does not leave the container.
CONTEXT = ssl._create_unverified_context() if HAS_TLS else None
URL = f"{'https' if HAS_TLS else 'http'}://127.0.0.1:{PORT}/healthz"

try:
    urllib.request.urlopen(URL, timeout=1.5, context=CONTEXT)
except OSError as error:
    sys.exit(f"the broker is not healthy: {URL}: {error}")
