"""Verification of the messages that the server sends to webhooks, by Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._decode import decode
from .errors import UnexpectedAnswerError, WebhookVerificationError
from .models import WebhookEvent

#: The largest difference of the clocks, in seconds.
TOLERANCE_S = 300

_SECRET_PREFIX = "whsec_"
_VERSION = "v1"


def verify_webhook(
    secrets: Union[str, Sequence[str]],
    headers: Mapping[str, str],
    body: Union[bytes, str],
    *,
    tolerance: float = TOLERANCE_S,
    now: Optional[float] = None,
) -> WebhookEvent:
    """Verifies a message and returns its event.

    `secrets` is the secret of the endpoint, or several while a rotation is in progress. The names of `headers` ignore case. `body`
    is the body exactly as it arrived: JSON that was parsed and written again has another signature. `now` is the time in seconds
    since 1970.

    Raises WebhookVerificationError if no signature fits, or if the message is older or newer than `tolerance` seconds.
    """
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise ValueError("at least one secret is needed")
    content = _received(body) if isinstance(body, str) else bytes(body)
    found = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (_header(found, f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    _check_time(timestamp, time.time() if now is None else now, tolerance)
    _check_signature(keys, _received(f"{message_id}.{timestamp}.") + content, signatures)
    return _event(content, message_id)


def sign_webhook(secret: str, message_id: str, timestamp: int, body: Union[bytes, str]) -> Dict[str, str]:
    """The headers of a message, as the server sends them. Use it to test a receiver."""
    content = body.encode() if isinstance(body, str) else bytes(body)
    signature = _signature(_key(secret), f"{message_id}.{timestamp}.".encode() + content)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"{_VERSION},{signature}",
    }


def _key(secret: str) -> bytes:
    text = secret[len(_SECRET_PREFIX) :] if secret.startswith(_SECRET_PREFIX) else secret
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("a secret is whsec_ and base64")
    return key


def _received(text: str) -> bytes:
    """The bytes of a text that a framework has decoded, perhaps with `surrogateescape`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise WebhookVerificationError("the message is not text") from error


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise WebhookVerificationError(f"the header {name} is missing")
    return value


def _check_time(timestamp: str, now: float, tolerance: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise WebhookVerificationError("the timestamp is not a number of seconds")
    age = now - int(timestamp)
    if abs(age) > tolerance:
        raise WebhookVerificationError("the message is too old" if age > 0 else "the message is from the future")


def _check_signature(keys: List[bytes], signed: bytes, signatures: str) -> None:
    """Compares each signature with that of each key. The time depends only on their numbers."""
    versions = [signature.partition(",") for signature in signatures.split(" ")]
    offered = [_received(signature) for version, _, signature in versions if version == _VERSION]
    fits = False
    for key in keys:
        expected = _signature(key, signed).encode()
        for signature in offered:
            fits |= hmac.compare_digest(expected, signature)
    if not fits:
        raise WebhookVerificationError("no signature fits")


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def _event(content: bytes, message_id: str) -> WebhookEvent:
    try:
        payload: Any = json.loads(content)
        return replace(decode(WebhookEvent, payload), id=message_id)
    except (ValueError, UnexpectedAnswerError) as error:
        raise WebhookVerificationError("the message is genuine, but it is not an event") from error
