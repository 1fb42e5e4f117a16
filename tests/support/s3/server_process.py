"""`python -m tests.support.s3.server_process BUCKET`: moto's S3 server in a process, for long runs."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from moto.server import ThreadedMotoServer

from tests.support.paths import ROOT

STOP_TIMEOUT_S = 30.0


@contextmanager
def s3_server_process(bucket: str) -> Iterator[str]:
    """Run the server with an empty bucket until the block ends; yield its URL."""
    command = [sys.executable, "-m", "tests.support.s3.server_process", bucket]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        assert endpoint, f"{command} ended with code {process.wait()}"
        try:
            yield endpoint
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def main() -> None:
    """Serve on a free port, print the URL, and stop at SIGTERM."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=sys.argv[1])
    print(endpoint, flush=True)
    stopping.wait()
    server.stop()


if __name__ == "__main__":
    main()
