/** The objects of the API, with the names of its JSON. New fields may be added to all of them. */

/** The reason of a verdict. docs/verdicts.md of the project explains the reasons. */
export type Reason =
  | 'mailbox_exists'
  | 'role_account'
  | 'invalid_syntax'
  | 'disposable'
  | 'spamtrap'
  | 'inbox_full'
  | 'mailbox_disabled'
  | 'catch_all'
  | 'mailbox_not_found'
  | 'unverifiable'
  | 'possible_typo'
  | 'no_mx'
  | 'fast_check_passed';
export type Mode = 'full' | 'fast';
export type BatchState = 'processing' | 'completed' | 'cancelled';
export type ListState =
  | 'uploading' | 'reading' | 'ready' | 'running' | 'paused' | 'completed' | 'cancelled' | 'unfit';
/** A class of verdicts. `unknown` means that the mailbox could be neither confirmed nor excluded. */
export type ResultClass = 'deliverable' | 'undeliverable' | 'unknown';
/** The format of a download: CSV, JSON lines, or a spreadsheet with texts in all cells. */
export type ResultsFormat = 'csv' | 'jsonl' | 'xlsx';
export type EventType =
  | 'batch.completed'
  | 'batch.cancelled'
  | 'list.completed'
  | 'list.cancelled'
  | 'list.paused'
  | 'list.unfit'
  | 'webhook.test';

/** The account of the key: its plan, status and balance. */
export interface Account {
  plan: string;
  plan_name: string;
  status: string;
  /** All credits that can be spent now. */
  credits_remaining: number;
  /** The credits of the plan in each period. */
  credits_total: number;
  pack_credits?: number;
  /** In RFC 3339. */
  period_end?: string | null;
  cancel_at_period_end?: boolean;
}

/** The results of a fast check. */
export interface Checks {
  mx: boolean;
  disposable: boolean;
  role_account: boolean;
  free_email: boolean;
}

/** Properties of an address. */
export interface Flags {
  free_email: boolean;
  role_account: boolean;
  disposable: boolean;
  catch_all: boolean;
  /** null if it is not known. */
  mailbox_exists?: boolean | null;
}

/** Facts from the DNS of a domain about its mail. */
export interface Dns {
  mx: boolean;
  mx_hosts: string[];
  spf: boolean;
  dmarc_policy?: string | null;
  dkim_selectors: string[];
  bimi: boolean;
  ptr: boolean;
}

/** The basis of a verdict: the rule that decided, and the reply of the mail host. */
export interface Evidence {
  /** The name of the rule. docs/verdicts.md of the project explains the rules. */
  rule: string;
  /** The subject of the reply; null without a reply. */
  scope: string | null;
  /** null if the verdict rests on no single host. */
  host: string | null;
  reply_code: number | null;
  enhanced_code: string | null;
  /** In RFC 3339. */
  observed_at: string;
}

/** Further facts about an address and its domain. */
export interface Detail {
  grade?: string | null;
  /** From 0 to 100. */
  score?: number | null;
  inbox_provider?: string | null;
  flags: Flags;
  dns?: Dns | null;
  /** Absent if an earlier version of the server has stored the verdict. */
  evidence?: Evidence;
}

/** The result of a single check. */
export interface Verification {
  email: string;
  /** True only for confirmed mailboxes. null only after a fast check that found no problem. */
  deliverable: boolean | null;
  reason: Reason;
  /** The balance after the check; null if the check was free. */
  credits_remaining?: number | null;
  /** Only after `detail: true`. */
  detail?: Detail;
  /** Whether the answer repeats a check of the last 24 hours. A repeat is free. */
  cached?: boolean;
  mode?: 'fast';
  /** The probable address, if the domain looks like a typing mistake. Only after a fast check. */
  suggestion?: string | null;
  /** Only after a fast check. */
  checks?: Checks | null;
}

/** A batch that the server has accepted. `batch_id` is its id for all further calls. */
export interface BatchCreated {
  batch_id: string;
  emails_submitted: number;
  status: BatchState;
  credits_remaining?: number | null;
}

/** The verdict about one address of a batch. */
export interface ResultRow {
  email: string;
  deliverable: boolean;
  reason: Reason;
}

/** The state of a batch. */
export interface Batch {
  batch_id: string;
  status: BatchState;
  /** From 0 to 100. */
  progress: number;
  total: number;
  checked: number;
  /** A row for each submitted address, in the same order. Absent or null before the end, and in the list of batches. */
  results?: ResultRow[] | null;
  /** What the addresses without a result wait for. Absent after the end, and in the list of batches. */
  waiting?: ListWait[];
  /** Only in the list of batches. */
  created_at?: string;
  /** Only in the list of batches, if the request gave a name. */
  name?: string | null;
}

/** Where the addresses of a list are. */
export interface FoundAddresses {
  /** The name of the column, or the key of JSON lines. */
  column?: string | null;
  /** From 1. */
  column_number?: number | null;
  columns?: number | null;
  /** Whether there is a header, which is not checked. */
  header?: boolean | null;
  sheet?: string | null;
  /** From 1. */
  sheet_number?: number | null;
  sheets?: number | null;
  /** The time at which the server read the list. */
  read_at?: string;
  /** Other columns with addresses, which are not checked. */
  other_columns?: string[];
  /** The cells with several addresses, of which only the first one is checked. Null if there are none. */
  cells_with_more?: { count: number; first_row: number } | null;
}

/** Addresses of a running list or batch that have no verdict for the same cause. New causes can be added. */
export interface ListWait {
  cause: "queue" | "retry_later" | "no_answer" | "refusal_budget" | "outage" | (string & {});
  addresses: number;
  /** The latest time at which the last of them is tried once more; null if it is not known. */
  until: string | null;
}

/** A list of addresses: an uploaded file. Figures that the server does not know yet are null. */
export interface MailList {
  list_id: string;
  status: ListState;
  name?: string | null;
  /** The size of the content. While an upload in parts is in progress, the announced size. */
  bytes?: number | null;
  /** The number of bytes that the server has acknowledged. */
  offset?: number | null;
  rows?: number | null;
  /** The number of rows with a valid address. */
  addresses?: number | null;
  /** The number of distinct addresses. */
  distinct?: number | null;
  /** The number of distinct addresses with a verdict. */
  checked?: number | null;
  /** From 0 to 100. */
  progress?: number | null;
  /** An estimate of the price, after the list was read. */
  credits_required?: number | null;
  /** The credits that were charged so far: those of the parts of the list that have ended. */
  credits_charged?: number | null;
  /** The credits that are reserved for the parts that are being checked. */
  credits_reserved?: number | null;
  /** The number of distinct addresses with a verdict by reason, so far. */
  counts?: Record<string, number>;
  /** What the other addresses of a running list wait for. */
  waiting?: ListWait[];
  /** Why the list is unfit or paused, or why the service cannot go on with it now. */
  problem?: string | null;
  created_at?: string | null;
  expires_at?: string | null;
  /** Null until the server has read the list, as its other figures. */
  found?: FoundAddresses | null;
}

/** A row of the results of a list: its own values, and the verdict. */
export interface ListRow {
  deliverable: boolean | null;
  reason: Reason;
  [column: string]: unknown;
}

/** A URL to which the server sends events. */
export interface WebhookEndpoint {
  webhook_id: string;
  url: string;
  events?: EventType[];
  label?: string | null;
  enabled?: boolean;
  /** The cause, if the endpoint is disabled: by its owner, after an answer 410, or after three days of failures. */
  disabled_reason?: 'owner' | 'gone' | 'failures' | null;
  /** The first failed attempt since the last success. After three days, the server disables the endpoint. */
  failing_since?: string | null;
  /** The number of messages that wait. */
  waiting?: number;
  /** The number of events that were not sent, because too many messages waited. */
  missed?: number;
  /** The time until which the secret before the last rotation signs too. */
  old_secret_until?: string | null;
  /** Only in the answers to `create` and `rotate`. Keep it secret. */
  secret?: string;
  created_at?: string | null;
}

/** One request with a message to its endpoint. */
export interface Attempt {
  at: string;
  duration_ms?: number;
  /** The HTTP status of the endpoint's answer. */
  status?: number | null;
  /** The cause, if no answer arrived, such as `timeout`. */
  error?: string | null;
}

/** A message to an endpoint, with all attempts so far, the oldest first. */
export interface Delivery {
  /** The same as the header `webhook-id` of the message. */
  message_id: string;
  type: EventType;
  /** The id of the batch or list; of the endpoint itself for a test. */
  object_id?: string;
  created_at?: string;
  status?: 'waiting' | 'delivered' | 'failed' | 'discarded';
  attempts?: Attempt[];
  /** null if the message has ended, or if it waits for an earlier message of the same object. `status` tells which. */
  next_attempt_at?: string | null;
}

/** A verified message of the server. */
export interface WebhookEvent {
  /** The header `webhook-id`. It is the same in each attempt, so it identifies duplicates. */
  id: string;
  type: EventType;
  timestamp: string;
  /** The object of the event, in its state at the time of the event: a batch, a list, or the endpoint itself for a test. */
  data: {
    batch_id?: string | null;
    list_id?: string | null;
    webhook_id?: string | null;
    status?: string | null;
    total?: number | null;
    checked?: number | null;
    counts?: Record<string, number>;
  };
}
