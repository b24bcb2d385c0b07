/** The parts of requests that several resources share. Nothing here sends anything. */

import { UnexpectedAnswerError } from './errors.js';
import { webcrypto } from '#webcrypto';

export const IDEMPOTENCY_KEY = 'idempotency-key';
export const IDEMPOTENCY_KEY_CHARS_MAX = 255;

/** One request, and the function that reads the JSON of its answer. */
export interface Call<T> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  parse: (body: unknown) => T;
  query?: [string, string][];
  json?: object;
  /** The body, if it is not JSON. */
  content?: Uint8Array;
  headers?: Record<string, string>;
  /** Whether the request may arrive twice without harm. */
  repeatable?: boolean;
  /** Whether a 404 counts as success after a repetition: an earlier request has deleted the object. */
  deletes?: boolean;
}

type FieldType = 'string' | 'number' | 'boolean' | 'object' | 'boolean or null';

/** A reader of objects that have at least these fields. */
export function objectWith<T>(fields: Partial<Record<keyof T, FieldType>>): (body: unknown) => T {
  return (body) => {
    if (!isObject(body)) throw new UnexpectedAnswerError('an object was expected');
    for (const [name, type] of Object.entries(fields) as [string, FieldType][]) {
      const value = body[name];
      const isFit = type === 'boolean or null' ? value === null || typeof value === 'boolean' : typeof value === type && value !== null;
      if (!isFit) throw new UnexpectedAnswerError(`the field \`${name}\` has to be a ${type}`);
    }
    return body as T;
  };
}

export function isObject(body: unknown): body is Record<string, unknown> {
  return typeof body === 'object' && body !== null && !Array.isArray(body);
}

/** A page of a collection, and the cursor of the next one. */
export interface Page<T> {
  items: T[];
  next: string | undefined;
}

/** A reader of pages. */
export function pageOf<T>(name: string, item: (body: unknown) => T): (body: unknown) => Page<T> {
  return (body) => {
    const items = isObject(body) ? body[name] : undefined;
    const next = isObject(body) ? (body['next'] ?? undefined) : undefined;
    if (!Array.isArray(items) || !(next === undefined || typeof next === 'string')) {
      throw new UnexpectedAnswerError(`a page with \`${name}\` and \`next\` was expected`);
    }
    return { items: items.map(item), next };
  };
}

export function nothing(): void {}

/** The query of a page. */
export function range(limit: number | undefined, after: string | undefined): [string, string][] {
  return Object.entries(given({ limit, after })).map(([name, value]) => [name, String(value)]);
}

/** The fields that are not undefined. */
export function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** An id as a segment of a path. */
export function segment(id: string): string {
  if (id === '' || id === '.' || id === '..') throw new TypeError('the id is empty');
  return encodeURIComponent(id);
}

/** The header of a call. Without a key of the caller, it has one that no other call has. */
export function idempotency(key: string | undefined): Record<string, string> {
  const chosen = key ?? hex(webcrypto.getRandomValues(new Uint8Array(16)));
  if (!/^[!-~]+$/.test(chosen) || chosen.length > IDEMPOTENCY_KEY_CHARS_MAX) {
    throw new TypeError(`an Idempotency-Key has 1 to ${IDEMPOTENCY_KEY_CHARS_MAX} visible characters of ASCII`);
  }
  return { [IDEMPOTENCY_KEY]: chosen };
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
