/**
 * The errors of this package. MailprobeError is the base of all of them. ApiError is an error answer of the server: its `code` is the
 * code of the API, and each code has a class. TransportError means that no complete answer arrived.
 */
/** The base of all errors of this package. */
export class MailprobeError extends Error {
    constructor(message, options) {
        super(message, options);
        this.name = new.target.name;
    }
}
/** No complete answer arrived. The connection failed, broke or timed out. */
export class TransportError extends MailprobeError {
    /** Whether the server may have received the request. */
    sent;
    constructor(message, options = {}) {
        super(message, options);
        this.sent = options.sent ?? true;
    }
}
/** The server did not answer within the timeout. */
export class TransportTimeoutError extends TransportError {
}
/** An answer breaks the contract of the API: it is a redirect, is too long, or is not the expected JSON. */
export class UnexpectedAnswerError extends MailprobeError {
}
/** A batch or list did not end within the timeout of `wait`. It continues on the server. */
export class WaitTimeoutError extends MailprobeError {
}
/** A list stopped before its end: its status is `unfit` or `paused`. `list.problem` is the cause. */
export class ListStoppedError extends MailprobeError {
    list;
    constructor(list) {
        super(`the list ${list.list_id} is ${list.status}: ${list.problem}`);
        this.list = list;
    }
}
/** The content of an upload cannot be read as announced, for example because the file became shorter. */
export class UploadError extends MailprobeError {
}
/** An upload in parts failed after all retries. `lists.resumeUpload(listId, ...)` continues it. */
export class UploadInterruptedError extends MailprobeError {
    listId;
    offset;
    /** `offset` is the number of bytes that the server has acknowledged. */
    constructor(listId, offset, options) {
        super(`the upload of the list ${listId} stopped after ${offset} bytes`, options);
        this.listId = listId;
        this.offset = offset;
    }
}
/** A request is not a genuine, recent message of the server. */
export class WebhookVerificationError extends MailprobeError {
}
/** An error answer of the server. */
export class ApiError extends MailprobeError {
    /** The HTTP status. */
    status;
    /** The code of the API. It is empty if the answer has no code, such as the answer of a proxy. */
    code;
    /** The seconds after which a retry makes sense, if the server names them. */
    retryAfter;
    /** The value of X-Request-Id, for questions to the operator. */
    requestId;
    /** The whole body. */
    body;
    constructor({ status, body, retryAfter, requestId }) {
        const code = typeof body['error'] === 'string' ? body['error'] : '';
        super(code ? `${status} ${code}: ${body['message']}` : `status ${status}`);
        this.status = status;
        this.code = code;
        this.retryAfter = retryAfter;
        this.requestId = requestId;
        this.body = body;
    }
    count(name) {
        const value = this.body[name];
        return typeof value === 'number' ? value : undefined;
    }
    objects(name) {
        const value = this.body[name];
        return Array.isArray(value) ? value : [];
    }
}
/** 400 `invalid_request`: the request is malformed. */
export class InvalidRequestError extends ApiError {
    /** All errors of the request. */
    get issues() {
        return this.objects('detail');
    }
}
/** 400 `invalid_emails`: the batch contains invalid addresses. Nothing was charged. */
export class InvalidEmailsError extends ApiError {
    /** The first invalid addresses. */
    get invalid() {
        return this.objects('invalid');
    }
    /** The number of invalid addresses. */
    get invalidCount() {
        return this.count('invalid_count');
    }
}
/** 401: the key is missing, unknown or revoked. */
export class AuthenticationError extends ApiError {
}
/** 401 `missing_api_key`. */
export class MissingApiKeyError extends AuthenticationError {
}
/** 401 `invalid_api_key`. */
export class InvalidApiKeyError extends AuthenticationError {
}
/** 401 `api_key_revoked`. */
export class ApiKeyRevokedError extends AuthenticationError {
}
/** 402: the account cannot pay for the request. */
export class PaymentRequiredError extends ApiError {
    /** The balance. */
    get creditsRemaining() {
        return this.count('credits_remaining');
    }
    /** The price of the batch or list. */
    get creditsRequired() {
        return this.count('credits_required');
    }
}
/** 402 `insufficient_credits`. */
export class InsufficientCreditsError extends PaymentRequiredError {
}
/** 402 `subscription_inactive`. */
export class SubscriptionInactiveError extends PaymentRequiredError {
}
/** 403: the plan or the gateway does not offer the request. */
export class PermissionDeniedError extends ApiError {
}
/** 403 `plan_not_allowed`: the plan does not include batches and lists. */
export class PlanNotAllowedError extends PermissionDeniedError {
}
/** 403 `not_available_on_<gateway>`: the gateway offers only single checks. */
export class NotAvailableOnGatewayError extends PermissionDeniedError {
}
/** 404: the account has no object with this id, or the server does not know the path. */
export class NotFoundError extends ApiError {
}
/** 409: the request does not fit the present state of the object. */
export class ConflictError extends ApiError {
}
/** 409 `idempotency_in_progress`: a request with the same Idempotency-Key is still running. */
export class IdempotencyInProgressError extends ConflictError {
}
/** 409 `offset_mismatch`: the server expects another part of the upload. */
export class OffsetMismatchError extends ConflictError {
    /** The number of bytes that the server has acknowledged. */
    get offset() {
        return this.count('offset');
    }
}
/** 413: the body is too large. */
export class RequestTooLargeError extends ApiError {
}
/** 422 `idempotency_key_reused`: the Idempotency-Key was used for another request. */
export class IdempotencyKeyReusedError extends ApiError {
}
/** 429 `rate_limited`: too many requests. `retryAfter` has the wait in seconds. */
export class RateLimitedError extends ApiError {
}
/** 500 `internal_error`: a defect of the service. */
export class InternalServerError extends ApiError {
}
/** 503: the service cannot check at present. Nothing was charged. */
export class UnavailableError extends ApiError {
}
/** 503 `provider_unavailable`: the service cannot reach mail servers. */
export class ProviderUnavailableError extends UnavailableError {
}
/** 503 `temporarily_unavailable`: the service is busy, starts or stops. */
export class TemporarilyUnavailableError extends UnavailableError {
}
