/** Batches and lists, by the scripted server: polling, uploads that break, results that stream. */

import assert from 'node:assert/strict';
import { createReadStream, type ReadStream } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { inflateRawSync } from 'node:zlib';
import * as mailprobe from 'mailprobe';
import { openFile, saveResults } from 'mailprobe/node';
import { all, scripted } from './servers.js';

const server = await scripted();
const client = server.client();
const folder = await mkdtemp(join(tmpdir(), 'mailprobe-'));
const EMAILS = ['deliverable@example.com', 'catch_all@example.com', 'nobody@example.com'];
const ROWS = [['1', 'deliverable@example.com'], ['2', 'catch_all@example.com'], ['3', 'nobody\u2028x@example.com'], ['4', 'no address']];
const CONTENT = bytes(`row,email\n${ROWS.map(([row, email]) => `${row},${email}\n`).join('')}`);
const FAST = { intervalMs: 10 };
const QUICK_PARTS = { inParts: true, partBytes: 10_000 };

after(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  await server.control('reset');
  for (const name of await readdir(folder)) await rm(join(folder, name));
});

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function large(rows = 2000): Uint8Array {
  return bytes(`email\n${[...Array(rows).keys()].map((number) => `user-${number}@example.com\n`).join('')}`);
}

/** A stream of small pieces. */
async function* pieces(content: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += 700) yield content.subarray(at, at + 700);
}

async function run(content: mailprobe.Content): Promise<string> {
  const { list_id } = await client.lists.upload(content);
  await client.lists.wait(list_id, { until: 'ready', ...FAST });
  await client.lists.start(list_id);
  await client.lists.wait(list_id, FAST);
  return list_id;
}

/** The content as the server has it: the results without the two columns. */
async function uploadedContent(listId: string): Promise<string> {
  await client.lists.wait(listId, { until: 'ready', ...FAST });
  await client.lists.start(listId);
  await client.lists.wait(listId, FAST);
  const text = Buffer.concat(await all(client.lists.download(listId))).toString();
  return text.replace(/,.*/g, '');
}

test('a batch, from create to results', async () => {
  const created = await client.batches.create(EMAILS, { name: 'three' });
  assert.deepEqual([created.status, created.emails_submitted], ['processing', 3]);
  const rows = await all(client.batches.results(created.batch_id, FAST));
  assert.deepEqual(rows.map((row) => row.email), EMAILS);
  assert.deepEqual(rows.map((row) => row.reason), ['mailbox_exists', 'catch_all', 'mailbox_not_found']);
});

test('a wait has a timeout, and survives failures', async () => {
  const { batch_id } = await client.batches.create(EMAILS);
  await assert.rejects(client.batches.wait(batch_id, { timeoutMs: 0 }), mailprobe.WaitTimeoutError);
  await server.fault('GET', '/v1/verify/batch/', { lose: true, times: 2 });
  assert.equal((await client.batches.wait(batch_id, FAST)).status, 'completed');
});

for (const step of [3_600_000, -3_600_000]) {
  test(`a step of the clock by ${step} ms does not change the timeout of a wait`, async (t) => {
    const { batch_id } = await client.batches.create(EMAILS);
    const body = { batch_id, status: 'processing', total: 3, checked: 0 };
    if (step < 0) await server.fault('GET', batch_id, { status: 200, body, times: 99 });
    const begin = performance.now();
    const now = Date.now.bind(Date);
    let calls = 0;
    t.mock.method(Date, 'now', () => now() + ((calls += 1) > 1 ? step : 0));
    if (step > 0) {
      assert.equal((await client.batches.wait(batch_id, { timeoutMs: 10_000, ...FAST })).status, 'completed');
    } else {
      await assert.rejects(client.batches.wait(batch_id, { timeoutMs: 100, intervalMs: 50 }), mailprobe.WaitTimeoutError);
      assert.ok(performance.now() - begin < 2000);
    }
  });
}

test('a batch is cancelled', async () => {
  const { batch_id } = await client.batches.create(EMAILS);
  assert.notEqual((await client.batches.cancel(batch_id)).status, 'processing');
  const rows = await all(client.batches.results(batch_id));
  assert.deepEqual([...new Set(rows.map((row) => row.reason))], ['unverifiable']);
});

test('pages are read when they are needed', async () => {
  const ids: string[] = [];
  for (let number = 0; number < 5; number += 1) ids.unshift((await client.batches.create(EMAILS)).batch_id);
  assert.deepEqual((await all(client.batches.list())).map((batch) => batch.batch_id), ids);
  assert.deepEqual((await all(client.batches.list({ limit: 5 }))).map((batch) => batch.batch_id), ids);
  const before = (await server.journal()).length;
  for await (const batch of client.batches.list()) {
    assert.equal(batch.batch_id, ids[0]);
    break;
  }
  assert.equal((await server.journal()).length, before + 1);
});

test('a cursor that does not advance', async () => {
  await server.fault('GET', '/v1/verify/batch', { status: 200, body: { batches: [], next: 'same' }, times: 9 });
  await assert.rejects(all(client.batches.list()), mailprobe.UnexpectedAnswerError);
});

test('a list, from upload to delete', async () => {
  const uploaded = await client.lists.upload(CONTENT, { name: 'my list', column: 'email' });
  assert.deepEqual([uploaded.status, uploaded.name, uploaded.offset], ['reading', 'my list', CONTENT.length]);
  const ready = await client.lists.wait(uploaded.list_id, { until: 'ready', ...FAST });
  assert.deepEqual([ready.status, ready.rows, ready.credits_required], ['ready', 4, 2]);
  assert.equal((await client.lists.start(uploaded.list_id)).status, 'running');
  assert.equal((await client.lists.start(uploaded.list_id)).status, 'running');
  const done = await client.lists.wait(uploaded.list_id, FAST);
  assert.equal(done.counts?.['mailbox_exists'], 1);
  const rows = await all(client.lists.results(uploaded.list_id));
  assert.deepEqual(rows.map((row) => [row['row'], row['email']]), ROWS);
  assert.deepEqual(rows.map((row) => row.reason), ['mailbox_exists', 'catch_all', 'invalid_syntax', 'invalid_syntax']);
  await client.lists.delete(uploaded.list_id);
  await assert.rejects(client.lists.get(uploaded.list_id), mailprobe.NotFoundError);
});

test('classes', async () => {
  const rows = await all(client.lists.results(await run(CONTENT), { classes: ['deliverable', 'unknown'] }));
  assert.deepEqual(rows.map((row) => row['row']), ['1', '2']);
});

test('a download to a path begins again, and leaves no part of a file', async () => {
  const id = await run(CONTENT);
  const target = join(folder, 'out.csv');
  await server.fault('GET', '/results', { truncate: true });
  const count = await saveResults(client.lists, id, target);
  const text = await readFile(target, 'utf8');
  assert.equal(count, Buffer.byteLength(text));
  assert.equal(text.split('\n')[1], '1,deliverable@example.com,true,mailbox_exists');
  await rm(target);
  await server.fault('GET', '/results', { truncate: true, times: 99 });
  await assert.rejects(saveResults(client.lists, id, target), mailprobe.TransportError);
  assert.deepEqual(await readdir(folder), []);
});

test('a spreadsheet, as a file and as bytes', async () => {
  const id = await run(CONTENT);
  const target = join(folder, 'out.xlsx');
  await server.fault('GET', '/results', { truncate: true });
  const count = await saveResults(client.lists, id, target, { format: 'xlsx', classes: ['deliverable'] });
  assert.match((await server.journal()).at(-1)?.target ?? '', /\/results\?format=xlsx&class=deliverable$/);
  const ofFile = await readFile(target);
  await all(client.lists.results(id, { evidence: true }));
  assert.match((await server.journal()).at(-1)?.target ?? '', /\/results\?format=jsonl&evidence=true$/);
  const ofBytes = Buffer.concat(await all(client.lists.download(id, { format: 'xlsx', classes: ['deliverable'] })));
  assert.equal(count, ofFile.length);
  for (const content of [ofFile, ofBytes]) assert.equal(sheet(content), 'row,email,deliverable,reason\n1,deliverable@example.com,true,mailbox_exists\n');
});

/** The rows of the spreadsheet that the scripted server makes: the only file of a zip file (APPNOTE.TXT 4.3.7). */
function sheet(content: Buffer): string {
  assert.equal(content.readUInt32LE(0), 0x04034b50);
  const begin = 30 + content.readUInt16LE(26) + content.readUInt16LE(28);
  return inflateRawSync(content.subarray(begin, begin + content.readUInt32LE(18))).toString();
}

test('truncated results are an error after the first row', async () => {
  const id = await run(CONTENT);
  await server.fault('GET', '/results', { truncate: true });
  await assert.rejects(all(client.lists.results(id)), mailprobe.TransportError);
  await server.fault('GET', '/results', { status: 503, body: {} });
  assert.equal((await all(client.lists.results(id))).length, 4);
});

for (const body of ['{\n', '[1]\n', '{"a": 1}\nx']) {
  test(`results that are not rows: ${JSON.stringify(body)}`, async () => {
    const id = await run(CONTENT);
    await server.fault('GET', '/results', { status: 200, body });
    await assert.rejects(all(client.lists.results(id)), mailprobe.UnexpectedAnswerError);
  });
}

async function asFile(content: Uint8Array): Promise<mailprobe.Source> {
  await writeFile(join(folder, 'large.csv'), content);
  return openFile(join(folder, 'large.csv'));
}

const KINDS: Record<string, (content: Uint8Array) => mailprobe.Content | Promise<mailprobe.Content>> = {
  file: asFile,
  bytes: (content) => content,
  blob: (content) => new Blob([content as BlobPart]),
  generator: pieces,
  stream: (content) => new Blob([content as BlobPart]).stream() as ReadableStream<Uint8Array>,
};
const FAULTS = [{}, { reset_after: 3000 }, { lose: true }, { status: 503, body: {} }, { reset_after: 0 }];

for (const [name, kind] of Object.entries(KINDS)) {
  for (const fault of FAULTS) {
    test(`an upload of a ${name} in parts: ${JSON.stringify(fault)}`, async () => {
      const content = large();
      const offsets: number[] = [];
      if (Object.keys(fault).length) await server.fault('PATCH', '/v1/lists', { ...fault, times: 3 });
      const source = await kind(content);
      const uploaded = await client.lists.upload(source, { ...QUICK_PARTS, size: content.length, onProgress: (offset) => offsets.push(offset) });
      assert.equal(uploaded.offset, content.length);
      assert.deepEqual(offsets, [...offsets].sort((a, b) => a - b));
      assert.equal(offsets.at(-1), content.length);
      assert.equal(await uploadedContent(uploaded.list_id), new TextDecoder().decode(content));
      const begun = (await server.journal()).filter((request) => request.target === '/v1/lists');
      assert.deepEqual(begun.map((request) => typeof request.headers['idempotency-key']), ['string']);
      if ('close' in source && typeof source.close === 'function') await source.close();
    });
  }
}

/** A small generator of numbers from 0 to 1 (mulberry32), so that a failure can be repeated. */
function randomOf(seed: number): (below: number) => number {
  let state = seed + 1;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

for (let seed = 0; seed < 15; seed += 1) {
  test(`property: random faults change no byte, seed ${seed}`, async () => {
    const random = randomOf(seed);
    const content = large(1 + random(3000));
    for (let count = random(12); count > 0; count -= 1) {
      const faults = [{ reset_after: random(9000) }, { lose: true }, { status: 503, body: {} }, { truncate: true }];
      await server.fault(random(3) ? 'PATCH' : 'GET', '/v1/lists/', { ...faults[random(4)], times: 1 + random(2) });
    }
    const options = { partBytes: 1000 + random(19_000) };
    const uploaded = await client.lists.upload(content, { ...options, inParts: true }).catch(async (error: unknown) => {
      if (!(error instanceof mailprobe.UploadInterruptedError)) throw error;
      await server.control('end-faults');
      return client.lists.resumeUpload(error.listId, content, options);
    });
    await server.control('end-faults');
    assert.equal(await uploadedContent(uploaded.list_id), new TextDecoder().decode(content));
    assert.equal((await all(client.lists.list())).length, 1);
  });
}

test('the answer to the last part is lost', async () => {
  await server.fault('PATCH', '/v1/lists', { lose: true });
  assert.equal((await client.lists.upload(CONTENT, { inParts: true })).offset, CONTENT.length);
  assert.deepEqual((await server.journal()).map((request) => request.method), ['POST', 'PATCH', 'GET']);
});

for (const fault of [{}, { lose: true }, { reset_after: 10 }, { status: 429, body: {} }]) {
  test(`a small content is sent whole: ${JSON.stringify(fault)}`, async () => {
    if (Object.keys(fault).length) await server.fault('POST', '/v1/lists', fault);
    await client.lists.upload(CONTENT);
    const journal = await server.journal();
    assert.equal(journal.at(-1)?.bytes, CONTENT.length);
    assert.equal(journal.length, Object.keys(fault).length ? 2 : 1);
    assert.equal(new Set(journal.map((request) => request.headers['idempotency-key'])).size, 1);
    assert.equal((await all(client.lists.list())).length, 1);
  });
}

test('an upload continues in another process', async () => {
  const content = large();
  await server.fault('PATCH', '/v1/lists', { reset_after: 100 });
  await server.fault('PATCH', '/v1/lists', { reset_after: 0, times: 99 });
  const failure = await client.lists.upload(content, QUICK_PARTS).catch((error: unknown) => error);
  assert.ok(failure instanceof mailprobe.UploadInterruptedError);
  assert.ok(failure.cause instanceof mailprobe.TransportError);
  assert.equal(failure.offset, 100);
  await server.control('end-faults');
  const done = await client.lists.resumeUpload(failure.listId, pieces(content), { partBytes: 10_000 });
  assert.equal(await uploadedContent(done.list_id), new TextDecoder().decode(content));
  assert.equal((await client.lists.resumeUpload(done.list_id, content)).list_id, done.list_id);
});

test('a mismatch is followed', async () => {
  const body = { error: 'offset_mismatch', message: '', offset: 0 };
  await server.fault('PATCH', '/v1/lists', { status: 409, body, times: 2 });
  const uploaded = await client.lists.upload(large(), QUICK_PARTS);
  assert.equal(await uploadedContent(uploaded.list_id), new TextDecoder().decode(large()));
  await server.fault('PATCH', '/v1/lists', { status: 409, body, times: 99 });
  await assert.rejects(client.lists.upload(large(), QUICK_PARTS), mailprobe.OffsetMismatchError);
});

test('a server that never advances', async () => {
  await server.fault('PATCH', '/v1/lists', { status: 200, body: { list_id: 'x', status: 'uploading', offset: 0 } });
  await assert.rejects(client.lists.upload(large(), QUICK_PARTS), mailprobe.UnexpectedAnswerError);
});

test('a file that becomes shorter', async () => {
  await writeFile(join(folder, 'large.csv'), large());
  const source = await openFile(join(folder, 'large.csv'));
  await truncate(join(folder, 'large.csv'), 100);
  await assert.rejects(client.lists.upload(source, QUICK_PARTS), mailprobe.UploadError);
  await source.close();
});

test('a stream needs its size', async () => {
  await assert.rejects(client.lists.upload(pieces(CONTENT)), TypeError);
  await assert.rejects(client.lists.upload(pieces(CONTENT), { size: CONTENT.length + 1, inParts: true }), mailprobe.UploadError);
  const [uploading] = await all(client.lists.list());
  await assert.rejects(client.lists.resumeUpload(uploading?.list_id ?? '', CONTENT), mailprobe.UploadError);
  assert.equal((await client.lists.upload(pieces(CONTENT), { size: CONTENT.length })).offset, CONTENT.length);
});

for (const inParts of [false, true]) {
  for (const partBytes of [CONTENT.length - 1, CONTENT.length >> 1, 1 << 20]) {
    test(`a stream that is longer than its size, in parts of ${partBytes}: ${inParts}`, async () => {
      const upload = client.lists.upload(pieces(CONTENT), { size: CONTENT.length - 1, inParts, partBytes });
      await assert.rejects(upload, (error) => error instanceof mailprobe.UploadError && /longer/.test(error.message));
      assert.deepEqual((await all(client.lists.list())).map((list) => list.status), inParts ? ['uploading'] : []);
    });
  }
}

test('a stream that is longer than the rest of an upload', async () => {
  await server.fault('PATCH', '/v1/lists', { reset_after: 0, times: 99 });
  const failure = await client.lists.upload(CONTENT, { inParts: true }).catch((error: unknown) => error);
  assert.ok(failure instanceof mailprobe.UploadInterruptedError);
  await server.control('end-faults');
  const longer = pieces(Buffer.concat([CONTENT, bytes('5,x@example.com\n')]));
  await assert.rejects(client.lists.resumeUpload(failure.listId, longer), mailprobe.UploadError);
  assert.equal((await client.lists.resumeUpload(failure.listId, pieces(CONTENT))).offset, CONTENT.length);
});

async function closed(file: ReadStream): Promise<void> {
  if (!file.closed) await new Promise<void>((resolve) => file.once('close', resolve));
}

/** The ways in which an upload can end: its fault, and its options. */
const ENDS: [string, object | undefined, object][] = [
  ['success', undefined, { size: CONTENT.length }],
  ['success in parts', undefined, { size: CONTENT.length, inParts: true, partBytes: 30 }],
  ['an error before the first read', { status: 401, body: {} }, { size: CONTENT.length, inParts: true }],
  ['an error after it', { status: 401, body: {} }, { size: CONTENT.length }],
  ['a size that is too small', undefined, { size: 10 }],
  ['no size', undefined, {}],
];

for (const [name, fault, options] of ENDS) {
  test(`the upload ends its stream: ${name}`, { timeout: 10_000 }, async () => {
    await writeFile(join(folder, 'list.csv'), CONTENT);
    const end = async (stream: mailprobe.Content): Promise<void> => {
      if (fault) await server.fault('POST', '/v1/lists', fault);
      const isGood = name.startsWith('success');
      await (isGood ? client.lists.upload(stream, options) : assert.rejects(client.lists.upload(stream, options)));
    };
    const file = createReadStream(join(folder, 'list.csv'), { highWaterMark: 20 });
    await end(file);
    await closed(file);
    let isCancelled = false;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(CONTENT),
      pull: (controller) => (name.startsWith('success') ? controller.close() : controller.enqueue(CONTENT)),
      cancel: () => void (isCancelled = true),
    }, { highWaterMark: 1 });
    await end(stream);
    assert.equal(stream.locked, false);
    assert.equal(isCancelled, !name.startsWith('success'));
  });
}

test('a stream that cannot be ended does not hide the result', async () => {
  const stream = { next: async () => ({ done: true, value: undefined }), return: () => Promise.reject(new Error('stuck')) };
  const content = { [Symbol.asyncIterator]: () => stream } as AsyncIterable<Uint8Array>;
  assert.equal((await client.lists.upload(content, { size: 0 })).offset, 0);
});

test('the caller closes its own file', async () => {
  const file = await openFile(new URL(import.meta.url));
  await client.lists.upload(file);
  assert.equal((await file.readAt(0, 5)).length, 5);
  await file.close();
});

test('a stream of a list that is complete already is ended', { timeout: 10_000 }, async () => {
  const { list_id } = await client.lists.upload(CONTENT, { inParts: true });
  await writeFile(join(folder, 'list.csv'), CONTENT);
  for (const id of [list_id, 'nothing']) {
    const file = createReadStream(join(folder, 'list.csv'));
    await client.lists.resumeUpload(id, file).catch(() => undefined);
    await closed(file);
  }
});

test('results before the end', async () => {
  const { list_id } = await client.lists.upload(CONTENT);
  await assert.rejects(all(client.lists.results(list_id)), mailprobe.InvalidStateError);
});

test('a text is not a content', async () => {
  await assert.rejects(client.lists.upload('a@example.com' as unknown as Uint8Array), TypeError);
});

for (const inParts of [false, true]) {
  test(`an empty list is unfit, in parts: ${inParts}`, async () => {
    const { list_id } = await client.lists.upload(new Uint8Array(0), { inParts });
    await assert.rejects(client.lists.wait(list_id, { until: 'ready', ...FAST }), (error) => {
      return error instanceof mailprobe.ListStoppedError && error.list.status === 'unfit' && /no row/.test(error.message);
    });
  });
}

test('a list is cancelled, and lists have pages', async () => {
  const ids: string[] = [];
  for (let number = 0; number < 5; number += 1) ids.unshift((await client.lists.upload(CONTENT)).list_id);
  assert.deepEqual((await all(client.lists.list())).map((list) => list.list_id), ids);
  const id = ids[0] ?? '';
  await client.lists.wait(id, { until: 'ready', ...FAST });
  await client.lists.start(id);
  assert.equal((await client.lists.cancel(id)).status, 'cancelled');
  assert.equal((await client.lists.wait(id)).status, 'cancelled');
});
