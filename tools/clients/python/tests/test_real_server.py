"""The client and `mailprobe serve`, with the mail servers of mailnet. Needs MAILPROBE_BIN_DIR."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict

import httpx
import pytest
from conftest import require

import mailprobe
from mailprobe import errors
from mailprobe.errors import api_error

CONTENT = b"row,email\n1,alice@ok.example\n2,nobody@ok.example\n3,alice@ok.example\n4,anyone@catchall.example\n"


@pytest.fixture
def live(make: Callable[..., Any], real: Dict[str, str]) -> Any:
    return make(real["url"], real["live_key"])


@pytest.fixture
def test(make: Callable[..., Any], real: Dict[str, str]) -> Any:
    return make(real["url"], real["test_key"])


def test_full_checks(live: Any) -> None:
    expected = {"alice@ok.example": "mailbox_exists", "nobody@ok.example": "mailbox_not_found", "anyone@catchall.example": "catch_all"}
    assert {email: live.verify(email).reason for email in expected} == expected
    again = live.verify("alice@ok.example")
    assert again.cached and again.credits_remaining is None


def test_invalid_syntax(live: Any) -> None:
    assert live.verify("not an address").reason == "invalid_syntax"


def test_detail(live: Any) -> None:
    detail = live.verify("alice@ok.example", detail=True).detail
    assert detail is not None and detail.dns is not None
    assert detail.dns.dmarc_policy == "reject" and detail.flags.mailbox_exists is True


def test_fast_check(test: Any) -> None:
    found = test.verify("someone@gmial.com", mode="fast")
    assert (found.reason, found.suggestion) == ("possible_typo", "someone@gmail.com")
    assert found.checks is not None


def test_account(live: Any) -> None:
    found = live.account()
    assert found.plan == "free" and found.credits_remaining > 1000


def test_batch(live: Any) -> None:
    emails = ["bob@ok.example", "nobody@ok.example", "bob@ok.example"]
    created = live.batches.create(emails, name="from a client")
    rows = list(live.batches.results(created.batch_id, timeout=60))
    assert [(row.email, row.reason) for row in rows] == [
        ("bob@ok.example", "mailbox_exists"), ("nobody@ok.example", "mailbox_not_found"), ("bob@ok.example", "mailbox_exists"),
    ]


def test_idempotency(test: Any) -> None:
    created = [test.batches.create(["role@example.com"], idempotency_key=f"client-{id(test)}") for _ in range(2)]
    assert created[0].batch_id == created[1].batch_id
    with pytest.raises(mailprobe.IdempotencyKeyReusedError):
        test.batches.create(["deliverable@example.com"], idempotency_key=f"client-{id(test)}")


def test_errors(make: Callable[..., Any], real: Dict[str, str], live: Any) -> None:
    with pytest.raises(mailprobe.InvalidApiKeyError):
        make(real["url"], "mp_live_unknown").account()
    with pytest.raises(mailprobe.NotFoundError):
        live.batches.get("nothing")
    with pytest.raises(mailprobe.InvalidRequestError) as malformed:
        live.verify("a" * 400 + "@example.com")
    assert malformed.value.issues[0]["loc"] == ["body", "email"]
    with pytest.raises(mailprobe.InvalidEmailsError) as invalid:
        live.batches.create(["alice@ok.example", "nobody"])
    assert invalid.value.invalid[0]["index"] == 1


def test_codes(real: Dict[str, str]) -> None:
    """Each code of the server has a class of its own, or that of its status, and there is no class for any other code."""
    description = httpx.get(real["url"] + "/v1/openapi.json").json()["components"]["schemas"]["ErrorCode"]
    statuses = {code: int(status) for code, status in re.findall(r"(?m)^\| `(\w+)` \| (\d{3}) \|", description["description"])}
    assert list(statuses) == description["enum"] and len(statuses) > 20
    for code, status in statuses.items():
        expected = errors._BY_CODE.get(code) or errors._BY_STATUS.get(status, mailprobe.ApiError)
        assert type(api_error(status, {}, {"error": code})) is expected, code
    assert set(errors._BY_CODE) <= set(statuses)
    assert set(statuses) - set(errors._BY_CODE) == {"method_not_allowed", "request_timeout", "unsupported_media_type"}


def test_list_and_cancel_batches(real: Dict[str, str], test: Any) -> None:
    require(real, "/v1/verify/batch")
    ids = [test.batches.create(["role@example.com"]).batch_id for _ in range(3)]
    listed = [batch.batch_id for batch in test.batches.list(limit=2)]
    assert [batch_id for batch_id in listed if batch_id in ids] == ids[::-1]
    assert test.batches.cancel(ids[0]).is_ended


@pytest.mark.parametrize("in_parts", [False, True])
def test_list(real: Dict[str, str], live: Any, in_parts: bool) -> None:
    require(real, "/v1/lists")
    uploaded = live.lists.upload(CONTENT, name="from a client", column="email", in_parts=in_parts, part_bytes=30)
    ready = live.lists.wait(uploaded.list_id, until="ready", timeout=60, interval=0.1)
    assert (ready.rows, ready.addresses, ready.distinct) == (4, 4, 3)
    live.lists.start(uploaded.list_id)
    done = live.lists.wait(uploaded.list_id, timeout=120, interval=0.2)
    assert done.status == "completed" and sum(done.counts.values()) == 3
    rows = list(live.lists.results(uploaded.list_id))
    assert [(row["row"], row["reason"]) for row in rows] == [
        ("1", "mailbox_exists"), ("2", "mailbox_not_found"), ("3", "mailbox_exists"), ("4", "catch_all"),
    ]
    row = next(live.lists.results(uploaded.list_id, classes=["undeliverable"], evidence=True))
    assert (row["reply_code"], row["scope"]) == (550, "recipient") and row["rule"] and row["checked_at"]
    target = io.BytesIO()
    live.lists.download(uploaded.list_id, target, classes=["deliverable"])
    assert len(target.getvalue().splitlines()) == 3
    assert uploaded.list_id in [found.list_id for found in live.lists.list()]
    live.lists.delete(uploaded.list_id)


def test_spreadsheet(real: Dict[str, str], test: Any, tmp_path: Path) -> None:
    description = httpx.get(real["url"] + "/v1/openapi.json").json()
    parameters = description["paths"]["/v1/lists/{list_id}/results"]["get"]["parameters"]
    if not any("xlsx" in parameter["schema"].get("enum", ()) for parameter in parameters):
        pytest.skip("the server has no results in the format xlsx yet")
    list_id = test.lists.upload(b"email\nrole@example.com\n").list_id
    test.lists.wait(list_id, until="ready", timeout=60, interval=0.1)
    test.lists.start(list_id)
    test.lists.wait(list_id, timeout=60, interval=0.1)
    path, file = tmp_path / "out.xlsx", io.BytesIO()
    assert test.lists.download(list_id, path, format="xlsx") == path.stat().st_size
    assert test.lists.download(list_id, file, format="xlsx") == len(file.getvalue())
    for content in (io.BytesIO(path.read_bytes()), file):
        with zipfile.ZipFile(content) as book:
            assert book.testzip() is None
            text = b"".join(book.read(name) for name in book.namelist())
        assert b"role@example.com" in text and b"role_account" in text
    test.lists.delete(list_id)


def test_webhooks(real: Dict[str, str], live: Any) -> None:
    require(real, "/v1/webhooks")
    made = live.webhooks.create("https://hooks.example.com/mailprobe", events=["list.completed"], label="from a client")
    assert made.secret is not None and made.secret.startswith("whsec_")
    assert [found.webhook_id for found in live.webhooks.list()] == [made.webhook_id]
    assert live.webhooks.rotate(made.webhook_id).secret != made.secret
    assert live.webhooks.test(made.webhook_id) in [found.message_id for found in live.webhooks.deliveries(made.webhook_id)]
    assert live.webhooks.update(made.webhook_id, enabled=False).enabled is False
    live.webhooks.delete(made.webhook_id)
    assert live.webhooks.list() == []
