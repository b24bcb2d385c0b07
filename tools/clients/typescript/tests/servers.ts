/** The servers of the tests: the scripted one, and the real one if MAILPROBE_BIN_DIR names its folder. */

import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, type TestContext } from 'node:test';
import { Client, type ClientOptions, type Retries } from 'mailprobe';

/** The root of the source tree. The tests may run in a copy of their folder. */
export const ROOT = process.env['MAILPROBE_ROOT'] ?? fileURLToPath(new URL('../../../..', import.meta.url));
const FOLDER = join(ROOT, 'tools/clients/servers');

/** Many retries, and no long waits. */
export const QUICK: Partial<Retries> = { repetitions: 4, firstWaitMs: 10, longestWaitMs: 20 };

/** A request as the scripted server has seen it. */
export interface Seen {
  method: string;
  target: string;
  bytes: number;
  headers: Record<string, string>;
  body: string | null;
}

async function start(...words: string[]): Promise<[ChildProcessWithoutNullStreams, string]> {
  const child = spawn('python3', words);
  child.stderr.pipe(process.stderr);
  const first = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`${words[0]} ended with ${code}`)));
  });
  after(async () => {
    child.removeAllListeners('exit');
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.stdin.end();
    await ended;
  });
  return [child, first];
}

export class Scripted {
  constructor(readonly url: string) {}

  client(options: Partial<ClientOptions> = {}): Client {
    return new Client({ baseUrl: this.url, apiKey: 'key', retries: QUICK, timeoutMs: 20_000, ...options });
  }

  async control(path: string, body: unknown = {}): Promise<void> {
    await (await fetch(`${this.url}/control/${path}`, { method: 'POST', body: JSON.stringify(body) })).json();
  }

  async fault(method: string, path: string, fault: object): Promise<void> {
    await this.control('faults', [{ method, path, ...fault }]);
  }

  async journal(): Promise<Seen[]> {
    return (await (await fetch(`${this.url}/control/journal`)).json()) as Seen[];
  }
}

/** Starts a scripted server for the tests of one file. */
export async function scripted(): Promise<Scripted> {
  const [, line] = await start(join(FOLDER, 'scripted.py'));
  return new Scripted(line.split(' ')[1] ?? '');
}

export interface Real {
  url: string;
  live_key: string;
  test_key: string;
}

/** `mailprobe serve` with mailnet; undefined without MAILPROBE_BIN_DIR. */
export async function real(): Promise<Real | undefined> {
  const folder = process.env['MAILPROBE_BIN_DIR'];
  if (!folder) return undefined;
  const [, line] = await start(join(FOLDER, 'real.py'), folder);
  return JSON.parse(line) as Real;
}

/** Skips a test whose endpoint the server does not have yet. */
export async function isMissing(t: TestContext, server: Real, path: string): Promise<boolean> {
  const { status } = await fetch(server.url + path, { headers: { authorization: `Bearer ${server.live_key}` } });
  const missing = status === 404 || status === 405;
  if (missing) t.skip(`the server has no ${path} yet: GET ${path} is answered ${status}`);
  return missing;
}

/** All items of an iterator. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
