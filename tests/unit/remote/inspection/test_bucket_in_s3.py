"""fsck of a real S3 server: a complete bucket, and a changed one."""

from __future__ import annotations

from pathlib import Path

from tests.support.s3.server import s3_server
from tests.support.tier.bucket import TierBucket
from tidelog.remote.inspection.findings import Kind
from tidelog.remote.inspection.offline import offline_views


def test_a_bucket_in_s3_is_inspected(tmp_path: Path) -> None:
    with s3_server() as server, server.bucket() as name:
        tier = TierBucket(
            tmp_path,
            {
                "storage.backend.class": "s3",
                "storage.s3.bucket.name": name,
                "storage.s3.endpoint.url": server.endpoint,
                "storage.s3.region": "us-east-1",
                "storage.s3.path.style.access.enabled": "true",
                "storage.aws.access.key.id": server.access_key,
                "storage.aws.secret.access.key": server.secret_key,
                "key.prefix": "of/tides/",
                "compression.enabled": "true",
            },
        )
        tier.fill()
        tier.copy()
        assert tier.findings() == []
        client = server.client()
        keys = tier.bucket.keys(tier.segments[1])
        client.delete_object(Bucket=name, Key=keys.log)
        client.put_object(Bucket=name, Key=keys.log.replace("/0/", "/0/strange"), Body=b"")
        findings = tier.findings()
        assert [finding.kind for finding in findings] == [Kind.MISSING_OBJECT, Kind.FOREIGN_OBJECT]
        views, odd = offline_views(tier.bucket, ())
        assert (len(views[0].segments), [one.kind for one in odd]) == (3, [Kind.FOREIGN_OBJECT])
        tier.bucket.close()
