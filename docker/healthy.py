"""End with exit code 0 if the broker of this container reports that it is ready; for HEALTHCHECK.

If the metrics endpoint requires certificates of clients (listener.name.metrics.ssl.client.auth=required),
TIDELOG_HEALTH_CERTIFICATE is the path of a PEM file with a certificate and its key, without a password.
A token is not needed: /healthz has none.
"""

import os
import ssl
import sys
import urllib.request

PORT = os.environ.get("KAFKA_METRICS_PORT", "9404")
HAS_TLS = os.environ.get("KAFKA_METRICS_SECURITY_PROTOCOL") == "SSL"
CLIENT_CERTIFICATE = os.environ.get("TIDELOG_HEALTH_CERTIFICATE")
URL = f"{'https' if HAS_TLS else 'http'}://127.0.0.1:{PORT}/healthz"


def client_context() -> ssl.SSLContext:
    """Return a context that presents the certificate, if there is one."""
    # The certificate has the name of the host, not 127.0.0.1; the connection does not leave the container.
    context = ssl._create_unverified_context()
    if CLIENT_CERTIFICATE:
        # The empty password prevents a prompt for a key that has one.
        context.load_cert_chain(CLIENT_CERTIFICATE, password="")
    return context


try:
    urllib.request.urlopen(URL, timeout=1.5, context=client_context() if HAS_TLS else None)
except OSError as error:
    sys.exit(f"not healthy: {error}")
