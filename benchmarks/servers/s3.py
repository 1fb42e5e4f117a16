"""moto's S3 server in a separate process, with a bucket named `tier`."""

from __future__ import annotations

import logging
import signal
import threading

import boto3
from moto.server import ThreadedMotoServer


def main() -> None:
    """Print the address, and serve on a free port until SIGTERM."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="tier")
    print(f"{host}:{port}", flush=True)
    asked_to_stop.wait()
    server.stop()


if __name__ == "__main__":
    main()
