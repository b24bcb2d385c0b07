/** How long `wait` pauses between two requests. */

import { WaitTimeoutError } from './errors.js';
import { sleep, type RequestOptions } from './transport.js';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
const GROWTH = 1.5;

/** The limits of a wait. */
export interface WaitOptions extends RequestOptions {
  /** The longest wait. Then WaitTimeoutError is thrown. */
  timeoutMs?: number | undefined;
  /** The pause between two polls. The default begins with half a second and ends with five. */
  intervalMs?: number | undefined;
}

/** Asks until the answer is the wanted one. */
export async function poll<T>(
  what: string, { timeoutMs, intervalMs, signal }: WaitOptions, ask: () => Promise<T>, isEnd: (found: T) => boolean,
): Promise<T> {
  const deadline = timeoutMs === undefined ? Infinity : performance.now() + timeoutMs;
  let pause = intervalMs ?? FIRST_PAUSE_MS;
  for (;;) {
    const found = await ask();
    if (isEnd(found)) return found;
    const left = deadline - performance.now();
    if (left <= 0) throw new WaitTimeoutError(`${what} did not end in time; it continues on the server`);
    await sleep(Math.min(pause, left), signal);
    if (intervalMs === undefined) pause = Math.min(LONGEST_PAUSE_MS, pause * GROWTH);
  }
}
