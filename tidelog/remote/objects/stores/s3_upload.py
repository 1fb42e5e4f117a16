"""Puts to S3: small ones in one call, others in parts.

A multipart upload that fails is aborted, so that the bucket does not fill with parts that nobody sees. Two
things make that hard, and are handled:
- An answer is lost. A repeated `create` would leave the first upload behind: afterwards the uploads of this
  key are listed and all but ours aborted (keys are written once; two puts of one key at the same time may
  then fail each other, never mix). A repeated `complete` may find no upload: then the object that is there
  tells, by a token in its metadata, whether it is ours.
- The abort fails too. The upload is remembered (at most 1,000 are) and aborted after a later put.
- The process dies. Whoever deletes the object, or what there might be of it, aborts its uploads.

Source: S3's limits are 5 MiB to 5 GiB for a part but the last, and 10,000 parts.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from tidelog.remote.objects.stores.port import failure
from tidelog.remote.objects.stores.s3_calls import CallFailed, NotDone, S3Calls
from tidelog.remote.objects.stores.s3_settings import PARTS_MAX, S3Settings
from tidelog.remote.objects.stores.streams import Part, Parts

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_LEFT_BEHIND_MAX: Final = 1000
_TOKEN: Final = "tidelog-upload"

_log = logging.getLogger(__name__)


class _Upload(NamedTuple):
    key: str
    upload_id: str


class S3Uploads:
    """Writes objects. Thread-safe. Errors: CallFailed; RemoteStorageError for contents that do not fit."""

    def __init__(self, name: str, client: S3Client, calls: S3Calls, settings: S3Settings) -> None:
        self._name = name
        self._client = client
        self._calls = calls
        self._bucket = settings.bucket
        self._part_bytes = settings.part_bytes
        self._abort_timeout_s = settings.attempt_timeout_ms / 1000
        standard = settings.storage_class == "STANDARD"
        self._more: dict[str, Any] = {} if standard else {"StorageClass": settings.storage_class}
        self._left_behind: deque[_Upload] = deque(maxlen=_LEFT_BEHIND_MAX)
        self._lock = threading.Lock()

    def put(self, key: str, parts: Parts) -> None:
        """Write the object."""
        part_bytes = max(self._part_bytes, -(-(parts.size_bytes or 0) // PARTS_MAX))
        first = parts.next_part(part_bytes)
        if len(first) < part_bytes or parts.taken_bytes == parts.size_bytes:
            self._put_at_once(key, _body(first))
        else:
            self._put_in_parts(key, parts, part_bytes, first)
        self._abort_left_behind()

    def abort_unfinished(self, keys: Sequence[str]) -> None:
        """Abort every upload of `keys`, which are to be gone; what cannot be done now is left."""
        prefix = commonprefix(keys)  # noqa: RUF071 - of characters, as S3 has no directories
        if not prefix:
            return
        try:
            found = self._listed(prefix)
        except CallFailed as failed:
            _log.info("%s: parts of %r may stay, uploads cannot be listed: %s", self._name, prefix, failed)
            return
        for upload in found:
            if upload.key in keys:
                self._abort(upload)

    def _put_at_once(self, key: str, body: bytes) -> None:
        def send(_: object) -> None:
            answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **self._more)
            if not answer.get("ETag"):
                raise NotDone("the answer has no ETag")

        self._calls.run(send)

    def _put_in_parts(self, key: str, parts: Parts, part_bytes: int, first: Part) -> None:
        token = uuid4().hex
        lost_answers = [0]
        upload: _Upload | None = None
        try:
            upload = self._create(key, token, lost_answers)
            etags: list[str] = []
            part = first
            while part:
                if len(etags) == PARTS_MAX:
                    raise failure(self._name, "put", key, f"it has more than {PARTS_MAX} parts")
                etags.append(self._upload_part(upload, len(etags) + 1, part))
                part = parts.next_part(part_bytes)
            self._complete(upload, etags, token)
        except BaseException:
            if upload is not None:
                self._abort(upload)
            raise
        finally:
            if lost_answers[0]:
                self._abort_others(key, upload)

    def _create(self, key: str, token: str, lost_answers: list[int]) -> _Upload:
        """Begin an upload; each attempt whose outcome is not known is counted in `lost_answers`."""

        def create(_: object) -> _Upload:
            answer = self._client.create_multipart_upload(
                Bucket=self._bucket, Key=key, Metadata={_TOKEN: token}, **self._more
            )
            if not answer.get("UploadId"):
                raise NotDone("the answer names no upload")
            return _Upload(key, answer["UploadId"])

        def count() -> None:
            lost_answers[0] += 1

        try:
            return self._calls.run(create, on_retry=count)
        except CallFailed as failed:
            if failed.status == 0 or failed.status >= 500:
                count()
            raise

    def _upload_part(self, upload: _Upload, number: int, part: Part) -> str:
        body = _body(part)

        def send(_: object) -> str:
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id, PartNumber=number, Body=body
            )
            if not answer.get("ETag"):
                raise NotDone("the answer has no ETag")
            return answer["ETag"]

        return self._calls.run(send)

    def _complete(self, upload: _Upload, etags: list[str], token: str) -> None:
        listed: Any = {"Parts": [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]}

        def complete(_: object) -> None:
            answer = self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id, MultipartUpload=listed
            )
            if not answer.get("ETag"):
                raise NotDone("the answer has no ETag")

        try:
            self._calls.run(complete)
        except CallFailed:
            # The server may have done it although it did not say so.
            if not self._is_there(upload.key, token):
                raise

    def _is_there(self, key: str, token: str) -> bool:
        try:
            answer = self._calls.run(
                lambda _: self._client.head_object(Bucket=self._bucket, Key=key),
                timeout_s=self._abort_timeout_s,
            )
        except CallFailed:
            return False
        return answer["Metadata"].get(_TOKEN) == token

    def _abort(self, upload: _Upload) -> bool:
        """Whether the upload is gone; if not it is remembered."""
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
                "%s: the parts of %r stay for now, the abort failed: %s", self._name, upload.key, failed
            )
            with self._lock:
                self._left_behind.append(upload)
            return False
        return True

    def _abort_others(self, key: str, own: _Upload | None) -> None:
        """Abort the uploads of `key` whose names never reached us."""
        try:
            found = self._listed(key)
        except CallFailed as failed:
            _log.warning("%s: parts of %r may stay, uploads cannot be listed: %s", self._name, key, failed)
            with self._lock:
                self._left_behind.append(_Upload(key, ""))
            return
        for upload in found:
            if upload.key == key and upload != own:
                self._abort(upload)

    def _listed(self, prefix: str) -> list[_Upload]:
        """Unfinished uploads whose keys begin with `prefix`, at most 1,000."""

        def ask(_: object) -> Any:
            page = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=prefix)
            if "IsTruncated" not in page:
                raise NotDone("the answer is no whole listing")
            return page

        try:
            found = self._calls.run(ask, timeout_s=self._abort_timeout_s)
        except CallFailed as failed:
            if failed.code == "NoSuchUpload":  # so some servers say that there are none
                return []
            raise
        return [_Upload(entry["Key"], entry["UploadId"]) for entry in found.get("Uploads", [])]

    def _abort_left_behind(self) -> None:
        """Try again what could not be aborted, now that the store answers; ends at the first that fails."""
        while True:
            with self._lock:
                if not self._left_behind:
                    return
                upload = self._left_behind.popleft()
                left = len(self._left_behind)
            if upload.upload_id:
                self._abort(upload)
            else:
                self._abort_others(upload.key, None)
            with self._lock:
                if len(self._left_behind) > left:
                    return


def _body(part: Part) -> bytes:
    """`part` as boto3 takes it; parts of files are bytes already, and not copied."""
    return part if isinstance(part, bytes) else bytes(part)
