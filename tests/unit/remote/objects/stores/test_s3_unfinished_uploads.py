"""Multipart uploads of a killed process are invisible to reads and aborted by a deletion."""

from __future__ import annotations

from tests.support.s3.fault_proxy import FaultProxy, server_error
from tests.support.s3.server import S3Server
from tests.unit.remote.objects.stores.conftest import NewStore

KEY = "t-id/0/00000000000000000000-uuid"


def begin_upload(s3: S3Server, bucket: str, key: str) -> None:
    """Begin an upload like a process that is killed before the second part."""
    client = s3.client()
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=bytes(5 << 20))


def test_a_deletion_aborts_only_its_own_abandoned_uploads(
    s3: S3Server, bucket: str, new_proxied_store: NewStore
) -> None:
    for key in (f"{KEY}.log", f"{KEY}.log.other", "t-id/0/00000000000000000100-uuid.log"):
        begin_upload(s3, bucket, key)
    new_proxied_store().delete([f"{KEY}.rsm-manifest", f"{KEY}.indexes", f"{KEY}.log"])
    assert sorted(s3.uploads(bucket)) == [f"{KEY}.log.other", "t-id/0/00000000000000000100-uuid.log"]


def test_a_deletion_succeeds_when_uploads_cannot_be_listed(
    s3: S3Server, bucket: str, new_proxied_store: NewStore, proxy: FaultProxy
) -> None:
    s3.client().put_object(Bucket=bucket, Key=f"{KEY}.log", Body=b"x")
    proxy.inject(server_error(403, "AccessDenied"), matching=r"\?uploads")
    new_proxied_store().delete([f"{KEY}.log"])
    assert not s3.client().list_objects_v2(Bucket=bucket).get("Contents")
