/** Requests over fetch: timeouts, retries, and answers as JSON or as a stream. */

import { IDEMPOTENCY_KEY, isObject, range, type Call, type Page } from './calls.js';
import { ApiError, MailprobeError, NotFoundError, TransportError, TransportTimeoutError, UnexpectedAnswerError } from './errors.js';
import { apiError } from './failures.js';
import { Attempts, type Retries } from './retries.js';
import { joined } from './source.js';
import { VERSION } from './version.js';

/** The longest answer that is read at once. Results of lists are streamed and have no limit. */
const ANSWER_BYTES_MAX = 16 << 20;
/** In bytes per millisecond. An upload that is slower than this may reach the timeout. */
const UPLOAD_RATE_MIN = 32;
/** Failures before the server can have received the request, by the codes of Node. */
const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

/** The way to end a call early. Every method that sends requests has it. */
export interface RequestOptions {
  /** Ends the call. The promise is then rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/** How a collection is read. */
export interface PageOptions extends RequestOptions {
  /** The number of items in a page. Default: that of the server. */
  limit?: number | undefined;
}

export interface TransportSettings {
  baseUrl: string;
  apiKey: string;
  timeoutMs: number;
  retries: Retries;
  fetch: typeof fetch;
}

/** An answer with a status of success, whose body is not read yet. */
interface Opened {
  answer: Response;
  timer: Timer;
}

/** The signal of one attempt. It fires at the timeout after the last event, and with the caller's signal. */
class Timer {
  readonly controller = new AbortController();
  isOver = false;
  private handle: ReturnType<typeof setTimeout> | undefined;
  private readonly onAbort = (): void => this.controller.abort(this.outer?.reason);

  constructor(private readonly ms: number, private readonly outer: AbortSignal | undefined) {
    outer?.throwIfAborted();
    outer?.addEventListener('abort', this.onAbort);
  }

  restart(extraMs = 0): void {
    clearTimeout(this.handle);
    this.handle = setTimeout(() => {
      this.isOver = true;
      this.controller.abort();
    }, this.ms + extraMs);
  }

  /** While the caller works on an answer, the network may be silent. */
  pause(): void {
    clearTimeout(this.handle);
  }

  end(): void {
    this.pause();
    this.outer?.removeEventListener('abort', this.onAbort);
  }

  /** The error of this package for a failure of fetch. */
  failure(error: unknown): unknown {
    if (error instanceof MailprobeError) return error;
    if (this.outer?.aborted) return this.outer.reason;
    if (this.isOver) return new TransportTimeoutError(`no event of the network for ${this.ms} ms`, { cause: error });
    const cause = error instanceof Error ? error.cause : undefined;
    const codes = isObject(cause) ? [cause['code'], ...errorsOf(cause).map((inner) => inner['code'])] : [];
    const sent = !codes.some((code) => NOT_SENT.includes(String(code)));
    return new TransportError(`${error}${codes[0] ? ` (${codes[0]})` : ''}`, { cause: error, sent });
  }
}

/** Node tries several addresses of a host, and gives the errors of all. */
function errorsOf(cause: Record<string, unknown>): Record<string, unknown>[] {
  return Array.isArray(cause['errors']) ? cause['errors'].filter(isObject) : [];
}

export class Transport {
  constructor(private readonly settings: TransportSettings) {}

  attempts(): Attempts {
    return new Attempts(this.settings.retries);
  }

  /** Sends a request, again if that is safe, and reads its answer. */
  async call<T>(call: Call<T>, options: RequestOptions = {}): Promise<T> {
    const attempts = this.attempts();
    for (let isAgain = false; ; isAgain = true) {
      try {
        return await this.once(call, options);
      } catch (error) {
        if (error instanceof NotFoundError && call.deletes && isAgain) return call.parse(null);
        const wait = attempts.nextWaitMs(error, call.repeatable ?? false);
        if (wait === undefined) throw error;
        await sleep(wait, options.signal);
      }
    }
  }

  /** Sends a request once. An error of this package has the Idempotency-Key of the request. */
  async once<T>(call: Call<T>, options: RequestOptions = {}): Promise<T> {
    try {
      return await this.send(call, options);
    } catch (error) {
      const key = call.headers?.[IDEMPOTENCY_KEY];
      if (error instanceof MailprobeError && key !== undefined) error.idempotencyKey = key;
      throw error;
    }
  }

  private async send<T>(call: Call<T>, { signal }: RequestOptions): Promise<T> {
    const { answer, timer } = await this.open(call, signal);
    try {
      return call.parse(answer.status === 204 ? null : parseJson(await readAll(answer, timer)));
    } catch (error) {
      throw timer.failure(error);
    } finally {
      timer.end();
    }
  }

  /** The bytes of an answer. */
  async *stream(call: Call<void>, { signal }: RequestOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const { answer, timer } = await this.open(call, signal);
    try {
      yield* chunks(answer, timer);
    } catch (error) {
      throw timer.failure(error);
    } finally {
      timer.end();
    }
  }

  /** The items of all pages. A page is requested when its first item is needed. */
  async *pages<T>(
    path: string, parse: (body: unknown) => Page<T>, { limit, signal }: PageOptions,
  ): AsyncGenerator<T, void, undefined> {
    for (let after: string | undefined; ; ) {
      const call: Call<Page<T>> = { method: 'GET', path, parse, query: range(limit, after), repeatable: true };
      const page: Page<T> = await this.call(call, { signal });
      yield* page.items;
      if (page.next === undefined) return;
      if (page.next === after) throw new UnexpectedAnswerError('the cursor of the pages does not advance');
      after = page.next;
    }
  }

  private async open(call: Call<unknown>, signal: AbortSignal | undefined): Promise<Opened> {
    const timer = new Timer(this.settings.timeoutMs, signal);
    try {
      timer.restart((call.content?.length ?? 0) / UPLOAD_RATE_MIN);
      const answer = await this.settings.fetch(this.url(call), {
        method: call.method,
        headers: this.headers(call),
        // The types exclude `SharedArrayBuffer`. These bytes never use one.
        body: call.json === undefined ? ((call.content ?? null) as BodyInit | null) : JSON.stringify(call.json),
        // The key must not go to another host.
        redirect: 'manual',
        signal: timer.controller.signal,
      });
      timer.pause();
      await check(answer, timer);
      return { answer, timer };
    } catch (error) {
      timer.end();
      throw timer.failure(error);
    }
  }

  private url(call: Call<unknown>): string {
    const query = new URLSearchParams(call.query).toString();
    return this.settings.baseUrl + call.path + (query && `?${query}`);
  }

  private headers(call: Call<unknown>): Record<string, string> {
    const kind = call.json === undefined ? 'application/octet-stream' : 'application/json';
    return {
      accept: 'application/json',
      // Browsers ignore it.
      'user-agent': `mailprobe-typescript/${VERSION}`,
      ...(call.json === undefined && call.content === undefined ? {} : { 'content-type': kind }),
      ...call.headers,
      authorization: `Bearer ${this.settings.apiKey}`,
    };
  }
}

/** Throws the error of an answer without success. */
async function check(answer: Response, timer: Timer): Promise<void> {
  if (answer.ok) return;
  if (answer.type === 'opaqueredirect' || answer.status < 400) {
    await answer.body?.cancel();
    throw new UnexpectedAnswerError(`the server redirects (${answer.status}); use its final URL`);
  }
  const bytes = await readAll(answer, timer);
  let body: unknown;
  try {
    body = parseJson(bytes);
  } catch {
    body = undefined;
  }
  throw apiError(answer.status, answer.headers, body);
}

async function readAll(answer: Response, timer: Timer): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let count = 0;
  for await (const piece of chunks(answer, timer)) {
    pieces.push(piece);
    count += piece.length;
    if (count > ANSWER_BYTES_MAX) throw new UnexpectedAnswerError('the answer is too long');
  }
  return joined(pieces, count);
}

async function* chunks(answer: Response, timer: Timer): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = answer.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      timer.restart();
      const next = await reader.read();
      timer.pause();
      if (next.done) return;
      yield next.value;
    }
  } finally {
    // Ends the connection if the caller wants no more.
    await reader.cancel().catch(() => undefined);
  }
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new UnexpectedAnswerError('the answer is not JSON', { cause: error });
  }
}

/** Waits. It ends early, by the reason of the signal. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const onAbort = (): void => {
      clearTimeout(handle);
      reject(signal?.reason);
    };
    const handle = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Whether a failed attempt of a part of an upload or of a download may be followed by another one. */
export function isInterruption(error: unknown): error is ApiError | TransportError {
  return error instanceof ApiError || error instanceof TransportError;
}
