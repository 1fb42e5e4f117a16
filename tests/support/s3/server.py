"""An S3 server for tests: moto's in a thread of this process, or the server of these environment variables.

TIDELOG_S3_ENDPOINT     http://host:port of the server
TIDELOG_S3_ACCESS_KEY, TIDELOG_S3_SECRET_KEY
TIDELOG_S3_BUCKET       one bucket for all tests, for servers on which tests cannot create buckets; it must be
                        empty, and is emptied after each test
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config


@dataclass(frozen=True)
class S3Server:
    """An S3 server at `endpoint`."""

    endpoint: str
    access_key: str
    secret_key: str
    fixed_bucket: str | None = None
    is_moto: bool = True

    def client(self) -> Any:
        """Return a shared boto3 client for inspecting the server."""
        return _client(self)

    @contextmanager
    def bucket(self) -> Iterator[str]:
        """Yield an empty bucket, which is removed or emptied afterwards."""
        client = self.client()
        name = self.fixed_bucket or f"tidelog-test-{uuid4().hex[:16]}"
        if self.fixed_bucket is None:
            client.create_bucket(Bucket=name)
        elif client.list_objects_v2(Bucket=name).get("KeyCount"):
            raise AssertionError(
                f"TIDELOG_S3_BUCKET {name} is not empty; use an empty one, because tests delete all objects"
            )
        try:
            yield name
        finally:
            self.empty(name)
            if self.fixed_bucket is None:
                client.delete_bucket(Bucket=name)

    def empty(self, bucket: str) -> None:
        """Delete every object and abort every upload."""
        client = self.client()
        for upload in self._uploads(bucket):
            client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for entry in page.get("Contents", []):
                client.delete_object(Bucket=bucket, Key=entry["Key"])

    def uploads(self, bucket: str) -> list[str]:
        """Return the keys of unfinished multipart uploads."""
        return [entry["Key"] for entry in self._uploads(bucket)]

    def _uploads(self, bucket: str) -> list[dict[str, str]]:
        client = self.client()
        try:
            uploads: list[dict[str, str]] = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        except client.exceptions.NoSuchUpload:  # gofakes3's response if there are none
            return []
        return uploads

    def config(self, bucket: str, *, endpoint: str | None = None) -> dict[str, str]:
        """Return the configs of an S3Store without the prefix `storage.`; `endpoint` may be a proxy's."""
        return {
            "s3.bucket.name": bucket,
            "s3.region": "us-east-1",
            "s3.endpoint.url": endpoint or self.endpoint,
            "s3.path.style.access.enabled": "true",
            "aws.access.key.id": self.access_key,
            "aws.secret.access.key": self.secret_key,
        }


@cache
def _client(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name="us-east-1",
        config=Config(
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield the server of the environment, or a moto server on a free port of loopback."""
    endpoint = os.environ.get("TIDELOG_S3_ENDPOINT")
    if endpoint:
        yield S3Server(
            endpoint=endpoint.rstrip("/"),
            access_key=os.environ.get("TIDELOG_S3_ACCESS_KEY", "testing"),
            secret_key=os.environ.get("TIDELOG_S3_SECRET_KEY", "testing"),
            fixed_bucket=os.environ.get("TIDELOG_S3_BUCKET"),
            is_moto=False,
        )
        return
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(endpoint=f"http://{host}:{port}", access_key="testing", secret_key="testing")
    finally:
        server.stop()
