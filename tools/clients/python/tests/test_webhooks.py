"""Endpoints, by the scripted server, and the verification of messages beside the official library."""

from __future__ import annotations

import base64
import json
import os
import random
from datetime import datetime, timezone
from typing import Any

import pytest
import standardwebhooks
from conftest import Scripted

import mailprobe
from mailprobe import sign_webhook, verify_webhook

NOW = 1_790_000_000
BODY = json.dumps(
    {
        "type": "list.completed",
        "timestamp": "2026-11-25T12:00:00.5Z",
        "data": {"list_id": "lst_1", "status": "completed", "total": 2, "checked": 2, "counts": {"mailbox_exists": 2}},
    }
).encode()


def secret(seed: int) -> str:
    return "whsec_" + base64.b64encode(random.Random(seed).randbytes(24)).decode()


def test_all_requests(client: Any, scripted: Scripted) -> None:
    made = client.webhooks.create("https://example.com/hook", events=["list.completed"], label="mine")
    assert made.secret.startswith("whsec_") and made.secret not in repr(made)
    assert (made.events, made.label, made.enabled) == (("list.completed",), "mine", True)
    assert client.webhooks.list() == [client.webhooks.get(made.webhook_id)]
    assert client.webhooks.get(made.webhook_id).secret is None
    changed = client.webhooks.update(made.webhook_id, label="", enabled=False)
    assert (changed.url, changed.label, changed.enabled) == ("https://example.com/hook", None, False)
    assert scripted.journal()[-1]["body"] == '{"label":"","enabled":false}'
    assert client.webhooks.rotate(made.webhook_id).secret != made.secret
    messages = [client.webhooks.test(made.webhook_id) for _ in range(3)]
    deliveries = list(client.webhooks.deliveries(made.webhook_id))
    assert [delivery.message_id for delivery in deliveries] == messages[::-1]
    assert deliveries[0].attempts[0].status == 204 and deliveries[0].type == "webhook.test"
    client.webhooks.delete(made.webhook_id)
    assert client.webhooks.list() == []


def test_a_genuine_message() -> None:
    headers = sign_webhook(secret(1), "msg_1", NOW, BODY)
    shouted = {name.upper(): value for name, value in headers.items()}
    event = verify_webhook(secret(1), shouted, BODY, now=NOW)
    assert (event.id, event.type, event.data.list_id, event.data.counts) == ("msg_1", "list.completed", "lst_1", {"mailbox_exists": 2})
    assert event.timestamp == datetime(2026, 11, 25, 12, 0, 0, 500_000, tzinfo=timezone.utc)
    assert verify_webhook(secret(1), headers, BODY.decode(), now=NOW) == event


def test_two_secrets_while_one_is_replaced() -> None:
    old, new = secret(1), secret(2)
    headers = sign_webhook(old, "msg_1", NOW, BODY)
    both = f"{headers['webhook-signature']} {sign_webhook(new, 'msg_1', NOW, BODY)['webhook-signature']}"
    for secrets in (old, new, [old, new], [secret(3), new]):
        assert verify_webhook(secrets, {**headers, "webhook-signature": both}, BODY, now=NOW).id == "msg_1"
    assert verify_webhook([new, old], headers, BODY, now=NOW).id == "msg_1"
    with pytest.raises(mailprobe.WebhookVerificationError):
        verify_webhook([new, secret(3)], headers, BODY, now=NOW)


#: A byte that a framework has decoded with `surrogateescape`; a half of a pair, as from JSON; others that no genuine header has.
ODD = ["\udcff", "\ud800", "\x00", "\U0001f600", "\n", ","]


def without(name: str) -> Any:
    return lambda headers: {key: value for key, value in headers.items() if key != name}


def with_(name: str, change: Any) -> Any:
    return lambda headers: {**headers, name: change(headers[name])}


FORGERIES = [
    without("webhook-id"),
    without("webhook-timestamp"),
    without("webhook-signature"),
    with_("webhook-id", lambda value: value + "x"),
    with_("webhook-timestamp", lambda value: str(int(value) + 1)),
    with_("webhook-timestamp", lambda _: "soon"),
    with_("webhook-timestamp", lambda _: "²"),
    with_("webhook-signature", lambda value: value[:-4] + "AAA="),
    with_("webhook-signature", lambda value: value.replace("v1,", "v2,")),
    with_("webhook-signature", lambda value: value.replace("v1,", "")),
    with_("webhook-signature", lambda value: value[:-1]),
    with_("webhook-signature", lambda _: "v1,"),
    with_("webhook-signature", lambda _: "v1,ä"),
    *(with_(f"webhook-{name}", lambda value, odd=odd: value + odd) for name in ("id", "timestamp", "signature") for odd in ODD),
    *(with_("webhook-signature", lambda _, odd=odd: "v1," + odd) for odd in ODD),
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_forgeries(forge: Any) -> None:
    with pytest.raises(mailprobe.WebhookVerificationError):
        verify_webhook(secret(1), forge(sign_webhook(secret(1), "msg_1", NOW, BODY)), BODY, now=NOW)


def test_another_body() -> None:
    with pytest.raises(mailprobe.WebhookVerificationError):
        verify_webhook(secret(1), sign_webhook(secret(1), "msg_1", NOW, BODY), BODY + b" ", now=NOW)


def test_bodies_that_a_framework_has_decoded() -> None:
    headers = sign_webhook(secret(1), "msg_1", NOW, BODY)
    for odd in ("\udcff", "\ud800"):
        with pytest.raises(mailprobe.WebhookVerificationError):
            verify_webhook(secret(1), headers, BODY.decode() + odd, now=NOW)
    content = BODY.replace(b"lst_1", "lst_ä".encode())
    decoded = content.decode("ascii", "surrogateescape")
    assert verify_webhook(secret(1), sign_webhook(secret(1), "msg_1", NOW, content), decoded, now=NOW).data.list_id == "lst_ä"


@pytest.mark.parametrize("age, is_accepted", [(0, True), (300, True), (301, False), (-300, True), (-301, False)])
def test_tolerance(age: int, is_accepted: bool) -> None:
    headers = sign_webhook(secret(1), "msg_1", NOW, BODY)
    if is_accepted:
        verify_webhook(secret(1), headers, BODY, now=NOW + age)
    else:
        with pytest.raises(mailprobe.WebhookVerificationError):
            verify_webhook(secret(1), headers, BODY, now=NOW + age)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"type": 1, "timestamp": "2026-11-25T12:00:00Z"}', b"\xff"])
def test_a_genuine_message_that_is_no_event(body: bytes) -> None:
    with pytest.raises(mailprobe.WebhookVerificationError):
        verify_webhook(secret(1), sign_webhook(secret(1), "msg_1", NOW, body), body, now=NOW)


@pytest.mark.parametrize("bad", ["", "whsec_", "whsec_***", []])
def test_bad_secrets_are_the_callers_fault(bad: Any) -> None:
    with pytest.raises(ValueError):
        verify_webhook(bad, sign_webhook(secret(1), "msg_1", NOW, BODY), BODY, now=NOW)


@pytest.mark.parametrize("seed", range(50))
def test_the_official_library_agrees(seed: int) -> None:
    """Its messages pass here, and ours pass there."""
    body = json.dumps({**json.loads(BODY), "text": "ä" * seed, "noise": os.urandom(seed).hex()}, ensure_ascii=False)
    official, now = standardwebhooks.Webhook(secret(seed)), datetime.now(timezone.utc)
    message = f"msg_{seed}"
    theirs = official.sign(message, now, body)
    ours = sign_webhook(secret(seed), message, int(now.timestamp()), body)
    assert ours["webhook-signature"] == theirs
    official.verify(body, ours)
    assert verify_webhook(secret(seed), {**ours, "webhook-signature": theirs}, body).id == message
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        official.verify(body, sign_webhook(secret(seed + 1), message, int(now.timestamp()), body))
