import { given, idempotency, isObject, nothing, objectWith, pageOf, segment, type Call } from './calls.js';
import {
  ListStoppedError, OffsetMismatchError, TransportError, UnexpectedAnswerError, UploadError, UploadInterruptedError,
} from './errors.js';
import type { ListRow, MailList, ResultClass, ResultsFormat } from './models.js';
import { poll, type WaitOptions } from './polling.js';
import { mayRepeat, type Attempts } from './retries.js';
import { setSize, withSource, type Content, type Source } from './source.js';
import { isInterruption, sleep, type PageOptions, type RequestOptions, type Transport } from './transport.js';

/** The size of a part of an upload in bytes, unless `partBytes` says otherwise. */
export const PART_BYTES = 8 << 20;
/** More than a row of a list has. */
const LINE_CHARS_MAX = 16 << 20;

/** How an upload in parts is sent and reported. */
export interface PartOptions extends RequestOptions {
  /** The size of a part in bytes. Default: 8 MiB. */
  partBytes?: number;
  /** Gets the number of acknowledged bytes, and the size if it is known. */
  onProgress?: (offset: number, size: number | undefined) => void;
}

/** The name and columns of a new list, and how it is sent. */
export interface UploadOptions extends PartOptions {
  name?: string;
  /** The column of the addresses. Without it, the server finds the column. */
  column?: string;
  /** Whether the first row is a header. Without it, the server finds the header. */
  header?: boolean;
  /** The size of a stream in bytes. Bytes, blobs and files know their size. */
  size?: number;
  /** Whether the content is sent in parts. The default sends parts if the content is larger than one. */
  inParts?: boolean;
  /** As for batches: without a key, the client makes one, and an error has it. */
  idempotencyKey?: string;
}

/** The choice of rows of results. */
export interface ResultsOptions extends RequestOptions {
  /** Selects classes of verdicts. */
  classes?: readonly ResultClass[];
  /** Whether each row also has `rule`, `scope`, `reply_code`, `enhanced_code` and `checked_at`. */
  evidence?: boolean;
}

/** The choice of rows and of the format of a download. */
export interface DownloadOptions extends ResultsOptions {
  /** Default: `csv`. */
  format?: ResultsFormat;
}

const listOf = objectWith<MailList>({ list_id: 'string', status: 'string' });

/** Lists: files of any length. */
export class Lists {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Uploads a list: bytes, a Blob, a stream, or a file that `openFile` of `mailprobe/node` has opened. It is not charged before `start`.
   * After a broken connection, an upload in parts continues where it stopped. If that fails too, UploadInterruptedError is thrown.
   * The upload ends a stream, also after a failure. UploadError is thrown before the last part if a stream is longer than its `size`.
   */
  async upload(content: Content, options: UploadOptions = {}): Promise<MailList> {
    return withSource(content, (source) => {
      setSize(source, options.size);
      return this.#upload(source, options);
    });
  }

  async #upload(source: Source, options: UploadOptions): Promise<MailList> {
    const { size } = source;
    if (size === undefined) throw new TypeError('the upload of a stream needs its `size`');
    const { partBytes = PART_BYTES, inParts = size > partBytes, name, column, header } = options;
    // The server refuses an upload of no parts.
    if (!inParts || size === 0) return this.#uploadWhole(source, size, options);
    const call = creation(options, { json: given({ name, column, header, bytes: size }) });
    return this.#sendParts(await this.#transport.call(call, options), source, options);
  }

  /** Continues an upload in parts, also one that another process began. `content` is the whole content, from its start. */
  async resumeUpload(listId: string, content: Content, options: PartOptions = {}): Promise<MailList> {
    return withSource(content, async (source) => {
      const begun = await this.get(listId, options);
      setSize(source, begun.bytes ?? undefined);
      if (begun.status === 'uploading' && source.size !== begun.bytes) {
        throw new UploadError('the content has another size than the upload has announced');
      }
      return this.#sendParts(begun, source, options);
    });
  }

  async #uploadWhole(source: Source, size: number, options: UploadOptions): Promise<MailList> {
    const { name, column, header, signal, onProgress } = options;
    const headerField = header === undefined ? {} : { header: String(header) };
    const query = Object.entries(given({ name, column, ...headerField }));
    const call = creation(options, { query, content: await read(source, 0, size) });
    const uploaded = await this.#transport.call(call, { signal });
    onProgress?.(uploaded.offset ?? size, size);
    return uploaded;
  }

  /** Sends parts until the server has the whole content. */
  async #sendParts(begun: MailList, source: Source, options: PartOptions): Promise<MailList> {
    const attempts = this.#transport.attempts();
    let state = begun;
    let offset = begun.offset ?? 0;
    while (state.status === 'uploading') {
      let isComplete = false;
      try {
        [state, isComplete] = await this.#sendPart(state.list_id, offset, source, options);
      } catch (error) {
        if (error instanceof OffsetMismatchError && error.offset !== undefined) {
          // The server names the right offset, so there is nothing to ask. A mismatch without progress counts as a failure.
          if (attempts.nextWaitMs(new TransportError('mismatch'), true) === undefined) throw error;
          offset = error.offset;
          continue;
        }
        state = await this.#afterFailure(error, state.list_id, offset, attempts, options);
      }
      const reached = state.offset ?? offset;
      if (reached > offset) attempts.onProgress();
      offset = reached;
      options.onProgress?.(offset, source.size);
      if (isComplete) return state;
    }
    return state;
  }

  /** Sends one part. The result is the list, and whether the server has the last part. */
  async #sendPart(
    listId: string, offset: number, source: Source, { partBytes = PART_BYTES, signal }: PartOptions,
  ): Promise<[MailList, boolean]> {
    const size = source.size ?? 0;
    const part = await read(source, offset, Math.max(0, Math.min(partBytes, size - offset)));
    const isLast = offset + part.length >= size;
    const state = await this.#transport.once<MailList>({
      // Not repeatable: after a failure, the upload first asks for the offset.
      method: 'PATCH',
      path: path(listId),
      parse: listOf,
      content: part,
      headers: { 'upload-offset': String(offset), ...(isLast ? { 'upload-complete': '?1' } : {}) },
    }, { signal });
    if (!isLast && (state.offset ?? 0) <= offset) {
      throw new UnexpectedAnswerError('the server has acknowledged a part, and its offset does not advance');
    }
    return [state, isLast];
  }

  /** Waits, and asks the server how much it has. */
  async #afterFailure(
    error: unknown, listId: string, offset: number, attempts: Attempts, { signal }: RequestOptions,
  ): Promise<MailList> {
    // Nothing is sent twice, because the offset is asked first.
    const interrupted = (cause: unknown): unknown => (mayRepeat(cause, true) ? new UploadInterruptedError(listId, offset, { cause }) : cause);
    const wait = attempts.nextWaitMs(error, true);
    if (wait === undefined) throw interrupted(error);
    await sleep(wait, signal);
    try {
      return await this.get(listId, { signal });
    } catch (failure) {
      throw interrupted(failure);
    }
  }

  /** The present state of a list: its progress, price and cause of a stop. */
  async get(listId: string, options: RequestOptions = {}): Promise<MailList> {
    return this.#transport.call({ method: 'GET', path: path(listId), parse: listOf, repeatable: true }, options);
  }

  /** Iterates over the lists of the account, the newest first. */
  list(options: PageOptions = {}): AsyncGenerator<MailList, void, undefined> {
    return this.#transport.pages('/v1/lists', pageOf('lists', listOf), options);
  }

  /** Starts the check of a list that is `ready`, or continues one that is `paused`. It is charged while it runs. */
  async start(listId: string, options: RequestOptions = {}): Promise<MailList> {
    return this.#transport.call({ method: 'POST', path: `${path(listId)}/start`, parse: listOf, repeatable: true }, options);
  }

  /** Ends a list. Rows that were not asked are refunded, and the results so far can be read. */
  async cancel(listId: string, options: RequestOptions = {}): Promise<MailList> {
    return this.#transport.call({ method: 'POST', path: `${path(listId)}/cancel`, parse: listOf, repeatable: true }, options);
  }

  /** Deletes a list with its content and its results. */
  async delete(listId: string, options: RequestOptions = {}): Promise<void> {
    const call: Call<void> = { method: 'DELETE', path: path(listId), parse: nothing, repeatable: true, deletes: true };
    return this.#transport.call(call, options);
  }

  /**
   * Polls until the server has read the list (`until: 'ready'`), or until the list is completed or cancelled. Throws ListStoppedError if
   * the list is `unfit`, or `paused` while its end is awaited.
   */
  async wait(listId: string, options: WaitOptions & { until?: 'ready' | 'ended' } = {}): Promise<MailList> {
    const ends: string[] = ['completed', 'cancelled', ...(options.until === 'ready' ? ['ready', 'running', 'paused'] : [])];
    return poll(`the list ${listId}`, options, () => this.get(listId, options), (found) => {
      if (ends.includes(found.status)) return true;
      if (found.status === 'unfit' || found.status === 'paused') throw new ListStoppedError(found);
      return false;
    });
  }

  /**
   * Iterates over the rows of a list, each with `deliverable` and `reason`. The answer is streamed, so memory is small. If the
   * connection breaks after the first row, TransportError is thrown.
   */
  async *results(listId: string, options: ResultsOptions = {}): AsyncGenerator<ListRow, void, undefined> {
    const decoder = new TextDecoder('utf-8');
    let rest = '';
    for await (const piece of this.download(listId, { ...options, format: 'jsonl' })) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > LINE_CHARS_MAX) throw new UnexpectedAnswerError('a row of the results is too long');
      for (const line of lines) if (line.trim()) yield row(line);
    }
    rest += decoder.decode();
    if (rest.trim()) yield row(rest);
  }

  /**
   * The bytes of the results of a list. A failure before the first byte is repeated. A later one throws TransportError, so a loop that
   * ends without an error has read the whole content.
   */
  async *download(
    listId: string, { format = 'csv', classes = [], evidence = false, signal }: DownloadOptions = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const query: [string, string][] = [['format', format], ...classes.map((name): [string, string] => ['class', name])];
    if (evidence) query.push(['evidence', 'true']);
    const call: Call<void> = { method: 'GET', path: `${path(listId)}/results`, parse: nothing, query };
    const attempts = this.#transport.attempts();
    for (let isBegun = false; ; ) {
      try {
        for await (const piece of this.#transport.stream(call, { signal })) {
          isBegun = true;
          yield piece;
        }
        return;
      } catch (error) {
        const wait = isInterruption(error) && !isBegun ? attempts.nextWaitMs(error, true) : undefined;
        if (wait === undefined) throw error;
        await sleep(wait, signal);
      }
    }
  }
}

function path(listId: string): string {
  return `/v1/lists/${segment(listId)}`;
}

function creation({ idempotencyKey }: UploadOptions, more: Partial<Call<MailList>>): Call<MailList> {
  return { method: 'POST', path: '/v1/lists', parse: listOf, headers: idempotency(idempotencyKey), repeatable: true, ...more };
}

async function read(source: Source, offset: number, length: number): Promise<Uint8Array> {
  const part = await source.readAt(offset, length);
  if (part.length < length) throw new UploadError('the file became shorter during the upload');
  return part;
}

function row(line: string): ListRow {
  let found: unknown;
  try {
    found = JSON.parse(line);
  } catch (error) {
    throw new UnexpectedAnswerError('a row of the results is not JSON', { cause: error });
  }
  if (!isObject(found)) throw new UnexpectedAnswerError('a row of the results is not an object');
  return found as ListRow;
}
