"""A boto3 client for the settings of one bucket. Its own retries are off: `s3_calls` limits them in time."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.loaders import Loader

from tidelog.base.config_definition import ConfigError
from tidelog.base.properties import MalformedEscape, parse_properties
from tidelog.remote.objects.stores.port import RequestKind
from tidelog.remote.objects.stores.s3_deadlines import POOL_CLASSES
from tidelog.remote.objects.stores.s3_settings import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PREFIX = "rsm.config.storage."
_ACCESS_KEY, _SECRET_KEY, _TOKEN = "aws.access.key.id", "aws.secret.access.key", "aws.session.token"


def s3_client(settings: S3Settings, on_request: Callable[[RequestKind], None] | None = None) -> S3Client:
    """Return a client without connections, which calls `on_request` for each HTTP request.

    Errors: ConfigError if credentials cannot be read.
    """
    core = botocore.session.get_session()
    core.register_component("data_loader", _service_models())
    if settings.credentials_file is not None:
        core._credentials = FileCredentials(settings.credentials_file)  # type: ignore[attr-defined]
    client: S3Client = boto3.session.Session(botocore_session=core).client(
        "s3",
        region_name=settings.region,
        endpoint_url=settings.endpoint_url,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
        aws_session_token=settings.session_token,
        verify=None if settings.certificate_check else False,
        config=_config(settings),
    )
    session: Any = client._endpoint.http_session  # type: ignore[attr-defined]
    session._pool_classes_by_scheme.update(POOL_CLASSES)
    if settings.legacy_md5:
        for operation in ("DeleteObjects", "PutObject", "UploadPart"):
            client.meta.events.register(f"before-sign.s3.{operation}", _send_md5)
    if on_request is not None:
        client.meta.events.register("request-created.s3", _reporting(on_request))
    return client


def _reporting(on_request: Callable[[RequestKind], None]) -> Callable[..., None]:
    """Return the handler of botocore's event that reports the kind of each request."""

    def on_created(operation_name: str = "", **_: object) -> None:
        on_request(_request_kind(operation_name))

    return on_created


def _request_kind(operation: str) -> RequestKind:
    """Return the kind of an operation of S3: the requests of a multipart upload are charged as PUT."""
    if operation.startswith("List"):
        return RequestKind.LIST
    if operation.startswith(("Delete", "Abort")):
        return RequestKind.DELETE
    if operation.startswith("Head"):
        return RequestKind.HEAD
    return RequestKind.GET if operation.startswith("Get") else RequestKind.PUT


@cache
def _service_models() -> Loader:
    """Return botocore's loader of service models: one for all clients, as each would parse 2 MB of JSON."""
    loader: Loader = botocore.session.get_session().get_component("data_loader")
    return loader


def _config(settings: S3Settings) -> Config:
    checksums: Any = "when_supported" if settings.checksum_check else "when_required"
    style: Any = {None: "auto", True: "path", False: "virtual"}[settings.path_style]
    unsigned: dict[str, Any] = {"signature_version": UNSIGNED} if settings.anonymous else {}
    return Config(
        connect_timeout=min(settings.connect_timeout_ms, settings.attempt_timeout_ms) / 1000,
        read_timeout=min(settings.read_timeout_ms, settings.attempt_timeout_ms) / 1000,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=settings.connections_max,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
        s3={"addressing_style": style},
        tcp_keepalive=True,
        **unsigned,
    )


def _send_md5(request: Any, **_: object) -> None:
    """Replace newer checksums of `request` with Content-MD5."""
    for name in list(request.headers.keys()):
        if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum-")):
            del request.headers[name]
    body = request.body if isinstance(request.body, (bytes, bytearray)) else _whole(request.body)
    request.headers["Content-MD5"] = base64.b64encode(
        hashlib.md5(body, usedforsecurity=False).digest()
    ).decode()


def _whole(body: Any) -> bytes:
    position = body.tell()
    content: bytes = body.read()
    body.seek(position)
    return content


class FileCredentials(Credentials):
    """Credentials in a properties file, which is read again after each change.

    If the file cannot be read later, the last valid credentials remain in use. Errors: ConfigError on
    construction.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._version: tuple[int, int] | None = None
        try:
            self._version, values = self._load()
        except (OSError, KeyError, UnicodeDecodeError) as error:
            allowed = (
                f"allowed is a file with {_ACCESS_KEY} and {_SECRET_KEY}: {type(error).__name__} {error}"
            )
            raise ConfigError("aws.credentials.file", path, allowed) from error
        super().__init__(values[_ACCESS_KEY], values[_SECRET_KEY], values.get(_TOKEN), method="file")

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return the current credentials of the file."""
        with self._lock:
            try:
                status = os.stat(self._path)
                if (status.st_mtime_ns, status.st_size) != self._version:
                    self._version, values = self._load()
                    self.access_key, self.secret_key = values[_ACCESS_KEY], values[_SECRET_KEY]
                    self.token = values.get(_TOKEN)
            except (OSError, KeyError, UnicodeDecodeError):
                pass
            return ReadOnlyCredentials(self.access_key, self.secret_key, self.token)

    def _load(self) -> tuple[tuple[int, int], dict[str, str]]:
        with open(self._path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            try:
                properties = parse_properties(file.read(), self._path)
            except MalformedEscape as error:  # its text would show the secret
                raise KeyError(f"malformed escape in line {error.line}") from None
        values = {key.removeprefix(_PREFIX): value.strip() for key, value in properties.items()}
        if not values[_ACCESS_KEY] or not values[_SECRET_KEY]:
            raise KeyError(_ACCESS_KEY)
        return (status.st_mtime_ns, status.st_size), values
