"""Puts to S3: small objects in one call, others in parts.

A multipart upload that fails is aborted, because the bucket would keep its parts invisibly. These cases
need care:
- A response is lost. A repeated `create` would leave the first upload: afterwards the uploads of this key
  are listed and all others are aborted. Keys are written once; two concurrent puts of one key may then abort
  each other, but never mix. A repeated `complete` may find no upload: then a token in the metadata of the
  object shows whether this upload wrote it.
- The abort fails, too. The upload is recorded (at most 1,000 uploads) and aborted after a later put.
- The process crashes. The deletion of the object aborts its uploads, also if the object does not exist.

Each part is sent with its CRC-32C. A server that supports it verifies the bytes and returns the checksum;
most other servers ignore it. If a server rejects a request with a checksum, later puts are sent without.

Source: the limits of S3 are 5 MiB to 5 GiB for a part except the last, and 10,000 parts.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections import deque
from collections.abc import Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crc32c import crc32c

from tidelog.base.randomness import Randomness, new_uuid
from tidelog.remote.objects.stores.port import failure
from tidelog.remote.objects.stores.s3_calls import AttemptFailed, CallFailed, S3Calls
from tidelog.remote.objects.stores.s3_object_requests import ObjectRequests
from tidelog.remote.objects.stores.s3_settings import PARTS_MAX, S3Settings
from tidelog.remote.objects.stores.streams import Part, Parts

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_RECORDED_UPLOADS_MAX: Final = 1000
_TOKEN: Final = "tidelog-upload"
_CHECKSUM: Final = "ChecksumCRC32C"
_CHECKSUM_HEADER: Final = "x-amz-checksum-crc32c"
_REJECTED_STATUS: Final = (400, 501)
_WRONG_BYTES_CODES: Final = frozenset({"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch"})

_log = logging.getLogger(__name__)


class _Upload(NamedTuple):
    key: str
    upload_id: str


class _Checksums(NamedTuple):
    """The checksums of one put: all of its requests have one, or none."""

    are_sent: bool

    @property
    def algorithm(self) -> Any:
        """The argument of requests that names the algorithm."""
        return {"ChecksumAlgorithm": "CRC32C"} if self.are_sent else {}

    def of(self, body: bytes) -> Any:
        """Return the argument with the checksum of `body`."""
        return {_CHECKSUM: _crc_text(body)} if self.are_sent else {}


class _SentPart(NamedTuple):
    fields: dict[str, object]
    """The description of the part in the request that completes the upload."""
    is_confirmed: bool


class S3Uploads:
    """Writes objects. Thread-safe. Errors: CallFailed; RemoteStorageError for content of a wrong size."""

    def __init__(
        self,
        name: str,
        client: S3Client,
        requests: ObjectRequests,
        calls: S3Calls,
        settings: S3Settings,
        randomness: Randomness,
    ) -> None:
        self._name = name
        self._client = client
        self._requests = requests
        self._calls = calls
        self._randomness = randomness
        self._bucket = settings.bucket
        self._part_bytes = settings.part_bytes
        # With one of these settings, the client adds other checksums itself.
        self._checksums = _Checksums(not (settings.legacy_md5 or settings.checksum_check))
        self._abort_timeout_s = settings.attempt_timeout_ms / 1000
        standard = settings.storage_class == "STANDARD"
        self._options: dict[str, Any] = {} if standard else {"StorageClass": settings.storage_class}
        self._to_abort: deque[_Upload] = deque(maxlen=_RECORDED_UPLOADS_MAX)
        self._lock = threading.Lock()

    def put(self, key: str, parts: Parts) -> bool:
        """Write the object; return whether the server has confirmed the checksums of all bytes."""
        part_bytes = max(self._part_bytes, -(-(parts.size_bytes or 0) // PARTS_MAX))
        first = parts.next_part(part_bytes)
        checksums = self._checksums
        try:
            if len(first) < part_bytes or parts.taken_bytes == parts.size_bytes:
                is_confirmed = self._put_at_once(key, _body(first), checksums)
            else:
                is_confirmed = self._put_in_parts(key, parts, part_bytes, first, checksums)
        except CallFailed as failed:
            self._omit_checksums_if_rejected(checksums, failed)
            raise
        self._abort_recorded()
        return is_confirmed

    def _omit_checksums_if_rejected(self, checksums: _Checksums, failed: CallFailed) -> None:
        is_rejected = failed.status in _REJECTED_STATUS and failed.code not in _WRONG_BYTES_CODES
        if checksums.are_sent and is_rejected and self._checksums.are_sent:
            self._checksums = _Checksums(False)
            _log.info("%s: sending objects without checksums from now on: %s", self._name, failed)

    def abort_unfinished(self, keys: Sequence[str]) -> None:
        """Abort every upload of `keys`, which are being deleted; uploads that cannot be aborted remain."""
        prefix = commonprefix(keys)  # noqa: RUF071 - by characters, because S3 has no directories
        if not prefix:
            return
        try:
            uploads = self._list_uploads(prefix)
        except CallFailed as failed:
            _log.info("%s: cannot list uploads of %r; their parts may remain: %s", self._name, prefix, failed)
            return
        for upload in uploads:
            if upload.key in keys:
                self._abort(upload)

    def _put_at_once(self, key: str, body: bytes, checksums: _Checksums) -> bool:
        checksum = checksums.of(body)
        parameters = {**checksum, **checksums.algorithm, **self._options}

        def send(_: object) -> bool:
            response = self._requests.put(key, body, parameters)
            if not response.etag:
                raise AttemptFailed("the response has no ETag")
            return _is_confirmed(response.headers.get(_CHECKSUM_HEADER), checksum)

        return self._calls.run(send)

    def _put_in_parts(
        self, key: str, parts: Parts, part_bytes: int, first: Part, checksums: _Checksums
    ) -> bool:
        token = new_uuid(self._randomness).hex
        lost_responses = [0]
        upload: _Upload | None = None
        try:
            upload = self._create(key, token, lost_responses, checksums)
            sent: list[_SentPart] = []
            part = first
            while part:
                if len(sent) == PARTS_MAX:
                    raise failure(self._name, "put", key, f"it would need more than {PARTS_MAX} parts")
                sent.append(self._upload_part(upload, len(sent) + 1, part, checksums))
                part = parts.next_part(part_bytes)
            self._complete(upload, sent, token)
            return all(part.is_confirmed for part in sent)
        except BaseException:
            if upload is not None:
                self._abort(upload)
            raise
        finally:
            if lost_responses[0]:
                self._abort_others(key, upload)

    def _create(self, key: str, token: str, lost_responses: list[int], checksums: _Checksums) -> _Upload:
        """Begin an upload; count each attempt with an unknown outcome in `lost_responses`."""

        def create(_: object) -> _Upload:
            response = self._client.create_multipart_upload(
                Bucket=self._bucket, Key=key, Metadata={_TOKEN: token}, **checksums.algorithm, **self._options
            )
            if not response.get("UploadId"):
                raise AttemptFailed("the response has no upload id")
            return _Upload(key, response["UploadId"])

        def count() -> None:
            lost_responses[0] += 1

        try:
            return self._calls.run(create, on_retry=count)
        except CallFailed as failed:
            if failed.status == 0 or failed.status >= 500:
                count()
            raise

    def _upload_part(self, upload: _Upload, number: int, part: Part, checksums: _Checksums) -> _SentPart:
        body = _body(part)
        checksum = checksums.of(body)

        def send(_: object) -> _SentPart:
            response = self._client.upload_part(
                Bucket=self._bucket,
                Key=upload.key,
                UploadId=upload.upload_id,
                PartNumber=number,
                Body=body,
                **checksum,
                **checksums.algorithm,
            )
            if not response.get("ETag"):
                raise AttemptFailed("the response has no ETag")
            is_confirmed = _is_confirmed(response.get(_CHECKSUM), checksum)
            return _SentPart({"PartNumber": number, "ETag": response["ETag"], **checksum}, is_confirmed)

        return self._calls.run(send)

    def _complete(self, upload: _Upload, sent: list[_SentPart], token: str) -> None:
        parts: Any = {"Parts": [part.fields for part in sent]}

        def complete(_: object) -> None:
            response = self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id, MultipartUpload=parts
            )
            if not response.get("ETag"):
                raise AttemptFailed("the response has no ETag")

        try:
            self._calls.run(complete)
        except CallFailed:
            # The server may have completed it although its response was lost.
            if not self._is_complete(upload.key, token):
                raise

    def _is_complete(self, key: str, token: str) -> bool:
        try:
            response = self._calls.run(
                lambda _: self._client.head_object(Bucket=self._bucket, Key=key),
                timeout_s=self._abort_timeout_s,
            )
        except CallFailed:
            return False
        return response["Metadata"].get(_TOKEN) == token

    def _abort(self, upload: _Upload) -> bool:
        """Abort the upload and return whether it has ended; otherwise record it for a later attempt."""
        try:
            self._calls.run(
                lambda _: self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id
                ),
                timeout_s=self._abort_timeout_s,
            )
        except CallFailed as failed:
            if failed.code == "NoSuchUpload":
                return True
            _log.warning(
                "%s: cannot abort the upload of %r; retrying later: %s", self._name, upload.key, failed
            )
            with self._lock:
                self._to_abort.append(upload)
            return False
        return True

    def _abort_others(self, key: str, own_upload: _Upload | None) -> None:
        """Abort the uploads of `key` whose ids were never received."""
        try:
            uploads = self._list_uploads(key)
        except CallFailed as failed:
            _log.warning("%s: cannot list uploads of %r; their parts may remain: %s", self._name, key, failed)
            with self._lock:
                self._to_abort.append(_Upload(key, ""))
            return
        for upload in uploads:
            if upload.key == key and upload != own_upload:
                self._abort(upload)

    def _list_uploads(self, prefix: str) -> list[_Upload]:
        """Return unfinished uploads whose keys begin with `prefix`, at most 1,000."""

        def request(_: object) -> Any:
            page = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=prefix)
            if "IsTruncated" not in page:
                raise AttemptFailed("the response is not a complete listing")
            return page

        try:
            page = self._calls.run(request, timeout_s=self._abort_timeout_s)
        except CallFailed as failed:
            if failed.code == "NoSuchUpload":  # the response of some servers if there are none
                return []
            raise
        return [_Upload(entry["Key"], entry["UploadId"]) for entry in page.get("Uploads", [])]

    def _abort_recorded(self) -> None:
        """Abort recorded uploads now that the store responds, until one fails."""
        while True:
            with self._lock:
                if not self._to_abort:
                    return
                upload = self._to_abort.popleft()
                remaining = len(self._to_abort)
            if upload.upload_id:
                self._abort(upload)
            else:
                self._abort_others(upload.key, None)
            with self._lock:
                if len(self._to_abort) > remaining:
                    return


def _crc_text(body: bytes) -> str:
    return base64.b64encode(int(crc32c(body)).to_bytes(4, "big")).decode()


def _is_confirmed(stored: str | None, sent: dict[str, str]) -> bool:
    """Return whether the server has stored, and therefore verified, the checksum that was sent."""
    return bool(sent) and stored == sent[_CHECKSUM]


def _body(part: Part) -> bytes:
    """Return `part` as boto3 accepts it; parts of files are bytes already and are not copied."""
    return part if isinstance(part, bytes) else bytes(part)
