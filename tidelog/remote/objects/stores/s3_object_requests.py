"""GET, HEAD and PUT of one object, with the signer and the connections of botocore's client.

The client serializes parameters, resolves the endpoint, runs about 40 hooks and parses all headers of the
response, dates among them. That needs most of the CPU time of a small request. Therefore the client sends
only the first request of each operation. From its `before-sign` event, this module learns the URL of the
bucket, the region, the signer and the headers, and then builds such requests itself. The client sends them
again if the server responds with a redirection or with status 400, which a request with another region
receives.

The client sends every request with headers that this module does not know, such as checksums that the client
adds itself, with another signature version than s3v4 (anonymous requests, session tokens of directory
buckets), and with a body above BODY_BYTES_MAX, because it asks for the server's consent to large bodies.

I/O: blocking HTTP requests, from any thread. Errors: those of the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.parsers import create_parser
from botocore.response import StreamingBody
from botocore.utils import percent_encode

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.stores.port import RequestKind

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BODY_BYTES_MAX: Final = 1024 * 1024

_SIGNATURE_VERSION: Final = "s3v4"
_UNRESERVED: Final = "-._~/"
"""The characters that botocore leaves in keys."""
_FOR_THE_CLIENT: Final = frozenset({301, 302, 303, 307, 308, 400})
_HEADERS: Final = {
    "Range": "Range",
    "ChecksumCRC32C": "x-amz-checksum-crc32c",
    "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm",
    "StorageClass": "x-amz-storage-class",
}
"""The header of each parameter of the client."""
_KNOWN_HEADERS: Final = {"user-agent", "expect", *(name.lower() for name in _HEADERS.values())}


class _Operation(NamedTuple):
    name: str
    method: str
    kind: RequestKind


_GET: Final = _Operation("GetObject", "GET", RequestKind.GET)
_HEAD: Final = _Operation("HeadObject", "HEAD", RequestKind.HEAD)
_PUT: Final = _Operation("PutObject", "PUT", RequestKind.PUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectResponse:
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    """By name, in lower case."""
    body: Any
    """The stream of a GET, which must be closed; None for the other operations."""

    @property
    def length(self) -> int | None:
        """The length of the content, or of the object for a HEAD; None without a valid header."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdecimal() else None

    @property
    def etag(self) -> str:
        """The ETag of the object; empty without the header."""
        return self.headers.get("etag", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What all requests of one operation have in common."""

    bucket_url: str
    user_agent: str
    region: str
    signing_name: str
    signer: Any

    def request(
        self, operation: _Operation, key: str, parameters: Mapping[str, str], body: bytes
    ) -> AWSRequest:
        """Return a signed request."""
        headers = {"User-Agent": self.user_agent}
        headers |= {_HEADERS[name]: value for name, value in parameters.items()}
        request = AWSRequest(
            method=operation.method,
            url=self.bucket_url + percent_encode(key, safe=_UNRESERVED),
            headers=headers,
            data=body,
            stream_output=operation is _GET,
        )
        # The instance has the credentials of this moment, as they may expire.
        self.signer.get_auth_instance(self.signing_name, self.region, _SIGNATURE_VERSION).add_auth(request)
        return request


class ObjectRequests:
    """Sends requests for single objects of one bucket. Thread-safe.

    Errors: ClientError for a response that is an error, and the errors of the transport.
    """

    def __init__(
        self, client: S3Client, bucket: str, on_request: Callable[[RequestKind], None] | None = None
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._on_request = on_request
        self._session: Any = client._endpoint.http_session  # type: ignore[attr-defined]
        self._error_parser: Any = create_parser("rest-xml")
        self._scopes: dict[str, _Scope] = {}
        for operation in (_GET, _HEAD, _PUT):
            client.meta.events.register_last(f"before-sign.s3.{operation.name}", self._learn)

    def get(self, key: str, byte_range: str = "") -> ObjectResponse:
        """Return the response to a GET of `byte_range`, the value of a Range header; empty for all bytes."""
        parameters: dict[str, Any] = {"Range": byte_range} if byte_range else {}
        response = self._send(_GET, key, parameters)
        return response or _parsed(self._client.get_object(Bucket=self._bucket, Key=key, **parameters))

    def head(self, key: str) -> ObjectResponse:
        """Return the response to a HEAD."""
        response = self._send(_HEAD, key, {})
        return response or _parsed(self._client.head_object(Bucket=self._bucket, Key=key))

    def put(self, key: str, body: bytes, parameters: Mapping[str, Any]) -> ObjectResponse:
        """Return the response to a PUT; the names of `parameters` are those of the client."""
        response = self._send(_PUT, key, parameters, body) if len(body) <= BODY_BYTES_MAX else None
        return response or _parsed(
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **parameters)
        )

    def _send(
        self, operation: _Operation, key: str, parameters: Mapping[str, str], body: bytes = b""
    ) -> ObjectResponse | None:
        """Return the response; None if the client must send the request."""
        scope = self._scopes.get(operation.name)
        if scope is None:
            return None
        request = scope.request(operation, key, parameters, body)
        if self._on_request is not None:
            self._on_request(operation.kind)
        response = self._session.send(request.prepare())
        headers, status = response.headers, response.status_code
        if status >= 300:
            # The content is read, so that the connection can be used again.
            failed = {"status_code": status, "headers": headers, "body": response.content}
            if status in _FOR_THE_CLIENT:
                self._scopes.pop(operation.name, None)
                return None
            raise ClientError(self._error_parser.parse(failed, None), operation.name)
        is_stream = operation is _GET
        body_stream = StreamingBody(response.raw, headers.get("Content-Length")) if is_stream else None
        return ObjectResponse(status=status, headers=headers, body=body_stream)

    def _learn(
        self,
        request: Any,
        operation_name: str,
        signing_name: str,
        region_name: str,
        signature_version: Any,
        request_signer: Any,
        **_: object,
    ) -> None:
        """Learn the scope of an operation from a request of the client, before it is signed."""
        key = request.context.get("input_params", {}).get("Key", "")
        path = percent_encode(key, safe=_UNRESERVED)
        is_known = {name.lower() for name in request.headers} <= _KNOWN_HEADERS
        if not (
            key
            and is_known
            and signature_version == _SIGNATURE_VERSION
            and request.url.endswith("/" + path)
            and "User-Agent" in request.headers
        ):
            return
        self._scopes[operation_name] = _Scope(
            bucket_url=request.url.removesuffix(path),
            user_agent=request.headers["User-Agent"],
            region=region_name,
            signing_name=signing_name,
            signer=request_signer,
        )


def _parsed(response: Any) -> ObjectResponse:
    """Return a response that the client has parsed."""
    metadata = response["ResponseMetadata"]
    return ObjectResponse(
        status=metadata["HTTPStatusCode"], headers=metadata["HTTPHeaders"], body=response.get("Body")
    )
