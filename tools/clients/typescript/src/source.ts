/**
 * The content of an upload, as bytes that can be read at an offset.
 *
 * Bytes, blobs and files are read again from any offset. A stream keeps the last part that was read: after a broken connection, the
 * server has at least everything before that part.
 */

import { UploadError } from './errors.js';

/** A content that can be read at any offset. `openFile` of `mailprobe/node` makes one from a path. */
export interface Source {
  /** The number of bytes; undefined if it is not known. */
  readonly size: number | undefined;
  /** The next bytes from an offset: `length` bytes, or fewer at the end. */
  readAt(offset: number, length: number): Promise<Uint8Array>;
}

/** What can be uploaded: bytes, a Blob, a file, or a stream of bytes, which can be read only once. */
export type Content = Uint8Array | Blob | Source | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

function sourceOf(content: Content): Source {
  if (content instanceof Uint8Array) return new BytesSource(content);
  if (content instanceof Blob) return new BlobSource(content);
  if ('readAt' in content) return content;
  if ('getReader' in content) return new StreamSource(new Chunks(content.getReader()));
  if (typeof content === 'object' && Symbol.asyncIterator in content) return new StreamSource(chunksOf(content));
  throw new TypeError('the content has to be bytes, a Blob, a stream of bytes, or a Source; a text is not accepted');
}

/** Uses a content, and then ends it if it is a stream. The caller closes a Source. */
export async function withSource<T>(content: Content, use: (source: Source) => Promise<T>): Promise<T> {
  const source = sourceOf(content);
  try {
    return await use(source);
  } finally {
    if (source instanceof StreamSource) await source.close();
  }
}

/** Tells a stream its size. All other contents know theirs. */
export function setSize(source: Source, size: number | undefined): void {
  if (source instanceof StreamSource) source.size = size;
}

class BytesSource implements Source {
  readonly size: number;

  constructor(private readonly bytes: Uint8Array) {
    this.size = bytes.length;
  }

  async readAt(offset: number, length: number): Promise<Uint8Array> {
    return this.bytes.subarray(offset, offset + length);
  }
}

class BlobSource implements Source {
  readonly size: number;

  constructor(private readonly blob: Blob) {
    this.size = blob.size;
  }

  async readAt(offset: number, length: number): Promise<Uint8Array> {
    return new Uint8Array(await this.blob.slice(offset, offset + length).arrayBuffer());
  }
}

/** Reads a stream, and cancels it at the end. The stream is locked until then. */
class Chunks implements AsyncIterator<Uint8Array> {
  constructor(private readonly reader: ReadableStreamDefaultReader<Uint8Array>) {}

  async next(): Promise<IteratorResult<Uint8Array>> {
    const { done, value } = await this.reader.read();
    return done ? { done, value: undefined } : { done, value };
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    try {
      await this.reader.cancel();
    } finally {
      this.reader.releaseLock();
    }
    return { done: true, value: undefined };
  }
}

function chunksOf(content: AsyncIterable<Uint8Array> & { destroy?: unknown }): AsyncIterator<Uint8Array> {
  const chunks = content[Symbol.asyncIterator]();
  return {
    next: () => chunks.next(),
    return: async () => {
      await chunks.return?.();
      // The iterator of a stream of Node leaves the stream open if nothing was read.
      if (typeof content.destroy === 'function') content.destroy();
      return { done: true, value: undefined };
    },
  };
}

class StreamSource implements Source {
  size: number | undefined;
  /** The bytes from `keptAt` on. */
  private kept: Uint8Array = new Uint8Array(0);
  private keptAt = 0;
  private isEnded = false;

  constructor(private readonly chunks: AsyncIterator<Uint8Array>) {}

  async readAt(offset: number, length: number): Promise<Uint8Array> {
    if (offset < this.keptAt) throw new UploadError('the server asks for bytes of the stream that were read long ago');
    while (offset > this.keptAt + this.kept.length) {
      this.drop(this.kept.length);
      await this.fill(1);
      if (this.kept.length === 0) throw new UploadError('the server has more bytes than the stream');
    }
    this.drop(offset - this.keptAt);
    // One more byte at the end tells whether the stream really ends there.
    const isLast = offset + length === this.size;
    await this.fill(isLast ? length + 1 : length);
    if (isLast && this.kept.length > length) throw new UploadError('the stream is longer than its size');
    return this.kept.subarray(0, length);
  }

  async close(): Promise<void> {
    // The upload has its result, whatever the stream does now.
    await this.chunks.return?.().catch(() => undefined);
  }

  private drop(count: number): void {
    this.kept = this.kept.subarray(count);
    this.keptAt += count;
  }

  /** Reads until it keeps `length` bytes, or the stream has ended. */
  private async fill(length: number): Promise<void> {
    const pieces = [this.kept];
    let count = this.kept.length;
    while (count < length && !this.isEnded) {
      const next = await this.chunks.next();
      if (next.done) {
        this.isEnded = true;
      } else {
        pieces.push(next.value);
        count += next.value.length;
      }
    }
    if (pieces.length > 1) this.kept = joined(pieces, count);
  }
}

/** All pieces in one array of `count` bytes. */
export function joined(pieces: readonly Uint8Array[], count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
