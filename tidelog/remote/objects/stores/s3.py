"""An object store in a bucket of S3, or of a server with the same protocol, through boto3.

Importing this module loads boto3: `backends` imports it only to create a store of this kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.remote.objects.stores.port import (
    SYSTEM_PORTS,
    Content,
    ObjectInfo,
    StorePorts,
    check_key,
    check_range,
    failure,
    missing,
)
from tidelog.remote.objects.stores.s3_calls import TEMPORARY_CODES, AttemptFailed, CallFailed, S3Calls
from tidelog.remote.objects.stores.s3_client import s3_client
from tidelog.remote.objects.stores.s3_object_requests import ObjectRequests
from tidelog.remote.objects.stores.s3_read import Place, S3Reads
from tidelog.remote.objects.stores.s3_settings import S3Settings
from tidelog.remote.objects.stores.s3_upload import S3Uploads
from tidelog.remote.objects.stores.streams import ExactStream, Parts, put_errors
from tidelog.remote.ports.storage_manager import RemoteStorageError

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

_DELETE_MAX: Final = 1000


class S3Store:
    """Objects of a bucket.

    I/O: blocking HTTP calls, from any thread, on a pool of at most `S3Settings.connections_max` connections.
    Errors: those of the port; RemoteResourceNotFound if S3 responds NoSuchKey, but not if the bucket is
    missing.
    Bounds: a call ends within `S3Settings.call_timeout_ms`; a put of n parts needs up to n + 4 calls.
    """

    def __init__(self, settings: S3Settings, ports: StorePorts = SYSTEM_PORTS) -> None:
        self.name = f"s3://{settings.bucket}"
        self._bucket = settings.bucket
        self._client = s3_client(settings, ports.on_request)
        self._calls = S3Calls(settings, ports)
        self._requests = ObjectRequests(self._client, settings.bucket, ports.on_request)
        self._uploads = S3Uploads(
            self.name, self._client, self._requests, self._calls, settings, ports.randomness
        )
        self._reads = S3Reads(self._requests, self._calls)

    @classmethod
    def from_config(cls, values: Mapping[str, str], ports: StorePorts = SYSTEM_PORTS) -> S3Store:
        """Return the store that `values` configure, without a connection. Errors: ConfigError, one line."""
        return cls(S3Settings.from_config(values), ports)

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Put an object, as specified by ObjectStore; one part of a source is in memory at a time."""
        check_key(self.name, key)
        with put_errors(self.name, key):
            try:
                return self._uploads.put(key, Parts(self.name, key, content, size))
            except CallFailed as failed:
                raise failure(self.name, "put", key, failed.args[0], is_outage=failed.is_outage) from failed

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ExactStream:
        """Return a range of an object, as specified by ObjectStore."""
        check_range(start, end)
        check_key(self.name, key)
        return self._reads.open(Place(self.name, key), start, end)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore, with 1,000 keys per call.

        The failure of a call ends the deletion; the failure of single keys does not. Unfinished uploads of
        the keys are aborted, too.
        """
        remaining = iter(keys)
        first_error: RemoteStorageError | None = None
        while batch := list(islice(remaining, _DELETE_MAX)):
            for key in batch:
                check_key(self.name, key)
            try:
                self._delete_batch(batch)
                self._uploads.abort_unfinished(batch)
            except CallFailed as error:
                if error.status == 0 or error.status >= 500:
                    self._fail("delete", batch[0], error)
                first_error = first_error or failure(
                    self.name, "delete", batch[0], error.args[0], is_outage=error.is_outage
                )
            except RemoteStorageError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore, with 1,000 objects per page."""
        token: str | None = None
        while True:
            try:
                page = self._page(prefix, start_after, token)
            except CallFailed as failed:
                self._fail("list", prefix, failed)
            for entry in page.get("Contents", []):
                if entry["Key"] > start_after:  # some servers ignore StartAfter
                    yield ObjectInfo(entry["Key"], entry["Size"])
            if not page["IsTruncated"]:
                return
            next_token = page.get("NextContinuationToken")
            if not next_token or next_token == token:
                raise failure(
                    self.name, "list", prefix, "the listing is incomplete and has no continuation token"
                )
            token = next_token

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        check_key(self.name, key)

        def request(_: object) -> int:
            length = self._requests.head(key).length
            if length is None:
                raise AttemptFailed("the response has no content length")
            return length

        try:
            return self._calls.run(request)
        except CallFailed as failed:
            self._fail("get the size of", key, failed)

    def close(self) -> None:
        """Close the connections; calls in progress fail soon."""
        self._calls.close()
        self._client.close()

    def _page(self, prefix: str, start_after: str, token: str | None) -> ListObjectsV2OutputTypeDef:
        continuation: Any = {} if token is None else {"ContinuationToken": token}
        if start_after:
            continuation["StartAfter"] = start_after

        def request(_: object) -> ListObjectsV2OutputTypeDef:
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **continuation)
            if "IsTruncated" not in page:
                raise AttemptFailed("the response is not a complete listing")
            return page

        return self._calls.run(request)

    def _delete_batch(self, keys: Sequence[str]) -> None:
        """Delete at most 1,000 keys; those that fail for a temporary reason are retried."""
        waiting = list(keys)
        rejected: list[str] = []

        def request(_: object) -> None:
            objects: Any = {"Objects": [{"Key": key} for key in waiting], "Quiet": True}
            response = self._client.delete_objects(Bucket=self._bucket, Delete=objects)
            headers = response["ResponseMetadata"]["HTTPHeaders"]
            if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
                raise AttemptFailed("the response to the deletion is empty")
            errors = response.get("Errors", [])
            waiting.clear()
            for error in errors:
                key, code = error.get("Key", ""), error.get("Code", "")
                if code in TEMPORARY_CODES:
                    waiting.append(key)
                elif code != "NoSuchKey":
                    rejected.append(f"{key!r}: {code} {error.get('Message', '')}")
            if waiting:
                raise AttemptFailed(f"{len(waiting)} keys were not deleted yet, such as {waiting[0]!r}")

        self._calls.run(request)
        if rejected:
            text = f"{len(rejected)} of {len(keys)} keys were rejected, {rejected[0]}"
            raise failure(self.name, "delete", keys[0], text)

    def _fail(self, action: str, key: str, error: CallFailed) -> NoReturn:
        if error.code in ("NoSuchKey", "404"):
            raise missing(self.name, key) from error
        raise failure(self.name, action, key, error.args[0], is_outage=error.is_outage) from error
