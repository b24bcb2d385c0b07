"""The objects of the API. Each has the fields of the JSON, and `raw` with the JSON itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Mapping, Optional, Tuple

#: The reason of a verdict. docs/verdicts.md explains the reasons.
Reason = Literal[
    "mailbox_exists",
    "role_account",
    "invalid_syntax",
    "disposable",
    "spamtrap",
    "inbox_full",
    "mailbox_disabled",
    "catch_all",
    "mailbox_not_found",
    "unverifiable",
    "possible_typo",
    "no_mx",
    "fast_check_passed",
]
Mode = Literal["full", "fast"]
BatchState = Literal["processing", "completed", "cancelled"]
ListState = Literal["uploading", "reading", "ready", "running", "paused", "completed", "cancelled", "unfit"]
#: A class of verdicts. `unknown` means that the mailbox could be neither confirmed nor excluded.
ResultClass = Literal["deliverable", "undeliverable", "unknown"]
#: The format of a download: CSV, JSON lines, or a spreadsheet with texts in all cells.
ResultsFormat = Literal["csv", "jsonl", "xlsx"]
EventType = Literal[
    "batch.completed",
    "batch.cancelled",
    "list.completed",
    "list.cancelled",
    "list.paused",
    "list.unfit",
    "webhook.test",
]


def _raw() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Account:
    """The account of the key: its plan, status and balance."""

    plan: str
    plan_name: str
    status: str
    #: All credits that can be spent now.
    credits_remaining: int
    #: The credits of the plan in each period.
    credits_total: int
    pack_credits: int = 0
    period_end: Optional[datetime] = None
    cancel_at_period_end: bool = False
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Checks:
    """The results of a fast check."""

    mx: bool
    disposable: bool
    role_account: bool
    free_email: bool
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Flags:
    """Properties of an address."""

    free_email: bool
    role_account: bool
    disposable: bool
    catch_all: bool
    #: None if it is not known.
    mailbox_exists: Optional[bool] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Dns:
    """Facts from the DNS of a domain about its mail."""

    mx: bool
    mx_hosts: Tuple[str, ...]
    spf: bool
    dkim_selectors: Tuple[str, ...]
    bimi: bool
    ptr: bool
    dmarc_policy: Optional[str] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Evidence:
    """The basis of a verdict: the rule that decided, and the reply of the mail host."""

    #: The name of the rule. docs/verdicts.md explains the rules.
    rule: str
    observed_at: datetime
    #: The subject of the reply. None without a reply.
    scope: Optional[str] = None
    #: None if the verdict rests on no single host.
    host: Optional[str] = None
    reply_code: Optional[int] = None
    enhanced_code: Optional[str] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Detail:
    """Further facts about an address and its domain."""

    flags: Flags
    grade: Optional[str] = None
    #: From 0 to 100.
    score: Optional[int] = None
    inbox_provider: Optional[str] = None
    dns: Optional[Dns] = None
    #: None if an earlier version of the server has stored the verdict.
    evidence: Optional[Evidence] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Verification:
    """The result of a single check."""

    email: str
    #: True only for confirmed mailboxes. None only after a fast check that found no problem.
    deliverable: Optional[bool]
    reason: Reason
    #: The balance after the check; None if the check was free.
    credits_remaining: Optional[int] = None
    #: Only after `detail=True`.
    detail: Optional[Detail] = None
    #: Whether the answer repeats a check of the last 24 hours. A repeat is free.
    cached: bool = False
    mode: Optional[Literal["fast"]] = None
    #: The probable address, if the domain looks like a typing mistake. Only after a fast check.
    suggestion: Optional[str] = None
    #: Only after a fast check.
    checks: Optional[Checks] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class BatchCreated:
    """A batch that the server has accepted. `batch_id` is its id for all further calls."""

    batch_id: str
    emails_submitted: int
    status: BatchState
    credits_remaining: Optional[int] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class ResultRow:
    """The verdict about one address of a batch."""

    email: str
    deliverable: bool
    reason: Reason
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Batch:
    """The state of a batch."""

    batch_id: str
    status: BatchState
    #: From 0 to 100.
    progress: float
    total: int
    checked: int
    #: A row for each submitted address, in the same order. None before the end, and in the list of batches.
    results: Optional[Tuple[ResultRow, ...]] = None
    #: What the addresses without a result wait for: `cause`, `addresses`, `until`.
    waiting: Tuple[Mapping[str, Any], ...] = ()
    #: Only in the list of batches.
    created_at: Optional[datetime] = None
    #: Only in the list of batches, if the request gave a name.
    name: Optional[str] = None
    raw: Mapping[str, Any] = _raw()

    @property
    def is_ended(self) -> bool:
        """Whether the batch is completed or cancelled."""
        return self.status in ("completed", "cancelled")


@dataclass(frozen=True)
class MailList:
    """A list of addresses: an uploaded file. Figures that the server does not know yet are None."""

    list_id: str
    status: ListState
    name: Optional[str] = None
    #: The size of the content. While an upload in parts is in progress, the announced size.
    bytes: Optional[int] = None
    #: The number of bytes that the server has acknowledged.
    offset: Optional[int] = None
    rows: Optional[int] = None
    #: The number of rows with a valid address.
    addresses: Optional[int] = None
    #: The number of distinct addresses.
    distinct: Optional[int] = None
    #: The number of distinct addresses with a verdict.
    checked: Optional[int] = None
    #: From 0 to 100.
    progress: Optional[float] = None
    #: An estimate of the price, after the list was read.
    credits_required: Optional[int] = None
    #: The credits that were charged so far: those of the parts of the list that have ended.
    credits_charged: Optional[int] = None
    #: The credits that are reserved for the parts that are being checked.
    credits_reserved: Optional[int] = None
    #: The number of distinct addresses with a verdict by reason, so far.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: What the other addresses of a running list wait for: `cause`, `addresses`, `until`.
    waiting: Tuple[Mapping[str, Any], ...] = ()
    #: The cause, if the list is unfit or paused.
    problem: Optional[str] = None
    created_at: Optional[datetime] = None
    expires_at: Optional[datetime] = None
    #: Where the addresses are: `column`, `column_number`, `columns`, `header`, `sheet`, `sheet_number`, `sheets`,
    #: `read_at`, `other_columns`, `cells_with_more`.
    found: Optional[Mapping[str, Any]] = None
    raw: Mapping[str, Any] = _raw()

    @property
    def is_ended(self) -> bool:
        """Whether the list is completed or cancelled."""
        return self.status in ("completed", "cancelled")


@dataclass(frozen=True)
class WebhookEndpoint:
    """A URL to which the server sends events."""

    webhook_id: str
    url: str
    events: Tuple[EventType, ...] = ()
    label: Optional[str] = None
    enabled: bool = True
    #: The cause, if the endpoint is disabled: `owner`, `gone` or `failures`.
    disabled_reason: Optional[str] = None
    #: The first failed attempt since the last success. After three days, the server disables the endpoint.
    failing_since: Optional[datetime] = None
    #: The number of messages that wait.
    waiting: int = 0
    #: The number of events that were not sent, because too many messages waited.
    missed: int = 0
    #: The time until which the secret before the last rotation signs too.
    old_secret_until: Optional[datetime] = None
    #: Only in the answers to `create` and `rotate`. Keep it secret.
    secret: Optional[str] = field(default=None, repr=False)
    created_at: Optional[datetime] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Attempt:
    """One request with a message to its endpoint."""

    at: datetime
    duration_ms: Optional[int] = None
    #: The HTTP status of the endpoint's answer.
    status: Optional[int] = None
    #: The cause, if no answer arrived, such as `timeout`.
    error: Optional[str] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Delivery:
    """A message to an endpoint, with all attempts so far, the oldest first."""

    #: The same as the header `webhook-id` of the message.
    message_id: str
    type: EventType
    #: The id of the batch or list; of the endpoint itself for a test.
    object_id: Optional[str] = None
    created_at: Optional[datetime] = None
    #: `waiting`, `delivered`, `failed` or `discarded`.
    status: Optional[str] = None
    attempts: Tuple[Attempt, ...] = ()
    #: None if the message has ended, or if it waits for an earlier message of the same object. `status` tells which.
    next_attempt_at: Optional[datetime] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class EventData:
    """The object of an event, in its state at the time of the event: a batch, a list, or the endpoint itself for a test."""

    batch_id: Optional[str] = None
    list_id: Optional[str] = None
    webhook_id: Optional[str] = None
    status: Optional[str] = None
    total: Optional[int] = None
    checked: Optional[int] = None
    #: The number of addresses by reason.
    counts: Mapping[str, int] = field(default_factory=dict)
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class WebhookEvent:
    """A verified message of the server."""

    type: EventType
    timestamp: datetime
    data: EventData = field(default_factory=EventData)
    #: The header `webhook-id`. It is the same in each attempt, so it identifies duplicates.
    id: str = ""
    raw: Mapping[str, Any] = _raw()
