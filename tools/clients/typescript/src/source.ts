/**
 * The content of an upload, as bytes that can be read at an offset.
 *
 * Bytes, blobs and files are read again from any offset. A stream keeps the last part that was read: after a broken connection, the
 * server has at least everything before that part.
 */

import { UploadError } from './errors.js';

/** A content that can be read at any offset. `openFile` of `mailprobe/node` makes one from a path. */
export interface Source {
  /** undefined if it is not known. */
  readonly size: number | undefined;
  /** The next bytes from an offset: `length` bytes, or fewer at the end. */
  readAt(offset: number, length: number): Promise<Uint8Array>;
}

/** What can be uploaded. */
export type Content = Uint8Array | Blob | Source | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** The source of a content. `size` is the size of a stream, if it is known. */
export function sourceOf(content: Content, size?: number): Source {
  if (content instanceof Uint8Array) return new BytesSource(content);
  if (content instanceof Blob) return new BlobSource(content);
  if ('readAt' in content) return content;
  if ('getReader' in content) return new StreamSource(chunksOf(content), size);
  if (typeof content === 'object' && Symbol.asyncIterator in content) return new StreamSource(content[Symbol.asyncIterator](), size);
  throw new TypeError('the content has to be bytes, a Blob, a stream of bytes, or a Source; a text is not accepted');
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

async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    reader.releaseLock();
  }
}

class StreamSource implements Source {
  /** The bytes from `keptAt` on. */
  private kept: Uint8Array = new Uint8Array(0);
  private keptAt = 0;
  private isEnded = false;

  constructor(private readonly chunks: AsyncIterator<Uint8Array>, readonly size: number | undefined) {}

  async readAt(offset: number, length: number): Promise<Uint8Array> {
    if (offset < this.keptAt) throw new UploadError('the server asks for bytes of the stream that were read long ago');
    while (offset > this.keptAt + this.kept.length) {
      this.drop(this.kept.length);
      await this.fill(1);
      if (this.kept.length === 0) throw new UploadError('the server has more bytes than the stream');
    }
    this.drop(offset - this.keptAt);
    await this.fill(length);
    return this.kept.subarray(0, length);
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
