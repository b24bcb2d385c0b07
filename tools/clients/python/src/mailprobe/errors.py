"""The errors of this package.

MailprobeError is the base of all of them. ApiError is an error answer of the server: its `code` is the code of the API, and each
code has a class. TransportError means that no complete answer arrived.
"""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Dict, Mapping, Optional, Tuple, Type


class MailprobeError(Exception):
    """The base of all errors of this package."""

    #: The Idempotency-Key of the request that failed; None if it had none. The server may have received the request. With this key,
    #: a repetition of the call does not start a second batch or list.
    idempotency_key: Optional[str] = None


class TransportError(MailprobeError):
    """No complete answer arrived. The connection failed, broke or timed out."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        #: Whether the server may have received the request.
        self.sent = sent


class TransportTimeoutError(TransportError):
    """The server did not answer within the timeout."""


class UnexpectedAnswerError(MailprobeError):
    """An answer breaks the contract of the API: it is a redirect, is too long, or is not the expected JSON."""

    def __init__(self, message: str, *, status: Optional[int] = None) -> None:
        super().__init__(message)
        #: The HTTP status of the answer.
        self.status = status


class WaitTimeoutError(MailprobeError):
    """A batch or list did not end within the timeout of `wait`. It continues on the server."""


class ListStoppedError(MailprobeError):
    """A list stopped before its end: its status is `unfit` or `paused`. `list.problem` is the cause."""

    def __init__(self, stopped: Any) -> None:
        super().__init__(f"the list {stopped.list_id} is {stopped.status}: {stopped.problem}")
        #: The MailList as the server sent it last.
        self.list = stopped


class UploadError(MailprobeError):
    """The content of an upload is shorter or longer than announced, or its earlier bytes cannot be read again."""


class UploadInterruptedError(MailprobeError):
    """An upload in parts failed after all retries. `lists.resume_upload(list_id, ...)` continues it."""

    def __init__(self, list_id: str, offset: int) -> None:
        super().__init__(f"the upload of the list {list_id} stopped after {offset} bytes")
        self.list_id = list_id
        #: The number of bytes that the server has acknowledged.
        self.offset = offset


class WebhookVerificationError(MailprobeError):
    """A request is not a genuine, recent message of the server."""


class ApiError(MailprobeError):
    """An error answer of the server."""

    def __init__(
        self, status: int, body: Mapping[str, Any], *, retry_after: Optional[float] = None, request_id: Optional[str] = None
    ) -> None:
        code, message = body.get("error"), body.get("message")
        #: The HTTP status, from 400.
        self.status = status
        #: The code of the API. It is empty if the answer has no code, such as the answer of a proxy.
        self.code: str = code if isinstance(code, str) else ""
        #: The message for people.
        self.message: str = message if isinstance(message, str) else ""
        #: The seconds after which a retry makes sense, if the server names them.
        self.retry_after = retry_after
        #: The value of X-Request-Id, for questions to the operator.
        self.request_id = request_id
        #: The JSON of the answer; empty if it is not an object.
        self.body: Mapping[str, Any] = body
        super().__init__(f"{status} {self.code}: {self.message}" if self.code else f"status {status}")

    def _count(self, name: str) -> Optional[int]:
        value = self.body.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _objects(self, name: str) -> Tuple[Mapping[str, Any], ...]:
        value = self.body.get(name)
        return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


class InvalidRequestError(ApiError):
    """400 `invalid_request`: the request is malformed."""

    @property
    def issues(self) -> Tuple[Mapping[str, Any], ...]:
        """All errors of the request, each with `loc`, `msg` and `type`."""
        return self._objects("detail")


class InvalidEmailsError(ApiError):
    """400 `invalid_emails`: the batch contains invalid addresses. Nothing was charged."""

    @property
    def invalid(self) -> Tuple[Mapping[str, Any], ...]:
        """The first ten invalid addresses, each with `index` in the batch, from 0, and `email`."""
        return self._objects("invalid")

    @property
    def invalid_count(self) -> Optional[int]:
        """The number of all invalid addresses of the batch, which may be more than `invalid` has."""
        return self._count("invalid_count")


class AuthenticationError(ApiError):
    """401: the key is missing, unknown or revoked."""


class MissingApiKeyError(AuthenticationError):
    """401 `missing_api_key`: the request arrived without a key. A proxy may have removed the header."""


class InvalidApiKeyError(AuthenticationError):
    """401 `invalid_api_key`: the key is unknown or malformed."""


class ApiKeyRevokedError(AuthenticationError):
    """401 `api_key_revoked`: the key was revoked."""


class PaymentRequiredError(ApiError):
    """402: the account cannot pay for the request."""

    @property
    def credits_remaining(self) -> Optional[int]:
        """The credits that the account can still spend; None if the answer does not name them."""
        return self._count("credits_remaining")

    @property
    def credits_required(self) -> Optional[int]:
        """The price of the batch or list in credits, or the estimated price of the rest of a list; None for a single check."""
        return self._count("credits_required")


class InsufficientCreditsError(PaymentRequiredError):
    """402 `insufficient_credits`: too few credits are left."""


class SubscriptionInactiveError(PaymentRequiredError):
    """402 `subscription_inactive`: the subscription is paused or canceled."""


class PermissionDeniedError(ApiError):
    """403: the key, the plan or the gateway does not permit the request."""


class InsufficientScopeError(PermissionDeniedError):
    """403 `insufficient_scope`: the API key lacks the scope of the request, which the message names."""


class PlanNotAllowedError(PermissionDeniedError):
    """403 `plan_not_allowed`: the plan does not include batches and lists."""


class LiveKeyRequiredError(PermissionDeniedError):
    """403 `live_key_required`: the request needs a live key, and the client has a test key."""


class NotAvailableOnGatewayError(PermissionDeniedError):
    """403 `not_available_on_<gateway>`: the gateway offers only single checks."""


class NotFoundError(ApiError):
    """404: the account has no object with this id, or the server does not know the path."""


class ConflictError(ApiError):
    """409: the request does not fit the present state of the object."""


class IdempotencyInProgressError(ConflictError):
    """409 `idempotency_in_progress`: a request with the same Idempotency-Key is still running."""


class OffsetMismatchError(ConflictError):
    """409 `offset_mismatch`: the server expects another part of the upload."""

    @property
    def offset(self) -> Optional[int]:
        """The number of bytes that the server has acknowledged."""
        return self._count("offset")


class InvalidStateError(ConflictError):
    """409 `invalid_state`: the list is in another state than the request needs, or a limit of the account is reached."""


class RequestTooLargeError(ApiError):
    """413 `request_too_large`: the body, or the content of the list, is longer than the server accepts."""


class IdempotencyKeyReusedError(ApiError):
    """422 `idempotency_key_reused`: the Idempotency-Key was used for another request."""


class RateLimitedError(ApiError):
    """429 `rate_limited`: too many requests. `retry_after` has the wait in seconds."""


class InternalServerError(ApiError):
    """500 `internal_error`: a defect of the service."""


class UnavailableError(ApiError):
    """503: the service cannot check at present. Nothing was charged."""


class ProviderUnavailableError(UnavailableError):
    """503 `provider_unavailable`: the service cannot reach mail servers."""


class TemporarilyUnavailableError(UnavailableError):
    """503 `temporarily_unavailable`: the service is busy, starts or stops."""


#: The codes of the API that have a class of their own.
_BY_CODE: Dict[str, Type[ApiError]] = {
    "invalid_request": InvalidRequestError,
    "invalid_emails": InvalidEmailsError,
    "missing_api_key": MissingApiKeyError,
    "invalid_api_key": InvalidApiKeyError,
    "api_key_revoked": ApiKeyRevokedError,
    "insufficient_credits": InsufficientCreditsError,
    "subscription_inactive": SubscriptionInactiveError,
    "insufficient_scope": InsufficientScopeError,
    "plan_not_allowed": PlanNotAllowedError,
    "live_key_required": LiveKeyRequiredError,
    "not_found": NotFoundError,
    "invalid_state": InvalidStateError,
    "idempotency_in_progress": IdempotencyInProgressError,
    "offset_mismatch": OffsetMismatchError,
    "request_too_large": RequestTooLargeError,
    "idempotency_key_reused": IdempotencyKeyReusedError,
    "rate_limited": RateLimitedError,
    "internal_error": InternalServerError,
    "provider_unavailable": ProviderUnavailableError,
    "temporarily_unavailable": TemporarilyUnavailableError,
}

#: The classes of all other codes.
_BY_STATUS: Dict[int, Type[ApiError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    402: PaymentRequiredError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: RequestTooLargeError,
    429: RateLimitedError,
    500: InternalServerError,
    503: UnavailableError,
}

_GATEWAY_PREFIX = "not_available_on_"


def api_error(status: int, headers: Mapping[str, str], body: Any) -> ApiError:
    """The error for an answer. `headers` has lower-case names or ignores case."""
    envelope: Mapping[str, Any] = body if isinstance(body, dict) else {}
    code = envelope.get("error")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None and isinstance(code, str) and code.startswith(_GATEWAY_PREFIX):
        kind = NotAvailableOnGatewayError
    if kind is None:
        kind = _BY_STATUS.get(status, ApiError)
    wait = parse_retry_after(headers.get("retry-after"), datetime.now(timezone.utc))
    return kind(status, envelope, retry_after=wait, request_id=headers.get("x-request-id"))


def parse_retry_after(value: Optional[str], now: datetime) -> Optional[float]:
    """The seconds that a Retry-After header names (RFC 9110 10.2.3), as a number or a date; None if it is malformed."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - now).total_seconds())
