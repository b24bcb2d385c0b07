/** When a request is sent again, and after how long. Pure: randomness is a parameter, and the caller sleeps. */

import { ApiError, IdempotencyInProgressError, TransportError } from './errors.js';

/**
 * How often a request is sent again, and the waits in between. The wait doubles from `firstWaitMs` to `longestWaitMs`, and is then drawn
 * from its upper half. A Retry-After of the server replaces a shorter wait. If it is longer than `retryAfterMaxMs`, the error is thrown
 * at once.
 */
export interface Retries {
  /** The number of repetitions after the first attempt; 0: none. */
  repetitions: number;
  firstWaitMs: number;
  longestWaitMs: number;
  retryAfterMaxMs: number;
}

/** The limits of the API count requests in windows of 60 seconds. */
export const RETRIES: Retries = { repetitions: 4, firstWaitMs: 500, longestWaitMs: 30_000, retryAfterMaxMs: 120_000 };

/** The statuses of answers that mean "later": too slow, rate limit, and faults of the server or of a proxy before it. */
const LATER = [408, 429, 502, 503, 504];
/** A rate limit refuses a request before the server does anything. */
const REFUSED_UNDONE = 429;
/** Clients that wait for the same second would come back at once. So each adds up to this share of Retry-After. */
const SPREAD = 0.1;

/**
 * The milliseconds before the next attempt after `done` repetitions; undefined if there is no next attempt. `repeatable` means that the request
 * may arrive twice without harm. `random` returns a number from 0 to 1.
 */
export function waitMs(
  retries: Retries, done: number, error: unknown, repeatable: boolean, random: () => number,
): number | undefined {
  if (done >= retries.repetitions || !mayRepeat(error, repeatable)) return undefined;
  const wait = Math.min(retries.longestWaitMs, retries.firstWaitMs * 2 ** Math.min(done, 30)) * (0.5 + random() / 2);
  const named = error instanceof ApiError && error.retryAfter !== undefined ? error.retryAfter * 1000 : undefined;
  if (named === undefined) return wait;
  return named > retries.retryAfterMaxMs ? undefined : Math.max(wait, named * (1 + SPREAD * random()));
}

/** Whether a request that failed in this way can be repeated. */
export function mayRepeat(error: unknown, repeatable: boolean): boolean {
  if (error instanceof TransportError) return repeatable || !error.sent;
  if (error instanceof IdempotencyInProgressError) return repeatable;
  return error instanceof ApiError && LATER.includes(error.status) && (repeatable || error.status === REFUSED_UNDONE);
}

/** Counts the failed attempts of one request. */
export class Attempts {
  private done = 0;

  constructor(private readonly retries: Retries) {}

  /** Counts a failed attempt. The result is the milliseconds before the next one; undefined if the error is final. */
  nextWaitMs(error: unknown, repeatable: boolean): number | undefined {
    const wait = waitMs(this.retries, this.done, error, repeatable, Math.random);
    this.done += 1;
    return wait;
  }

  /** Forgets the failures, because the server has accepted a part. */
  onProgress(): void {
    this.done = 0;
  }
}
