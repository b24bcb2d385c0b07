import { given, idempotency, objectWith, pageOf, segment, type Call } from './calls.js';
import type { Batch, BatchCreated, ResultRow } from './models.js';
import { poll, type WaitOptions } from './polling.js';
import type { PageOptions, RequestOptions, Transport } from './transport.js';

/** The largest number of addresses in a batch. */
export const BATCH_EMAILS_MAX = 200;

/** The name of a new batch, and the key that makes its creation repeatable. */
export interface BatchOptions extends RequestOptions {
  name?: string;
  /**
   * Without a key, the client makes one. All retries of the call send the same key, so they start one batch. If the call fails,
   * `error.idempotencyKey` is the key: pass it to the next call, or the next call may start a second batch.
   */
  idempotencyKey?: string;
}

const batchOf = objectWith<Batch>({ batch_id: 'string', status: 'string', total: 'number', checked: 'number' });

/** Batches: up to 200 addresses in one request. */
export class Batches {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts a batch. It costs one credit for each address. */
  async create(emails: readonly string[], { name, idempotencyKey, signal }: BatchOptions = {}): Promise<BatchCreated> {
    const call: Call<BatchCreated> = {
      method: 'POST',
      path: '/v1/verify/batch',
      parse: objectWith<BatchCreated>({ batch_id: 'string', emails_submitted: 'number', status: 'string' }),
      json: given({ emails, name }),
      headers: idempotency(idempotencyKey),
      repeatable: true,
    };
    return this.#transport.call(call, { signal });
  }

  /** The state of a batch. A batch that has ended has its results. */
  async get(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    const call: Call<Batch> = { method: 'GET', path: path(batchId), parse: batchOf, repeatable: true };
    return this.#transport.call(call, options);
  }

  /** Polls until the batch is completed or cancelled. */
  async wait(batchId: string, options: WaitOptions = {}): Promise<Batch> {
    return poll(`the batch ${batchId}`, options, () => this.get(batchId, options), ({ status }) => status !== 'processing');
  }

  /** Waits for the end of a batch, and iterates over its rows in the order of the addresses. */
  async *results(batchId: string, options: WaitOptions = {}): AsyncGenerator<ResultRow, void, undefined> {
    yield* (await this.wait(batchId, options)).results ?? [];
  }

  /** Iterates over the batches of the account without their results, the newest first. */
  list(options: PageOptions = {}): AsyncGenerator<Batch, void, undefined> {
    return this.#transport.pages('/v1/verify/batch', pageOf('batches', batchOf), options);
  }

  /** Ends a batch. Addresses that were not asked yet are refunded, and are `unverifiable`. */
  async cancel(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    const call: Call<Batch> = { method: 'POST', path: `${path(batchId)}/cancel`, parse: batchOf, repeatable: true };
    return this.#transport.call(call, options);
  }
}

function path(batchId: string): string {
  return `/v1/verify/batch/${segment(batchId)}`;
}
