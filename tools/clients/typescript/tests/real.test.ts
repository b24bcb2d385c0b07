/** The client and `mailprobe serve`, with the mail servers of mailnet. Needs MAILPROBE_BIN_DIR. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ApiError, Client, InvalidApiKeyError, InvalidEmailsError, InvalidRequestError, NotFoundError } from 'mailprobe';
import { BY_CODE, BY_STATUS, apiError } from '../dist/failures.js';
import { all, isMissing, real, type Real } from './servers.js';

/** The parts of /v1/openapi.json that the tests read. */
interface Description {
  components: { schemas: { ErrorCode: { description: string; enum: string[] } } };
  paths: { '/v1/lists/{list_id}/results': { get: { parameters: { schema: { enum?: string[] } }[] } } };
}

const server = await real();
const CONTENT = new TextEncoder().encode(
  'row,email\n1,alice@ok.example\n2,nobody@ok.example\n3,alice@ok.example\n4,anyone@catchall.example\n',
);

function withServer(name: string, run: (clients: { live: Client; test: Client; server: Real; t: TestContext }) => Promise<void>): void {
  test(name, { skip: server ? false : 'MAILPROBE_BIN_DIR is not set: no server to test against' }, async (t) => {
    assert.ok(server);
    const client = (apiKey: string): Client => new Client({ baseUrl: server.url, apiKey });
    await run({ live: client(server.live_key), test: client(server.test_key), server, t });
  });
}

withServer('full checks', async ({ live }) => {
  assert.equal((await live.verify('alice@ok.example')).reason, 'mailbox_exists');
  assert.equal((await live.verify('nobody@ok.example')).reason, 'mailbox_not_found');
  assert.equal((await live.verify('anyone@catchall.example')).reason, 'catch_all');
  assert.equal((await live.verify('alice@ok.example')).cached, true);
  assert.equal((await live.verify('not an address')).reason, 'invalid_syntax');
  assert.equal((await live.verify('alice@ok.example', { detail: true })).detail?.dns?.dmarc_policy, 'reject');
});

withServer('a fast check and the account', async ({ live, test: free }) => {
  const found = await free.verify('someone@gmial.com', { mode: 'fast' });
  assert.deepEqual([found.reason, found.suggestion], ['possible_typo', 'someone@gmail.com']);
  assert.equal((await live.account()).plan, 'free');
});

withServer('a batch', async ({ live }) => {
  const emails = ['bob@ok.example', 'nobody@ok.example', 'bob@ok.example'];
  const { batch_id } = await live.batches.create(emails, { name: 'from a client' });
  const rows = await all(live.batches.results(batch_id, { timeoutMs: 60_000 }));
  assert.deepEqual(rows.map((row) => row.email), emails);
  assert.deepEqual(rows.map((row) => row.reason), ['mailbox_exists', 'mailbox_not_found', 'mailbox_exists']);
});

withServer('errors', async ({ live, server }) => {
  await assert.rejects(new Client({ baseUrl: server.url, apiKey: 'mp_live_unknown' }).account(), InvalidApiKeyError);
  await assert.rejects(live.batches.get('nothing'), NotFoundError);
  await assert.rejects(live.verify(`${'a'.repeat(400)}@example.com`), (error) => {
    return error instanceof InvalidRequestError && error.issues[0]?.loc.join() === 'body,email';
  });
  await assert.rejects(live.batches.create(['alice@ok.example', 'nobody']), (error) => {
    return error instanceof InvalidEmailsError && error.invalid[0]?.index === 1;
  });
});

withServer('each code has a class of its own, or that of its status, and there is no class for any other code', async ({ server }) => {
  const { components } = (await (await fetch(`${server.url}/v1/openapi.json`)).json()) as Description;
  const { description, enum: codes } = components.schemas.ErrorCode;
  const statuses = new Map([...description.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [code, Number(status)]));
  assert.deepEqual([...statuses.keys()], codes);
  assert.ok(codes.length > 20);
  for (const [code, status] of statuses) {
    const expected = BY_CODE.get(code) ?? BY_STATUS.get(status) ?? ApiError;
    assert.equal(apiError(status, new Headers(), { error: code }).constructor, expected, code);
  }
  assert.deepEqual([...BY_CODE.keys()].filter((code) => !codes.includes(String(code))), []);
  assert.deepEqual(codes.filter((code) => !BY_CODE.has(code)), ['method_not_allowed', 'request_timeout', 'unsupported_media_type']);
});

withServer('batches are listed and cancelled', async ({ test: free, server, t }) => {
  if (await isMissing(t, server, '/v1/verify/batch')) return;
  const ids: string[] = [];
  for (let number = 0; number < 3; number += 1) ids.unshift((await free.batches.create(['role@example.com'])).batch_id);
  const listed = (await all(free.batches.list({ limit: 2 }))).map((batch) => batch.batch_id);
  assert.deepEqual(listed.filter((id) => ids.includes(id)), ids);
  assert.notEqual((await free.batches.cancel(ids[0] ?? '')).status, 'processing');
});

for (const inParts of [false, true]) {
  withServer(`a list, in parts: ${inParts}`, async ({ live, server, t }) => {
    if (await isMissing(t, server, '/v1/lists')) return;
    const { list_id } = await live.lists.upload(CONTENT, { name: 'from a client', column: 'email', inParts, partBytes: 30 });
    const ready = await live.lists.wait(list_id, { until: 'ready', timeoutMs: 60_000, intervalMs: 100 });
    assert.deepEqual([ready.rows, ready.addresses, ready.distinct], [4, 4, 3]);
    await live.lists.start(list_id);
    assert.equal((await live.lists.wait(list_id, { timeoutMs: 120_000, intervalMs: 200 })).status, 'completed');
    const rows = await all(live.lists.results(list_id));
    assert.deepEqual(rows.map((row) => row.reason), ['mailbox_exists', 'mailbox_not_found', 'mailbox_exists', 'catch_all']);
    assert.ok((await all(live.lists.list())).some((found) => found.list_id === list_id));
    await live.lists.delete(list_id);
  });
}

withServer('a spreadsheet', async ({ test: free, server, t }) => {
  const { paths } = (await (await fetch(`${server.url}/v1/openapi.json`)).json()) as Description;
  const { parameters } = paths['/v1/lists/{list_id}/results'].get;
  if (!parameters.some(({ schema }) => schema.enum?.includes('xlsx'))) return t.skip('the server has no results in the format xlsx yet');
  const { list_id } = await free.lists.upload(new TextEncoder().encode('email\nrole@example.com\n'));
  await free.lists.wait(list_id, { until: 'ready', timeoutMs: 60_000, intervalMs: 100 });
  await free.lists.start(list_id);
  await free.lists.wait(list_id, { timeoutMs: 60_000, intervalMs: 100 });
  const content = Buffer.concat(await all(free.lists.download(list_id, { format: 'xlsx' })));
  // A zip file begins with a file and ends with its directory, which has the number of files (APPNOTE.TXT 4.3.16).
  assert.equal(content.readUInt32LE(0), 0x04034b50);
  assert.equal(content.readUInt32LE(content.length - 22), 0x06054b50);
  assert.ok(content.readUInt16LE(content.length - 12) > 3);
  await free.lists.delete(list_id);
});

withServer('webhooks', async ({ live, server, t }) => {
  if (await isMissing(t, server, '/v1/webhooks')) return;
  const made = await live.webhooks.create('https://hooks.example.com/mailprobe', { events: ['list.completed'], label: 'from a client' });
  assert.match(made.secret ?? '', /^whsec_/);
  assert.deepEqual((await live.webhooks.list()).map((found) => found.webhook_id), [made.webhook_id]);
  assert.notEqual((await live.webhooks.rotate(made.webhook_id)).secret, made.secret);
  const message = await live.webhooks.test(made.webhook_id);
  assert.ok((await all(live.webhooks.deliveries(made.webhook_id))).some((found) => found.message_id === message));
  assert.equal((await live.webhooks.update(made.webhook_id, { enabled: false })).enabled, false);
  await live.webhooks.delete(made.webhook_id);
});
