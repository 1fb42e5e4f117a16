"""Ranged GETs that use the signer and the connections of botocore's client, without its other layers.

The client serializes parameters, resolves the endpoint, runs about 40 hooks and parses all headers of the
response, dates among them. That needs most of the CPU time of a GET. Therefore the client sends the first
GET. From its `before-sign` event, this module learns the URL of the bucket, the region, the signer and the
headers, and then builds such requests itself. The client sends GETs again if the server responds with a
redirection or with status 400, which a request with another region receives.

Only requests with signature version s3v4 are built here: no anonymous requests, and none with the session
tokens of directory buckets.

I/O: blocking HTTP requests, from any thread. Errors: those of the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.parsers import create_parser
from botocore.response import StreamingBody
from botocore.utils import percent_encode

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.stores.port import RequestKind

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_OPERATION: Final = "GetObject"
_SIGNATURE_VERSION: Final = "s3v4"
_UNRESERVED: Final = "-._~/"
"""The characters that botocore leaves in keys."""
_FOR_THE_CLIENT: Final = frozenset({301, 302, 303, 307, 308, 400})
_SUCCESSFUL: Final = frozenset({200, 206})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectResponse:
    """The response to a GET: its body, and what the checks of a range need. None if a header is missing."""

    status: int
    body: Any
    length: int | None
    content_range: str
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What all GETs of a bucket have in common."""

    bucket_url: str
    user_agent: str
    region: str
    signing_name: str
    signer: Any

    def request(self, key: str, byte_range: str) -> AWSRequest:
        """Return a signed request."""
        headers = {"User-Agent": self.user_agent}
        if byte_range:
            headers["Range"] = byte_range
        url = self.bucket_url + percent_encode(key, safe=_UNRESERVED)
        request = AWSRequest(method="GET", url=url, headers=headers, stream_output=True)
        # The instance has the credentials of this moment, as they may expire.
        self.signer.get_auth_instance(self.signing_name, self.region, _SIGNATURE_VERSION).add_auth(request)
        return request


class SignedGets:
    """Sends GETs of one bucket. Thread-safe."""

    def __init__(
        self, client: S3Client, bucket: str, on_request: Callable[[RequestKind], None] | None = None
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._on_request = on_request
        self._session: Any = client._endpoint.http_session  # type: ignore[attr-defined]
        self._error_parser: Any = create_parser("rest-xml")
        self._scope: _Scope | None = None
        client.meta.events.register_last(f"before-sign.s3.{_OPERATION}", self._learn)

    def get(self, key: str, byte_range: str = "") -> ObjectResponse:
        """Return the response to a GET of `byte_range`, the value of a Range header; empty for all bytes.

        Its body must be closed. Errors: ClientError and those of the transport.
        """
        scope = self._scope
        response = None if scope is None else self._send(scope.request(key, byte_range))
        return self._send_through_client(key, byte_range) if response is None else response

    def _send(self, request: AWSRequest) -> ObjectResponse | None:
        """Return the response; None if the client must send the request."""
        if self._on_request is not None:
            self._on_request(RequestKind.GET)
        response = self._session.send(request.prepare())
        headers, status = response.headers, response.status_code
        if status not in _SUCCESSFUL:
            # The content is read, so that the connection can be used again.
            failed = {"status_code": status, "headers": headers, "body": response.content}
            if status in _FOR_THE_CLIENT:
                self._scope = None
                return None
            raise ClientError(self._error_parser.parse(failed, None), _OPERATION)
        length = headers.get("Content-Length")
        return ObjectResponse(
            status=status,
            body=StreamingBody(response.raw, length),
            length=None if length is None else int(length),
            content_range=headers.get("Content-Range", ""),
            etag=headers.get("ETag", ""),
        )

    def _send_through_client(self, key: str, byte_range: str) -> ObjectResponse:
        requested: Any = {"Range": byte_range} if byte_range else {}
        response: Any = self._client.get_object(Bucket=self._bucket, Key=key, **requested)
        return ObjectResponse(
            status=response["ResponseMetadata"]["HTTPStatusCode"],
            body=response["Body"],
            length=response.get("ContentLength"),
            content_range=str(response.get("ContentRange", "")),
            etag=str(response.get("ETag", "")),
        )

    def _learn(
        self,
        request: Any,
        signing_name: str,
        region_name: str,
        signature_version: Any,
        request_signer: Any,
        **_: object,
    ) -> None:
        """Learn the scope from a request of the client, before it is signed."""
        key = request.context.get("input_params", {}).get("Key", "")
        path = percent_encode(key, safe=_UNRESERVED)
        is_known = {name.lower() for name in request.headers} <= {"range", "user-agent"}
        if not (
            key
            and is_known
            and signature_version == _SIGNATURE_VERSION
            and request.url.endswith("/" + path)
            and "User-Agent" in request.headers
        ):
            return
        self._scope = _Scope(
            bucket_url=request.url.removesuffix(path),
            user_agent=request.headers["User-Agent"],
            region=region_name,
            signing_name=signing_name,
            signer=request_signer,
        )
