/** Files of Node, for lists: `import { openFile, saveResults } from 'mailprobe/node'`. */

import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import type { DownloadOptions, Lists } from './lists.js';
import { TransportError } from './errors.js';
import type { Source } from './source.js';

/** How often a download to a path begins again after a broken connection. */
const DOWNLOADS_MAX = 5;

/** An open file as the content of an upload. Close it afterwards. */
export interface FileSource extends Source {
  close(): Promise<void>;
}

/** Opens a file for an upload. Its size is that of this moment. */
export async function openFile(path: string | URL): Promise<FileSource> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    return { size, readAt: (offset, length) => readAt(file, offset, length), close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** A read may return fewer bytes than there are. */
async function readAt(file: FileHandle, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let count = 0;
  while (count < length) {
    const { bytesRead } = await file.read(bytes, count, length - count, offset + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return bytes.subarray(0, count);
}

/**
 * Writes the results of a list to a path. The result is the number of bytes. The path gets the whole content or none: the content first
 * goes to a file `NAME.part` beside it. The download begins again after a broken connection.
 */
export async function saveResults(
  lists: Lists, listId: string, path: string, options: DownloadOptions = {},
): Promise<number> {
  const part = `${path}.part`;
  try {
    for (let done = 1; ; done += 1) {
      try {
        const count = await save(lists, listId, part, options);
        await rename(part, path);
        return count;
      } catch (error) {
        if (!(error instanceof TransportError) || done >= DOWNLOADS_MAX) throw error;
      }
    }
  } finally {
    await rm(part, { force: true });
  }
}

async function save(
  lists: Lists, listId: string, part: string, options: DownloadOptions,
): Promise<number> {
  const file = await open(part, 'w');
  try {
    let count = 0;
    for await (const piece of lists.download(listId, options)) {
      await file.writeFile(piece);
      count += piece.length;
    }
    return count;
  } finally {
    await file.close();
  }
}
