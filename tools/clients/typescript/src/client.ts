import { Batches } from './batches.js';
import { given, objectWith, type Call } from './calls.js';
import { Lists } from './lists.js';
import type { Account, Mode, Verification } from './models.js';
import { RETRIES, type Retries } from './retries.js';
import { Transport, type RequestOptions } from './transport.js';
import { Webhooks } from './webhooks.js';

/** A full check may wait a minute for the mail server of the recipient. */
const TIMEOUT_MS = 90_000;

/** The server, the key, and the limits of a client. */
export interface ClientOptions {
  /** The URL of the server without `/v1`. */
  baseUrl: string;
  apiKey: string;
  /** The longest wait for an event of the network, such as the next bytes of an answer. Default: 90 s. */
  timeoutMs?: number;
  /** Replaces some of the limits of repetitions. */
  retries?: Partial<Retries>;
  /** Replaces fetch, for example to use a proxy. */
  fetch?: typeof fetch;
}

/** The kind of a single check. */
export interface VerifyOptions extends RequestOptions {
  /** A full check asks the mail server of the recipient and costs one credit. A fast check is free and asks no mail server. */
  mode?: Mode;
  /** Adds the detail block to a full check. */
  detail?: boolean;
}

/** A connection to a server of mailprobe. */
export class Client {
  /** Batches of up to 200 addresses. */
  readonly batches: Batches;
  /** Lists of any length. */
  readonly lists: Lists;
  /** The endpoints that get a message when a batch or list ends. */
  readonly webhooks: Webhooks;
  // Private, so that no log of the object shows the key.
  readonly #transport: Transport;

  constructor({ baseUrl, apiKey, timeoutMs = TIMEOUT_MS, retries = {}, fetch: ownFetch }: ClientOptions) {
    if (isBrowser()) {
      console.warn('mailprobe: an API key in a browser can be read by everyone. Keep keys on a server.');
    }
    this.#transport = new Transport({
      baseUrl: plainUrl(baseUrl),
      apiKey: plainKey(apiKey),
      timeoutMs,
      retries: { ...RETRIES, ...retries },
      fetch: ownFetch ?? ((input, init) => fetch(input, init)),
    });
    this.batches = new Batches(this.#transport);
    this.lists = new Lists(this.#transport);
    this.webhooks = new Webhooks(this.#transport);
  }

  /** Checks one address. A repetition within 24 hours is free. */
  async verify(email: string, { mode = 'full', detail = false, signal }: VerifyOptions = {}): Promise<Verification> {
    const call: Call<Verification> = {
      method: 'POST',
      path: '/v1/verify',
      parse: objectWith<Verification>({ email: 'string', deliverable: 'boolean or null', reason: 'string' }),
      // The body keeps the address out of logs.
      json: given({ email, mode: mode === 'full' ? undefined : mode, detail: detail ? 'full' : undefined }),
      // A repetition within 24 hours is free, and joins a check in progress.
      repeatable: true,
    };
    return this.#transport.call(call, { signal });
  }

  /** The account of the key: plan, status and balance. */
  async account(options: RequestOptions = {}): Promise<Account> {
    const parse = objectWith<Account>({
      plan: 'string', plan_name: 'string', status: 'string', credits_remaining: 'number', credits_total: 'number',
    });
    return this.#transport.call({ method: 'GET', path: '/v1/account', parse, repeatable: true }, options);
  }
}

function isBrowser(): boolean {
  return typeof window !== 'undefined' && typeof window.document !== 'undefined';
}

function plainUrl(text: string): string {
  const url = new URL(text);
  if (!['http:', 'https:'].includes(url.protocol)) throw new TypeError('the base URL has to begin with https:// or http://');
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError('the base URL has no user name, query or fragment');
  }
  return text.replace(/\/+$/, '');
}

function plainKey(text: string): string {
  const key = text.trim();
  if (!/^[!-~]+$/.test(key)) throw new TypeError('the API key is empty or has characters that no key has');
  return key;
}
