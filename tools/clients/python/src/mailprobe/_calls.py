"""The requests of the API, one function each, and how their answers are read. Nothing here sends anything."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar
from urllib.parse import quote, urlsplit

from ._decode import decode
from .errors import UnexpectedAnswerError
from .models import (
    Account,
    Batch,
    BatchCreated,
    Delivery,
    MailList,
    Mode,
    ResultsFormat,
    Verification,
    WebhookEndpoint,
)

T = TypeVar("T")

EMAIL_CHARS_MAX = 320
BATCH_EMAILS_MAX = 200
NAME_CHARS_MAX = 200
IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_KEY_CHARS_MAX = 255
#: The longest answer that is read at once. Results of lists are streamed and have no limit.
ANSWER_BYTES_MAX = 16 << 20

_VISIBLE_ASCII = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and the function that reads the JSON of its answer."""

    method: str
    path: str
    parse: Callable[[Any], T]
    query: Tuple[Tuple[str, str], ...] = ()
    json: Optional[Mapping[str, Any]] = None
    #: The body, if it is not JSON.
    content: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether the request may arrive twice without harm.
    repeatable: bool = False
    #: Whether a 404 counts as success after a repetition: an earlier request has deleted the object.
    deletes: bool = False


def _as(kind: Type[T]) -> Callable[[Any], T]:
    return lambda body: decode(kind, body)


def _nothing(_: Any) -> None:
    return None


def base_url(text: str) -> str:
    """The URL of the server without a slash at its end. Raises ValueError if it is not a plain URL of HTTP."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the base URL has to begin with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("the base URL has no user name, query or fragment")
    return text.rstrip("/")


def api_key(text: str) -> str:
    """The key without surrounding whitespace. Raises ValueError if it cannot be a key; the message does not quote it."""
    key = text.strip()
    if not _VISIBLE_ASCII.fullmatch(key):
        raise ValueError("the API key is empty or has characters that no key has")
    return key


def new_idempotency_key() -> str:
    """A key that no other call has."""
    return uuid.uuid4().hex


def _idempotency(key: Optional[str]) -> Dict[str, str]:
    key = new_idempotency_key() if key is None else key
    if not _VISIBLE_ASCII.fullmatch(key) or len(key) > IDEMPOTENCY_KEY_CHARS_MAX:
        raise ValueError(f"an {IDEMPOTENCY_KEY} has 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible characters of ASCII")
    return {IDEMPOTENCY_KEY: key}


def _id(text: str) -> str:
    if not text or text in (".", ".."):
        raise ValueError("the id is empty")
    return quote(text, safe="")


def _given(**fields: Any) -> Dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def verify(email: str, mode: Mode, detail: bool) -> Call[Verification]:
    # A repetition within 24 hours is free, and joins a check in progress. The body keeps the address out of logs.
    body = _given(email=email, mode=None if mode == "full" else mode, detail="full" if detail else None)
    return Call("POST", "/v1/verify", _as(Verification), json=body, repeatable=True)


def account() -> Call[Account]:
    return Call("GET", "/v1/account", _as(Account), repeatable=True)


def create_batch(emails: Sequence[str], name: Optional[str], key: Optional[str]) -> Call[BatchCreated]:
    if isinstance(emails, str):
        raise TypeError("`emails` is a sequence of addresses, not one address")
    body = _given(emails=list(emails), name=name)
    return Call("POST", "/v1/verify/batch", _as(BatchCreated), json=body, headers=_idempotency(key), repeatable=True)


def get_batch(batch_id: str) -> Call[Batch]:
    return Call("GET", f"/v1/verify/batch/{_id(batch_id)}", _as(Batch), repeatable=True)


def cancel_batch(batch_id: str) -> Call[Batch]:
    return Call("POST", f"/v1/verify/batch/{_id(batch_id)}/cancel", _as(Batch), repeatable=True)


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a collection, and the cursor of the next one."""

    items: Tuple[T, ...]
    next: Optional[str]


def _page(name: str, kind: Type[T]) -> Callable[[Any], Page[T]]:
    def parse(body: Any) -> Page[T]:
        items = body.get(name) if isinstance(body, dict) else None
        cursor = body.get("next") if isinstance(body, dict) else None
        if not isinstance(items, list) or not (cursor is None or isinstance(cursor, str)):
            raise UnexpectedAnswerError(f"a page with `{name}` and `next` was expected")
        return Page(tuple(decode(kind, item) for item in items), cursor)

    return parse


def _range(limit: Optional[int], after: Optional[str]) -> Tuple[Tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in (("limit", limit), ("after", after)) if value is not None)


def list_batches(limit: Optional[int], after: Optional[str]) -> Call[Page[Batch]]:
    return Call("GET", "/v1/verify/batch", _page("batches", Batch), query=_range(limit, after), repeatable=True)


def list_lists(limit: Optional[int], after: Optional[str]) -> Call[Page[MailList]]:
    return Call("GET", "/v1/lists", _page("lists", MailList), query=_range(limit, after), repeatable=True)


def list_deliveries(webhook_id: str, limit: Optional[int], after: Optional[str]) -> Call[Page[Delivery]]:
    path = f"/v1/webhooks/{_id(webhook_id)}/deliveries"
    return Call("GET", path, _page("deliveries", Delivery), query=_range(limit, after), repeatable=True)


def upload_whole(
    name: Optional[str],
    column: Optional[str],
    header: Optional[bool],
    size: Optional[int],
    key: Optional[str],
    repeatable: bool,
) -> Call[MailList]:
    """The content follows as the body. Only a content that can be read again is repeatable."""
    stated = None if header is None else str(header).lower()
    query = tuple(_given(name=name, column=column, header=stated).items())
    headers = {**_idempotency(key), "Content-Type": "application/octet-stream"}
    if size is not None:
        headers["Content-Length"] = str(size)
    return Call("POST", "/v1/lists", _as(MailList), query=query, headers=headers, repeatable=repeatable)


def begin_upload(
    name: Optional[str], column: Optional[str], header: Optional[bool], size: Optional[int], key: Optional[str]
) -> Call[MailList]:
    body = _given(name=name, column=column, header=header, bytes=size)
    return Call("POST", "/v1/lists", _as(MailList), json=body, headers=_idempotency(key), repeatable=True)


def upload_part(list_id: str, offset: int, part: bytes, is_last: bool) -> Call[MailList]:
    # Not repeatable: after a failure, the upload first asks for the offset.
    headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
    if is_last:
        headers["Upload-Complete"] = "?1"
    return Call("PATCH", f"/v1/lists/{_id(list_id)}", _as(MailList), content=part, headers=headers)


def get_list(list_id: str) -> Call[MailList]:
    return Call("GET", f"/v1/lists/{_id(list_id)}", _as(MailList), repeatable=True)


def start_list(list_id: str) -> Call[MailList]:
    return Call("POST", f"/v1/lists/{_id(list_id)}/start", _as(MailList), repeatable=True)


def cancel_list(list_id: str) -> Call[MailList]:
    return Call("POST", f"/v1/lists/{_id(list_id)}/cancel", _as(MailList), repeatable=True)


def list_results(list_id: str, format: ResultsFormat, classes: Sequence[str], evidence: bool) -> Call[None]:
    if isinstance(classes, str):
        raise TypeError("`classes` is a sequence of classes, not one class")
    query = (("format", format), *(("class", name) for name in classes), *[("evidence", "true")] * evidence)
    return Call("GET", f"/v1/lists/{_id(list_id)}/results", _nothing, query=query, repeatable=True)


def delete_list(list_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/lists/{_id(list_id)}", _nothing, repeatable=True, deletes=True)


def create_webhook(url: str, events: Optional[Sequence[str]], label: Optional[str]) -> Call[WebhookEndpoint]:
    body = _given(url=url, events=None if events is None else list(events), label=label)
    return Call("POST", "/v1/webhooks", _as(WebhookEndpoint), json=body)


def list_webhooks() -> Call[List[WebhookEndpoint]]:
    page = _page("webhooks", WebhookEndpoint)
    return Call("GET", "/v1/webhooks", lambda body: list(page(body).items), repeatable=True)


def get_webhook(webhook_id: str) -> Call[WebhookEndpoint]:
    return Call("GET", f"/v1/webhooks/{_id(webhook_id)}", _as(WebhookEndpoint), repeatable=True)


def update_webhook(
    webhook_id: str, url: Optional[str], events: Optional[Sequence[str]], label: Optional[str], enabled: Optional[bool]
) -> Call[WebhookEndpoint]:
    body = _given(url=url, events=None if events is None else list(events), label=label, enabled=enabled)
    return Call("PATCH", f"/v1/webhooks/{_id(webhook_id)}", _as(WebhookEndpoint), json=body, repeatable=True)


def delete_webhook(webhook_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/webhooks/{_id(webhook_id)}", _nothing, repeatable=True, deletes=True)


def rotate_webhook(webhook_id: str) -> Call[WebhookEndpoint]:
    return Call("POST", f"/v1/webhooks/{_id(webhook_id)}/rotate", _as(WebhookEndpoint))


def test_webhook(webhook_id: str) -> Call[str]:
    def message_id(body: Any) -> str:
        found = body.get("message_id") if isinstance(body, dict) else None
        if not isinstance(found, str):
            raise UnexpectedAnswerError("`message_id` was expected")
        return found

    return Call("POST", f"/v1/webhooks/{_id(webhook_id)}/test", message_id)
