/** From an error answer to its error. */

import { isObject } from './calls.js';
import {
  type ApiFailure,
  ApiError,
  ApiKeyRevokedError,
  AuthenticationError,
  ConflictError,
  IdempotencyInProgressError,
  IdempotencyKeyReusedError,
  InsufficientCreditsError,
  InsufficientScopeError,
  InternalServerError,
  InvalidApiKeyError,
  InvalidEmailsError,
  InvalidRequestError,
  InvalidStateError,
  LiveKeyRequiredError,
  MissingApiKeyError,
  NotAvailableOnGatewayError,
  NotFoundError,
  OffsetMismatchError,
  PaymentRequiredError,
  PermissionDeniedError,
  PlanNotAllowedError,
  ProviderUnavailableError,
  RateLimitedError,
  RequestTooLargeError,
  SubscriptionInactiveError,
  TemporarilyUnavailableError,
  UnavailableError,
} from './errors.js';

type ApiErrorClass = new (failure: ApiFailure) => ApiError;

/** The codes of the API that have a class of their own. */
export const BY_CODE = new Map<unknown, ApiErrorClass>([
  ['invalid_request', InvalidRequestError],
  ['invalid_emails', InvalidEmailsError],
  ['missing_api_key', MissingApiKeyError],
  ['invalid_api_key', InvalidApiKeyError],
  ['api_key_revoked', ApiKeyRevokedError],
  ['insufficient_credits', InsufficientCreditsError],
  ['subscription_inactive', SubscriptionInactiveError],
  ['insufficient_scope', InsufficientScopeError],
  ['plan_not_allowed', PlanNotAllowedError],
  ['live_key_required', LiveKeyRequiredError],
  ['invalid_state', InvalidStateError],
  ['not_found', NotFoundError],
  ['idempotency_in_progress', IdempotencyInProgressError],
  ['offset_mismatch', OffsetMismatchError],
  ['request_too_large', RequestTooLargeError],
  ['idempotency_key_reused', IdempotencyKeyReusedError],
  ['rate_limited', RateLimitedError],
  ['internal_error', InternalServerError],
  ['provider_unavailable', ProviderUnavailableError],
  ['temporarily_unavailable', TemporarilyUnavailableError],
]);

/** The classes of all other codes. */
export const BY_STATUS = new Map<number, ApiErrorClass>([
  [400, InvalidRequestError],
  [401, AuthenticationError],
  [402, PaymentRequiredError],
  [403, PermissionDeniedError],
  [404, NotFoundError],
  [409, ConflictError],
  [413, RequestTooLargeError],
  [429, RateLimitedError],
  [500, InternalServerError],
  [503, UnavailableError],
]);

const GATEWAY_PREFIX = 'not_available_on_';

/** The error for an answer. `body` is its JSON, or undefined. */
export function apiError(status: number, headers: Headers, body: unknown): ApiError {
  const envelope = isObject(body) ? body : {};
  const code = envelope['error'];
  const isGateway = typeof code === 'string' && code.startsWith(GATEWAY_PREFIX);
  const Kind = BY_CODE.get(code) ?? (isGateway ? NotAvailableOnGatewayError : BY_STATUS.get(status)) ?? ApiError;
  return new Kind({
    status,
    body: envelope,
    retryAfter: parseRetryAfter(headers.get('retry-after'), Date.now()),
    requestId: headers.get('x-request-id') ?? undefined,
  });
}

/** The seconds that a Retry-After header names (RFC 9110 10.2.3), as a number or a date; undefined if it is malformed. */
export function parseRetryAfter(value: string | null, nowMs: number): number | undefined {
  const text = value?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const date = /^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, (date - nowMs) / 1000);
}
