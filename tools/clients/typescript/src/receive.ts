/** Verification of the messages that the server sends to webhooks, by Standard Webhooks (https://www.standardwebhooks.com). */

import { isObject } from './calls.js';
import { WebhookVerificationError } from './errors.js';
import type { WebhookEvent } from './models.js';
import { joined } from './source.js';
import { webcrypto } from '#webcrypto';

/** The largest difference between the time of a message and the clock, in seconds, unless the caller sets another. */
export const TOLERANCE_S = 300;

const SECRET_PREFIX = 'whsec_';
const VERSION = 'v1';

/** The tolerance and the clock of a verification. */
export interface VerifyWebhookOptions {
  /** The largest age in seconds. Default: 300. */
  toleranceSeconds?: number;
  /** The time in milliseconds since 1970. */
  now?: number;
}

/** The headers of a request: of fetch, or of `node:http`. The names ignore case. */
export type RequestHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Verifies a message and returns its event. `secrets` is the secret of the endpoint, or several while a rotation is in progress. `body`
 * is the body exactly as it arrived: JSON that was parsed and written again has another signature.
 *
 * Throws WebhookVerificationError if no signature fits, or if the message is older or newer than the tolerance.
 */
export async function verifyWebhook(
  secrets: string | readonly string[], headers: RequestHeaders, body: Uint8Array | string, options: VerifyWebhookOptions = {},
): Promise<WebhookEvent> {
  const keys = (typeof secrets === 'string' ? [secrets] : secrets).map(keyOf);
  if (keys.length === 0) throw new TypeError('at least one secret is needed');
  const content = bytesOf(body);
  const found = lowerCase(headers);
  const id = header(found, 'webhook-id');
  const timestamp = header(found, 'webhook-timestamp');
  const signatures = header(found, 'webhook-signature');
  checkTime(timestamp, (options.now ?? Date.now()) / 1000, options.toleranceSeconds ?? TOLERANCE_S);
  await checkSignature(keys, signed(id, timestamp, content), signatures);
  return event(content, id);
}

/** The headers of a message, as the server sends them. Use it to test a receiver. `timestamp` is in seconds since 1970. */
export async function signWebhook(
  secret: string, id: string, timestamp: number, body: Uint8Array | string,
): Promise<Record<string, string>> {
  const content = bytesOf(body);
  const signature = await signatureOf(keyOf(secret), signed(id, String(timestamp), content));
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': `${VERSION},${signature}` };
}

function bytesOf(text: Uint8Array | string): Uint8Array {
  return typeof text === 'string' ? new TextEncoder().encode(text) : text;
}

function keyOf(secret: string): Uint8Array {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  let key: Uint8Array;
  try {
    key = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    throw new TypeError('a secret is whsec_ and base64');
  }
  if (key.length === 0) throw new TypeError('a secret is whsec_ and base64');
  return key;
}

function lowerCase(headers: RequestHeaders): Map<string, string> {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return new Map(entries.map(([name, value]) => [name.toLowerCase(), Array.isArray(value) ? value.join(', ') : (value ?? '')]));
}

function header(headers: Map<string, string>, name: string): string {
  const value = headers.get(name);
  if (!value) throw new WebhookVerificationError(`the header ${name} is missing`);
  return value;
}

function checkTime(timestamp: string, now: number, tolerance: number): void {
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookVerificationError('the timestamp is not a number of seconds');
  const age = now - Number(timestamp);
  if (Math.abs(age) > tolerance) {
    throw new WebhookVerificationError(age > 0 ? 'the message is too old' : 'the message is from the future');
  }
}

function signed(id: string, timestamp: string, content: Uint8Array): Uint8Array {
  const head = bytesOf(`${id}.${timestamp}.`);
  return joined([head, content], head.length + content.length);
}

/** Compares each signature with that of each key. The time depends only on their numbers. */
async function checkSignature(keys: readonly Uint8Array[], message: Uint8Array, signatures: string): Promise<void> {
  const offered = signatures.split(' ').filter((part) => part.startsWith(`${VERSION},`)).map((part) => part.slice(VERSION.length + 1));
  let fits = false;
  for (const key of keys) {
    const expected = await signatureOf(key, message);
    for (const signature of offered) fits = isSame(expected, signature) || fits;
  }
  if (!fits) throw new WebhookVerificationError('no signature fits');
}

/** Compares all characters, so that the time does not tell where the first difference is. */
function isSame(expected: string, offered: string): boolean {
  let difference = expected.length ^ offered.length;
  for (let at = 0; at < expected.length; at += 1) difference |= expected.charCodeAt(at) ^ offered.charCodeAt(at);
  return difference === 0;
}

async function signatureOf(key: Uint8Array, message: Uint8Array): Promise<string> {
  // The types exclude `SharedArrayBuffer`. These bytes never use one.
  const imported = await webcrypto.subtle.importKey('raw', key as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const mac = new Uint8Array(await webcrypto.subtle.sign('HMAC', imported, message as BufferSource));
  return btoa(String.fromCharCode(...mac));
}

function event(content: Uint8Array, id: string): WebhookEvent {
  let payload: unknown;
  try {
    payload = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(content));
  } catch (error) {
    throw new WebhookVerificationError('the message is genuine, but it is not JSON', { cause: error });
  }
  if (!isObject(payload) || typeof payload['type'] !== 'string' || typeof payload['timestamp'] !== 'string') {
    throw new WebhookVerificationError('the message is genuine, but it is not an event');
  }
  return { data: {}, ...payload, id } as WebhookEvent;
}
