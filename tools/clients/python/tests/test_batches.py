"""Batches, by the scripted server."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Scripted

import mailprobe

EMAILS = ["deliverable@example.com", "catch_all@example.com", "nobody@example.com"]


def test_from_create_to_results(client: Any) -> None:
    created = client.batches.create(EMAILS, name="three")
    assert (created.status, created.emails_submitted) == ("processing", 3)
    rows = list(client.batches.results(created.batch_id, timeout=30))
    assert [row.email for row in rows] == EMAILS
    assert [(row.deliverable, row.reason) for row in rows] == [
        (True, "mailbox_exists"), (False, "catch_all"), (False, "mailbox_not_found"),
    ]


def test_wait_has_a_timeout(client: Any, scripted: Scripted) -> None:
    created = client.batches.create(EMAILS)
    with pytest.raises(mailprobe.WaitTimeoutError):
        client.batches.wait(created.batch_id, timeout=0)
    assert client.batches.wait(created.batch_id, interval=0.01).is_ended


def test_wait_survives_failures(client: Any, scripted: Scripted) -> None:
    created = client.batches.create(EMAILS)
    scripted.fault("GET", "/v1/verify/batch/", lose=True, times=2)
    assert client.batches.wait(created.batch_id, interval=0.01).status == "completed"


def test_cancel(client: Any) -> None:
    created = client.batches.create(EMAILS)
    cancelled = client.batches.cancel(created.batch_id)
    assert cancelled.is_ended
    assert {row.reason for row in client.batches.results(created.batch_id)} == {"unverifiable"}


def test_list_reads_pages_when_they_are_needed(client: Any, scripted: Scripted) -> None:
    ids = [client.batches.create(EMAILS).batch_id for _ in range(5)]
    assert [batch.batch_id for batch in client.batches.list()] == ids[::-1]
    assert [batch.batch_id for batch in client.batches.list(limit=5)] == ids[::-1]
    before = len(scripted.journal())
    assert next(iter(client.batches.list())).batch_id == ids[-1]
    assert len(scripted.journal()) == before + 1


def test_a_cursor_that_does_not_advance(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/verify/batch", status=200, body={"batches": [], "next": "same"}, times=9)
    with pytest.raises(mailprobe.UnexpectedAnswerError):
        list(client.batches.list())


def test_one_address_is_no_sequence(client: Any) -> None:
    with pytest.raises(TypeError):
        client.batches.create("deliverable@example.com")
