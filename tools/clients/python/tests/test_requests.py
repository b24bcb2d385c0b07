"""Single requests to the scripted server: retries, keys, errors, and answers that break the contract."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List

import httpx
import pytest
from conftest import QUICK, Scripted

import mailprobe
from mailprobe.errors import parse_retry_after

BUSY = {"error": "temporarily_unavailable", "message": "busy"}


def test_verify_sends_the_address_in_the_body(client: Any, scripted: Scripted) -> None:
    found = client.verify("deliverable@example.com", detail=True)
    assert (found.email, found.deliverable, found.reason) == ("deliverable@example.com", True, "mailbox_exists")
    (request,) = scripted.journal()
    assert (request["method"], request["target"]) == ("POST", "/v1/verify")
    assert request["body"] == '{"email":"deliverable@example.com","detail":"full"}'
    assert request["headers"]["authorization"] == "Bearer key"
    assert request["headers"]["user-agent"] == f"mailprobe-python/{mailprobe.__version__}"


def test_fast_check(client: Any) -> None:
    found = client.verify("someone@example.com", mode="fast")
    assert (found.deliverable, found.reason, found.mode) == (None, "fast_check_passed", "fast")
    assert found.checks is not None and found.checks.mx


def test_account_has_a_time(client: Any) -> None:
    found = client.account()
    assert found.credits_remaining == 100
    assert found.period_end == datetime(2026, 12, 25, 12, tzinfo=timezone.utc)
    assert found.raw["plan"] == "free"


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_check_is_repeated(client: Any, scripted: Scripted, status: int) -> None:
    scripted.fault("POST", "/v1/verify", status=status, body=BUSY, times=2)
    assert client.verify("deliverable@example.com").deliverable is True
    assert len(scripted.journal()) == 3


@pytest.mark.parametrize("fault", [{"lose": True}, {"reset_after": 5}, {"truncate": True}])
def test_a_check_survives_a_broken_connection(client: Any, scripted: Scripted, fault: Any) -> None:
    scripted.fault("POST", "/v1/verify", **fault)
    assert client.verify("deliverable@example.com").deliverable is True
    assert len(scripted.journal()) == 2


def test_repetitions_end(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/account", status=503, body=BUSY, times=100)
    with pytest.raises(mailprobe.TemporarilyUnavailableError):
        client.account()
    assert len(scripted.journal()) == 1 + QUICK.repetitions


def test_retry_after_is_honoured(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/account", status=429, headers={"Retry-After": "1"}, body={"error": "rate_limited", "message": ""})
    begin = time.monotonic()
    client.account()
    assert 1.0 <= time.monotonic() - begin < 3.0


def test_a_long_retry_after_is_an_error_at_once(client: Any, scripted: Scripted) -> None:
    body = {"error": "rate_limited", "message": "slow down"}
    scripted.fault("GET", "/v1/account", status=429, headers={"Retry-After": "3600"}, body=body)
    with pytest.raises(mailprobe.RateLimitedError) as caught:
        client.account()
    assert (caught.value.retry_after, caught.value.message, caught.value.request_id) == (3600.0, "slow down", "req-1")
    assert len(scripted.journal()) == 1


def test_no_repetition_without_a_key(client: Any, scripted: Scripted) -> None:
    """A webhook that is created twice is two webhooks."""
    scripted.fault("POST", "/v1/webhooks", lose=True)
    with pytest.raises(mailprobe.TransportError):
        client.webhooks.create("https://example.com/hook")
    scripted.fault("POST", "/v1/webhooks", status=503, body=BUSY)
    with pytest.raises(mailprobe.UnavailableError):
        client.webhooks.create("https://example.com/hook")
    assert len(scripted.journal()) == 2


def test_a_rate_limit_does_nothing_so_every_request_is_repeated(client: Any, scripted: Scripted) -> None:
    scripted.fault("POST", "/v1/webhooks", status=429, body={"error": "rate_limited", "message": ""})
    assert client.webhooks.create("https://example.com/hook").secret is not None
    assert len(client.webhooks.list()) == 1


def test_nothing_was_sent_so_every_request_is_repeated(make: Callable[..., Any]) -> None:
    """A port that refuses connections."""
    client = make("http://127.0.0.1:1", retries=mailprobe.Retries(repetitions=1, first_wait=0.3))
    begin = time.monotonic()
    with pytest.raises(mailprobe.TransportError) as caught:
        client.webhooks.create("https://example.com/hook")
    assert not caught.value.sent
    assert time.monotonic() - begin >= 0.15


def test_the_idempotency_key_is_one_per_call(client: Any, scripted: Scripted) -> None:
    """The property: all attempts of one call have the same key, and no two calls have the same."""
    keys = []
    faults: List[Dict[str, Any]] = [{}, {"status": 503, "body": BUSY, "times": 3}, {"lose": True, "times": 2}]
    for number, fault in enumerate(faults):
        if fault:
            scripted.fault("POST", "/v1/verify/batch", **fault)
        before = len(scripted.journal())
        client.batches.create(["deliverable@example.com"])
        sent = [request["headers"]["idempotency-key"] for request in scripted.journal()[before:]]
        assert len(sent) == [1, 4, 3][number]
        assert len(set(sent)) == 1
        keys.append(sent[0])
    assert len(set(keys)) == len(keys)
    assert len(list(client.batches.list())) == 3


def test_the_key_of_the_caller(client: Any, scripted: Scripted) -> None:
    first = client.batches.create(["deliverable@example.com"], idempotency_key="order-1")
    again = client.batches.create(["deliverable@example.com"], idempotency_key="order-1")
    assert first.batch_id == again.batch_id
    with pytest.raises(mailprobe.IdempotencyKeyReusedError):
        client.batches.create(["role@example.com"], idempotency_key="order-1")
    for bad in ("", "a b", "ä", "x" * 256):
        with pytest.raises(ValueError):
            client.batches.create(["role@example.com"], idempotency_key=bad)


@pytest.mark.parametrize("fault", [{"lose": True}, {"truncate": True}, {"status": 503, "body": BUSY}, {"status": 200, "body": "{"}])
def test_an_error_has_the_key_that_the_client_has_made(client: Any, scripted: Scripted, fault: Any) -> None:
    """The caller repeats the call after its final error, and there is one batch and one list."""
    for path, create in (("/v1/verify/batch", client.batches.create), ("/v1/lists", client.lists.upload)):
        scripted.fault("POST", path, **fault, times=1 + QUICK.repetitions)
        content: Any = ["deliverable@example.com"] if "batch" in path else b"deliverable@example.com\n"
        with pytest.raises(mailprobe.MailprobeError) as caught:
            create(content)
        scripted.control("end-faults", {})
        create(content, idempotency_key=caught.value.idempotency_key)
        keys = {request["headers"]["idempotency-key"] for request in scripted.journal() if request["target"] == path}
        assert keys == {caught.value.idempotency_key}
    assert (len(list(client.batches.list())), len(list(client.lists.list()))) == (1, 1)


def test_an_error_of_a_request_without_a_key(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/account", lose=True, times=99)
    with pytest.raises(mailprobe.TransportError) as caught:
        client.account()
    assert caught.value.idempotency_key is None


def test_a_key_in_progress_is_repeated(client: Any, scripted: Scripted) -> None:
    body = {"error": "idempotency_in_progress", "message": "wait"}
    scripted.fault("POST", "/v1/verify/batch", status=409, body=body)
    assert client.batches.create(["deliverable@example.com"]).emails_submitted == 1


def test_a_delete_whose_answer_was_lost(client: Any, scripted: Scripted) -> None:
    made = client.webhooks.create("https://example.com/hook")
    scripted.fault("DELETE", "/v1/webhooks", lose=True)
    client.webhooks.delete(made.webhook_id)
    with pytest.raises(mailprobe.NotFoundError):
        client.webhooks.delete(made.webhook_id)


ERRORS = [
    (400, "invalid_request", mailprobe.InvalidRequestError),
    (400, "invalid_emails", mailprobe.InvalidEmailsError),
    (401, "missing_api_key", mailprobe.MissingApiKeyError),
    (401, "invalid_api_key", mailprobe.InvalidApiKeyError),
    (401, "api_key_revoked", mailprobe.ApiKeyRevokedError),
    (402, "insufficient_credits", mailprobe.InsufficientCreditsError),
    (402, "subscription_inactive", mailprobe.SubscriptionInactiveError),
    (403, "insufficient_scope", mailprobe.InsufficientScopeError),
    (403, "plan_not_allowed", mailprobe.PlanNotAllowedError),
    (403, "live_key_required", mailprobe.LiveKeyRequiredError),
    (403, "not_available_on_market", mailprobe.NotAvailableOnGatewayError),
    (404, "not_found", mailprobe.NotFoundError),
    (409, "something_new", mailprobe.ConflictError),
    (409, "invalid_state", mailprobe.InvalidStateError),
    (409, "offset_mismatch", mailprobe.OffsetMismatchError),
    (413, "request_too_large", mailprobe.RequestTooLargeError),
    (418, "something_new", mailprobe.ApiError),
    (422, "idempotency_key_reused", mailprobe.IdempotencyKeyReusedError),
    (500, "internal_error", mailprobe.InternalServerError),
    (503, "provider_unavailable", mailprobe.ProviderUnavailableError),
]


@pytest.mark.parametrize("status, code, kind", ERRORS)
def test_each_code_has_a_class(scripted: Scripted, status: int, code: str, kind: Any) -> None:
    with mailprobe.Client(scripted.url, "key", retries=mailprobe.Retries(repetitions=0)) as client:
        scripted.fault("GET", "/v1/account", status=status, body={"error": code, "message": "no", "credits_remaining": 3})
        with pytest.raises(mailprobe.ApiError) as caught:
            client.account()
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code, caught.value.message) == (status, code, "no")
    if isinstance(caught.value, mailprobe.PaymentRequiredError):
        assert (caught.value.credits_remaining, caught.value.credits_required) == (3, None)


def test_invalid_emails_are_named(client: Any) -> None:
    with pytest.raises(mailprobe.InvalidEmailsError) as caught:
        client.batches.create(["deliverable@example.com", "nobody"])
    assert caught.value.invalid == ({"index": 1, "email": "nobody"},)
    assert caught.value.invalid_count == 1


def test_the_page_of_a_proxy_is_an_error_without_a_code(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/account", status=503, body="<html>", headers={"content-type": "text/html"}, times=9)
    with pytest.raises(mailprobe.UnavailableError) as caught:
        client.account()
    assert caught.value.code == ""


def test_a_redirect_is_not_followed(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/account", status=308, headers={"Location": f"{scripted.url}/v1/elsewhere"})
    with pytest.raises(mailprobe.UnexpectedAnswerError, match="redirects"):
        client.account()
    assert len(scripted.journal()) == 1


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"text"', '{"plan": 1}', '{"plan": "free"}'])
def test_wrong_json(client: Any, scripted: Scripted, body: str) -> None:
    scripted.fault("GET", "/v1/account", status=200, body=body)
    with pytest.raises(mailprobe.UnexpectedAnswerError):
        client.account()
    assert len(scripted.journal()) == 1


def test_an_answer_that_is_too_long(client: Any, scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailprobe._calls.ANSWER_BYTES_MAX", 100)
    with pytest.raises(mailprobe.UnexpectedAnswerError, match="too long"):
        client.account()


def test_a_slow_server(make: Callable[..., Any], scripted: Scripted) -> None:
    scripted.fault("POST", "/v1/verify", delay_s=1.0)
    assert make(scripted.url, timeout=0.2).verify("role@example.com").reason == "role_account"
    scripted.fault("POST", "/v1/verify", delay_s=1.0)
    with pytest.raises(mailprobe.TransportTimeoutError):
        make(scripted.url, timeout=0.2, retries=mailprobe.Retries(repetitions=0)).verify("role@example.com")


def test_the_key_stays_secret(make: Callable[..., Any], scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = make(scripted.url, "very-secret")
    client.verify("deliverable@example.com")
    assert "very-secret" not in repr(client)
    assert not [record for record in caplog.records if "deliverable@" in record.getMessage()]
    with pytest.raises(ValueError) as caught:
        mailprobe.Client(scripted.url, "very secret")
    assert "very" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "example.com", "ftp://example.com", "https://", "https://u:p@example.com", "https://a.example/?b"])
def test_bad_base_urls(url: str) -> None:
    with pytest.raises(ValueError):
        mailprobe.Client(url, "key")


def test_ids_are_one_segment_of_the_path(client: Any, scripted: Scripted) -> None:
    with pytest.raises(mailprobe.NotFoundError):
        client.batches.get("../account?x")
    assert scripted.journal()[0]["target"] == "/v1/verify/batch/..%2Faccount%3Fx"
    for bad in ("", ".", ".."):
        with pytest.raises(ValueError):
            client.lists.get(bad)


def test_http_of_the_caller(scripted: Scripted) -> None:
    with httpx.Client() as http:
        with mailprobe.Client(scripted.url, "key", http=http) as client:
            client.account()
        assert not http.is_closed


@pytest.mark.parametrize(
    "value, expected",
    [
        ("0", 0.0),
        (" 7 ", 7.0),
        ("Wed, 25 Nov 2026 12:00:30 GMT", 30.0),
        ("Wed, 25 Nov 2026 11:00:00 GMT", 0.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 20, None),
        (None, None),
    ],
)
def test_retry_after(value: Any, expected: Any) -> None:
    assert parse_retry_after(value, datetime(2026, 11, 25, 12, tzinfo=timezone.utc)) == expected


def test_waits_double_with_jitter() -> None:
    retries = mailprobe.Retries(repetitions=9, first_wait=1, longest_wait=10)
    error = mailprobe.TransportError("broken")
    waits = [retries.wait(done, error, repeatable=True, random=lambda: 1.0) for done in range(10)]
    assert waits == [1, 2, 4, 8, 10, 10, 10, 10, 10, None]
    assert retries.wait(1, error, repeatable=True, random=lambda: 0.0) == 1
    assert retries.wait(0, error, repeatable=False, random=lambda: 0.0) is None
    assert retries.wait(0, mailprobe.TransportError("x", sent=False), repeatable=False, random=lambda: 1.0) == 1
