/**
 * The errors of this package. MailprobeError is the base of all of them. ApiError is an error answer of the server: its `code` is the
 * code of the API, and each code has a class. TransportError means that no complete answer arrived.
 */

import type { MailList } from './models.js';

/** The base of all errors of this package. */
export class MailprobeError extends Error {
  /**
   * The Idempotency-Key of the request that failed; absent if it had none. The server may have received the request. With this key, a
   * repetition of the call does not start a second batch or list.
   */
  declare idempotencyKey?: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No complete answer arrived. The connection failed, broke or timed out. */
export class TransportError extends MailprobeError {
  /** Whether the server may have received the request. */
  readonly sent: boolean;

  constructor(message: string, options: ErrorOptions & { sent?: boolean } = {}) {
    super(message, options);
    this.sent = options.sent ?? true;
  }
}

/** The server did not answer within the timeout. */
export class TransportTimeoutError extends TransportError {}

/** An answer breaks the contract of the API: it is a redirect, is too long, or is not the expected JSON. */
export class UnexpectedAnswerError extends MailprobeError {}

/** A batch or list did not end within the timeout of `wait`. It continues on the server. */
export class WaitTimeoutError extends MailprobeError {}

/** A list stopped before its end: its status is `unfit` or `paused`. `list.problem` is the cause. */
export class ListStoppedError extends MailprobeError {
  constructor(readonly list: MailList) {
    super(`the list ${list.list_id} is ${list.status}: ${list.problem}`);
  }
}

/** The content of an upload is shorter or longer than announced, or its earlier bytes cannot be read again. */
export class UploadError extends MailprobeError {}

/** An upload in parts failed after all retries. `lists.resumeUpload(listId, ...)` continues it. */
export class UploadInterruptedError extends MailprobeError {
  /** `offset` is the number of bytes that the server has acknowledged. */
  constructor(readonly listId: string, readonly offset: number, options?: ErrorOptions) {
    super(`the upload of the list ${listId} stopped after ${offset} bytes`, options);
  }
}

/** A request is not a genuine, recent message of the server. */
export class WebhookVerificationError extends MailprobeError {}

/** The parts of an error answer. `retryAfter` is in seconds. */
export interface ApiFailure {
  status: number;
  body: Record<string, unknown>;
  retryAfter: number | undefined;
  requestId: string | undefined;
}

/** An error answer of the server. */
export class ApiError extends MailprobeError {
  /** The HTTP status, from 400. */
  readonly status: number;
  /** The code of the API. It is empty if the answer has no code, such as the answer of a proxy. */
  readonly code: string;
  /** The seconds after which a retry makes sense, if the server names them. */
  readonly retryAfter: number | undefined;
  /** The value of X-Request-Id, for questions to the operator. */
  readonly requestId: string | undefined;
  /** The JSON of the answer; empty if it is not an object. */
  readonly body: Readonly<Record<string, unknown>>;

  constructor({ status, body, retryAfter, requestId }: ApiFailure) {
    const code = typeof body['error'] === 'string' ? body['error'] : '';
    super(code ? `${status} ${code}: ${body['message']}` : `status ${status}`);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.body = body;
  }

  protected count(name: string): number | undefined {
    const value = this.body[name];
    return typeof value === 'number' ? value : undefined;
  }

  protected objects<T>(name: string): readonly T[] {
    const value = this.body[name];
    return Array.isArray(value) ? value : [];
  }
}

/** One error in a request: its position, the text for people, and the kind for programs. */
export interface Issue {
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** 400 `invalid_request`: the request is malformed. */
export class InvalidRequestError extends ApiError {
  /** All errors of the request. */
  get issues(): readonly Issue[] {
    return this.objects('detail');
  }
}

/** 400 `invalid_emails`: the batch contains invalid addresses. Nothing was charged. */
export class InvalidEmailsError extends ApiError {
  /** The first ten invalid addresses, with their index in the batch, from 0. */
  get invalid(): readonly { index: number; email: string }[] {
    return this.objects('invalid');
  }

  /** The number of all invalid addresses of the batch, which may be more than `invalid` has. */
  get invalidCount(): number | undefined {
    return this.count('invalid_count');
  }
}

/** 401: the key is missing, unknown or revoked. */
export class AuthenticationError extends ApiError {}
/** 401 `missing_api_key`: the request arrived without a key. A proxy may have removed the header. */
export class MissingApiKeyError extends AuthenticationError {}
/** 401 `invalid_api_key`: the key is unknown or malformed. */
export class InvalidApiKeyError extends AuthenticationError {}
/** 401 `api_key_revoked`: the key was revoked. */
export class ApiKeyRevokedError extends AuthenticationError {}

/** 402: the account cannot pay for the request. */
export class PaymentRequiredError extends ApiError {
  /** The credits that the account can still spend; undefined if the answer does not name them. */
  get creditsRemaining(): number | undefined {
    return this.count('credits_remaining');
  }

  /** The price of the batch or list in credits, or the estimated price of the rest of a list; undefined for a single check. */
  get creditsRequired(): number | undefined {
    return this.count('credits_required');
  }
}

/** 402 `insufficient_credits`: too few credits are left. */
export class InsufficientCreditsError extends PaymentRequiredError {}
/** 402 `subscription_inactive`: the subscription is paused or canceled. */
export class SubscriptionInactiveError extends PaymentRequiredError {}

/** 403: the key, the plan or the gateway does not permit the request. */
export class PermissionDeniedError extends ApiError {}
/** 403 `insufficient_scope`: the API key lacks the scope of the request, which the message names. */
export class InsufficientScopeError extends PermissionDeniedError {}
/** 403 `plan_not_allowed`: the plan does not include batches and lists. */
export class PlanNotAllowedError extends PermissionDeniedError {}
/** 403 `live_key_required`: the request needs a live key, and the client has a test key. */
export class LiveKeyRequiredError extends PermissionDeniedError {}
/** 403 `not_available_on_<gateway>`: the gateway offers only single checks. */
export class NotAvailableOnGatewayError extends PermissionDeniedError {}

/** 404: the account has no object with this id, or the server does not know the path. */
export class NotFoundError extends ApiError {}

/** 409: the request does not fit the present state of the object. */
export class ConflictError extends ApiError {}
/** 409 `idempotency_in_progress`: a request with the same Idempotency-Key is still running. */
export class IdempotencyInProgressError extends ConflictError {}
/** 409 `offset_mismatch`: the server expects another part of the upload. */
export class OffsetMismatchError extends ConflictError {
  /** The number of bytes that the server has acknowledged. */
  get offset(): number | undefined {
    return this.count('offset');
  }
}
/** 409 `invalid_state`: the list is in another state than the request needs, or a limit of the account is reached. */
export class InvalidStateError extends ConflictError {}

/** 413 `request_too_large`: the body, or the content of the list, is longer than the server accepts. */
export class RequestTooLargeError extends ApiError {}
/** 422 `idempotency_key_reused`: the Idempotency-Key was used for another request. */
export class IdempotencyKeyReusedError extends ApiError {}
/** 429 `rate_limited`: too many requests. `retryAfter` has the wait in seconds. */
export class RateLimitedError extends ApiError {}
/** 500 `internal_error`: a defect of the service. */
export class InternalServerError extends ApiError {}

/** 503: the service cannot check at present. Nothing was charged. */
export class UnavailableError extends ApiError {}
/** 503 `provider_unavailable`: the service cannot reach mail servers. */
export class ProviderUnavailableError extends UnavailableError {}
/** 503 `temporarily_unavailable`: the service is busy, starts or stops. */
export class TemporarilyUnavailableError extends UnavailableError {}
