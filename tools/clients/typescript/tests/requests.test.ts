/** Single requests to the scripted server: retries, keys, errors, and answers that break the contract. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { beforeEach, test } from 'node:test';
import { inspect } from 'node:util';
import * as mailprobe from 'mailprobe';
import { parseRetryAfter } from '../dist/failures.js';
import { waitMs } from '../dist/retries.js';
import { all, QUICK, scripted } from './servers.js';

const server = await scripted();
const client = server.client();
const BUSY = { error: 'temporarily_unavailable', message: 'busy' };

beforeEach(() => server.control('reset'));

test('verify sends the address in the body', async () => {
  const found = await client.verify('deliverable@example.com', { detail: true });
  assert.deepEqual([found.email, found.deliverable, found.reason], ['deliverable@example.com', true, 'mailbox_exists']);
  const [request] = await server.journal();
  assert.equal(`${request?.method} ${request?.target}`, 'POST /v1/verify');
  assert.equal(request?.body, '{"email":"deliverable@example.com","detail":"full"}');
  assert.equal(request?.headers['authorization'], 'Bearer key');
  assert.equal(request?.headers['user-agent'], `mailprobe-typescript/${mailprobe.VERSION}`);
});

test('fast checks and the account', async () => {
  const found = await client.verify('someone@example.com', { mode: 'fast' });
  assert.deepEqual([found.deliverable, found.reason, found.mode, found.checks?.mx], [null, 'fast_check_passed', 'fast', true]);
  assert.equal((await client.account()).credits_remaining, 100);
});

for (const status of [408, 429, 502, 503, 504]) {
  test(`a check is repeated after ${status}`, async () => {
    await server.fault('POST', '/v1/verify', { status, body: BUSY, times: 2 });
    assert.equal((await client.verify('deliverable@example.com')).deliverable, true);
    assert.equal((await server.journal()).length, 3);
  });
}

for (const fault of [{ lose: true }, { reset_after: 5 }, { truncate: true }]) {
  test(`a check survives a broken connection: ${JSON.stringify(fault)}`, async () => {
    await server.fault('POST', '/v1/verify', fault);
    assert.equal((await client.verify('deliverable@example.com')).deliverable, true);
    assert.equal((await server.journal()).length, 2);
  });
}

test('repetitions end', async () => {
  await server.fault('GET', '/v1/account', { status: 503, body: BUSY, times: 100 });
  await assert.rejects(client.account(), mailprobe.TemporarilyUnavailableError);
  assert.equal((await server.journal()).length, 1 + (QUICK.repetitions ?? 0));
});

test('Retry-After is honoured', async () => {
  await server.fault('GET', '/v1/account', { status: 429, headers: { 'Retry-After': '1' }, body: { error: 'rate_limited', message: '' } });
  const begin = performance.now();
  await client.account();
  const waited = performance.now() - begin;
  assert.ok(waited >= 990 && waited < 3000, `${waited}`);
});

test('a long Retry-After is an error at once', async () => {
  const body = { error: 'rate_limited', message: 'slow down' };
  await server.fault('GET', '/v1/account', { status: 429, headers: { 'Retry-After': '3600' }, body });
  await assert.rejects(client.account(), (error) => {
    assert.ok(error instanceof mailprobe.RateLimitedError);
    assert.deepEqual([error.retryAfter, error.message, error.requestId], [3600, '429 rate_limited: slow down', 'req-1']);
    return true;
  });
  assert.equal((await server.journal()).length, 1);
});

test('there is no repetition without a key', async () => {
  await server.fault('POST', '/v1/webhooks', { lose: true });
  await assert.rejects(client.webhooks.create('https://example.com/hook'), mailprobe.TransportError);
  await server.fault('POST', '/v1/webhooks', { status: 503, body: BUSY });
  await assert.rejects(client.webhooks.create('https://example.com/hook'), mailprobe.UnavailableError);
  assert.equal((await server.journal()).length, 2);
});

test('a rate limit does nothing, so every request is repeated', async () => {
  await server.fault('POST', '/v1/webhooks', { status: 429, body: { error: 'rate_limited', message: '' } });
  assert.match((await client.webhooks.create('https://example.com/hook')).secret ?? '', /^whsec_/);
  assert.equal((await client.webhooks.list()).length, 1);
});

test('nothing was sent, so every request is repeated', async () => {
  const nowhere = server.client({ baseUrl: 'http://127.0.0.1:2', retries: { repetitions: 1, firstWaitMs: 300 } });
  const begin = performance.now();
  await assert.rejects(nowhere.webhooks.create('https://example.com/hook'), (error) => {
    return error instanceof mailprobe.TransportError && !error.sent;
  });
  assert.ok(performance.now() - begin >= 145);
});

test('property: all attempts of one call have the same Idempotency-Key, and no two calls have the same', async () => {
  const keys = new Set<string | undefined>();
  const faults: [object | undefined, number][] = [
    [undefined, 1], [{ status: 503, body: BUSY, times: 3 }, 4], [{ lose: true, times: 2 }, 3],
  ];
  for (const [fault, attempts] of faults) {
    if (fault) await server.fault('POST', '/v1/verify/batch', fault);
    const before = (await server.journal()).length;
    await client.batches.create(['deliverable@example.com']);
    const sent = (await server.journal()).slice(before).map((request) => request.headers['idempotency-key']);
    assert.equal(sent.length, attempts);
    assert.equal(new Set(sent).size, 1);
    keys.add(sent[0]);
  }
  assert.equal(keys.size, faults.length);
  assert.equal((await all(client.batches.list())).length, 3);
});

test('the key of the caller', async () => {
  const options = { idempotencyKey: 'order-1' };
  const first = await client.batches.create(['deliverable@example.com'], options);
  assert.equal((await client.batches.create(['deliverable@example.com'], options)).batch_id, first.batch_id);
  await assert.rejects(client.batches.create(['role@example.com'], options), mailprobe.IdempotencyKeyReusedError);
  for (const idempotencyKey of ['', 'a b', 'ä', 'x'.repeat(256)]) {
    await assert.rejects(client.batches.create(['role@example.com'], { idempotencyKey }), TypeError);
  }
});

for (const fault of [{ lose: true }, { truncate: true }, { status: 503, body: BUSY }, { status: 200, body: '{' }]) {
  test(`an error has the key that the client has made, so a repetition makes nothing new: ${JSON.stringify(fault)}`, async () => {
    const content = new TextEncoder().encode('deliverable@example.com\n');
    const creations: [string, (options?: { idempotencyKey: string }) => Promise<unknown>][] = [
      ['/v1/verify/batch', (options) => client.batches.create(['deliverable@example.com'], options)],
      ['/v1/lists', (options) => client.lists.upload(content, options)],
    ];
    for (const [path, create] of creations) {
      await server.fault('POST', path, { ...fault, times: 1 + (QUICK.repetitions ?? 0) });
      const error = await create().catch((error: unknown) => error);
      assert.ok(error instanceof mailprobe.MailprobeError && error.idempotencyKey !== undefined, String(error));
      await server.control('end-faults');
      await create({ idempotencyKey: error.idempotencyKey });
      const seen = (await server.journal()).filter((request) => request.target === path);
      assert.deepEqual([...new Set(seen.map((request) => request.headers['idempotency-key']))], [error.idempotencyKey]);
    }
    assert.deepEqual([(await all(client.batches.list())).length, (await all(client.lists.list())).length], [1, 1]);
  });
}

test('an error of a request without a key', async () => {
  await server.fault('GET', '/v1/account', { lose: true, times: 99 });
  await assert.rejects(client.account(), (error) => error instanceof mailprobe.TransportError && !('idempotencyKey' in error));
});

test('a key in progress is repeated', async () => {
  await server.fault('POST', '/v1/verify/batch', { status: 409, body: { error: 'idempotency_in_progress', message: 'wait' } });
  assert.equal((await client.batches.create(['deliverable@example.com'])).emails_submitted, 1);
});

test('a delete whose answer was lost', async () => {
  const made = await client.webhooks.create('https://example.com/hook');
  await server.fault('DELETE', '/v1/webhooks', { lose: true });
  await client.webhooks.delete(made.webhook_id);
  await assert.rejects(client.webhooks.delete(made.webhook_id), mailprobe.NotFoundError);
});

const ERRORS: [number, string, new (...parts: never[]) => mailprobe.ApiError][] = [
  [400, 'invalid_request', mailprobe.InvalidRequestError],
  [400, 'invalid_emails', mailprobe.InvalidEmailsError],
  [401, 'missing_api_key', mailprobe.MissingApiKeyError],
  [401, 'invalid_api_key', mailprobe.InvalidApiKeyError],
  [401, 'api_key_revoked', mailprobe.ApiKeyRevokedError],
  [402, 'insufficient_credits', mailprobe.InsufficientCreditsError],
  [402, 'subscription_inactive', mailprobe.SubscriptionInactiveError],
  [403, 'insufficient_scope', mailprobe.InsufficientScopeError],
  [403, 'plan_not_allowed', mailprobe.PlanNotAllowedError],
  [403, 'live_key_required', mailprobe.LiveKeyRequiredError],
  [403, 'not_available_on_market', mailprobe.NotAvailableOnGatewayError],
  [404, 'not_found', mailprobe.NotFoundError],
  [409, 'something_new', mailprobe.ConflictError],
  [409, 'invalid_state', mailprobe.InvalidStateError],
  [409, 'offset_mismatch', mailprobe.OffsetMismatchError],
  [413, 'request_too_large', mailprobe.RequestTooLargeError],
  [418, 'something_new', mailprobe.ApiError],
  [422, 'idempotency_key_reused', mailprobe.IdempotencyKeyReusedError],
  [500, 'internal_error', mailprobe.InternalServerError],
  [503, 'provider_unavailable', mailprobe.ProviderUnavailableError],
];

for (const [status, code, Kind] of ERRORS) {
  test(`${status} ${code} has the class ${Kind.name}`, async () => {
    await server.fault('GET', '/v1/account', { status, body: { error: code, message: 'no', credits_remaining: 3 } });
    await assert.rejects(server.client({ retries: { repetitions: 0 } }).account(), (error) => {
      assert.ok(error instanceof mailprobe.ApiError);
      assert.equal(error.constructor, Kind);
      assert.deepEqual([error.status, error.code, error.name], [status, code, Kind.name]);
      if (error instanceof mailprobe.PaymentRequiredError) assert.equal(error.creditsRemaining, 3);
      return true;
    });
  });
}

test('invalid addresses are named', async () => {
  await assert.rejects(client.batches.create(['deliverable@example.com', 'nobody']), (error) => {
    assert.ok(error instanceof mailprobe.InvalidEmailsError);
    assert.deepEqual([error.invalid, error.invalidCount], [[{ index: 1, email: 'nobody' }], 1]);
    return true;
  });
});

test('the page of a proxy is an error without a code', async () => {
  await server.fault('GET', '/v1/account', { status: 503, body: '<html>', headers: { 'content-type': 'text/html' }, times: 9 });
  await assert.rejects(client.account(), (error) => error instanceof mailprobe.UnavailableError && error.code === '');
});

test('a redirect is not followed', async () => {
  await server.fault('GET', '/v1/account', { status: 308, headers: { Location: `${server.url}/v1/elsewhere` } });
  await assert.rejects(client.account(), (error) => error instanceof mailprobe.UnexpectedAnswerError && /redirects/.test(error.message));
  assert.equal((await server.journal()).length, 1);
});

for (const body of ['', '{', '[]', 'null', '"text"', '{"plan": 1}', '{"plan": "free"}']) {
  test(`wrong JSON: ${body}`, async () => {
    await server.fault('GET', '/v1/account', { status: 200, body });
    await assert.rejects(client.account(), mailprobe.UnexpectedAnswerError);
    assert.equal((await server.journal()).length, 1);
  });
}

test('a slow server', async () => {
  await server.fault('POST', '/v1/verify', { delay_s: 1 });
  assert.equal((await server.client({ timeoutMs: 200 }).verify('role@example.com')).reason, 'role_account');
  await server.fault('POST', '/v1/verify', { delay_s: 1 });
  const impatient = server.client({ timeoutMs: 200, retries: { repetitions: 0 } });
  await assert.rejects(impatient.verify('role@example.com'), mailprobe.TransportTimeoutError);
});

test('a signal ends a request, a wait between attempts, and a poll', async () => {
  await server.fault('POST', '/v1/verify', { delay_s: 2 });
  await assert.rejects(client.verify('role@example.com', { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  await server.fault('GET', '/v1/account', { status: 429, headers: { 'Retry-After': '60' }, body: {} });
  await assert.rejects(client.account({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  const reason = new Error('enough');
  await assert.rejects(client.account({ signal: AbortSignal.abort(reason) }), reason);
  const { batch_id } = await client.batches.create(['role@example.com']);
  await assert.rejects(client.batches.wait(batch_id, { signal: AbortSignal.timeout(50), intervalMs: 10_000 }), { name: 'TimeoutError' });
});

test('the key stays secret', () => {
  const secret = server.client({ apiKey: 'very-secret' });
  assert.ok(!inspect(secret, { depth: 9, showHidden: true }).includes('very-secret'));
  assert.ok(!JSON.stringify(secret).includes('very-secret'));
  assert.throws(() => server.client({ apiKey: 'very secret' }), (error) => error instanceof TypeError && !error.message.includes('very'));
});

test('a browser gets a warning', (t) => {
  const warn = t.mock.method(console, 'warn', () => undefined);
  Object.assign(globalThis, { window: { document: {} } });
  server.client();
  Reflect.deleteProperty(globalThis, 'window');
  assert.match(String(warn.mock.calls[0]?.arguments[0]), /Keep keys on a server/);
  server.client();
  assert.equal(warn.mock.callCount(), 1);
});

for (const baseUrl of ['', 'example.com', 'ftp://example.com', 'https://', 'https://u:p@example.com', 'https://a.example/?b']) {
  test(`bad base URL: ${baseUrl}`, () => {
    assert.throws(() => server.client({ baseUrl }), TypeError);
  });
}

test('ids are one segment of the path', async () => {
  await assert.rejects(client.batches.get('../account?x'), mailprobe.NotFoundError);
  assert.equal((await server.journal())[0]?.target, '/v1/verify/batch/..%2Faccount%3Fx');
  for (const bad of ['', '.', '..']) await assert.rejects(client.lists.get(bad), TypeError);
});

test('Retry-After', () => {
  const now = Date.parse('2026-11-25T12:00:00Z');
  const rows: [string | null, number | undefined][] = [
    ['0', 0], [' 7 ', 7], ['Wed, 25 Nov 2026 12:00:30 GMT', 30], ['Wed, 25 Nov 2026 11:00:00 GMT', 0],
    ['-1', undefined], ['1.5', undefined], ['soon', undefined], ['', undefined], ['9'.repeat(20), undefined], [null, undefined],
  ];
  for (const [value, expected] of rows) assert.equal(parseRetryAfter(value, now), expected, String(value));
});

test('waits double, with jitter', () => {
  const retries = { repetitions: 9, firstWaitMs: 1, longestWaitMs: 10, retryAfterMaxMs: 100 };
  const error = new mailprobe.TransportError('broken');
  const waits = [...Array(10).keys()].map((done) => waitMs(retries, done, error, true, () => 1));
  assert.deepEqual(waits, [1, 2, 4, 8, 10, 10, 10, 10, 10, undefined]);
  assert.equal(waitMs(retries, 1, error, true, () => 0), 1);
  assert.equal(waitMs(retries, 0, error, false, () => 0), undefined);
  assert.equal(waitMs(retries, 0, new mailprobe.TransportError('x', { sent: false }), false, () => 1), 1);
});

test('the version is that of package.json', async () => {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  assert.equal(mailprobe.VERSION, (JSON.parse(text) as { version: string }).version);
});
