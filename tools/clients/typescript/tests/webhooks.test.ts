/** Endpoints, by the scripted server, and the verification of messages beside the official library. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { Webhook, WebhookVerificationError as OfficialError } from 'standardwebhooks';
import { signWebhook, verifyWebhook, WebhookVerificationError } from 'mailprobe';
import { all, scripted } from './servers.js';

const server = await scripted();
const client = server.client();
const NOW = 1_790_000_000;
const AT = { now: NOW * 1000 };
const BODY = JSON.stringify({
  type: 'list.completed',
  timestamp: '2026-11-25T12:00:00.5Z',
  data: { list_id: 'lst_1', status: 'completed', total: 2, checked: 2, counts: { mailbox_exists: 2 } },
});

beforeEach(() => server.control('reset'));

function secret(seed: number): string {
  return `whsec_${createHash('sha256').update(String(seed)).digest().subarray(0, 24).toString('base64')}`;
}

test('all requests', async () => {
  const made = await client.webhooks.create('https://example.com/hook', { events: ['list.completed'], label: 'mine' });
  assert.match(made.secret ?? '', /^whsec_/);
  assert.deepEqual(await client.webhooks.list(), [await client.webhooks.get(made.webhook_id)]);
  assert.equal((await client.webhooks.get(made.webhook_id)).secret, undefined);
  const changed = await client.webhooks.update(made.webhook_id, { label: '', enabled: false });
  assert.deepEqual([changed.url, changed.label, changed.enabled], ['https://example.com/hook', null, false]);
  assert.equal((await server.journal()).at(-1)?.body, '{"label":"","enabled":false}');
  assert.notEqual((await client.webhooks.rotate(made.webhook_id)).secret, made.secret);
  const messages: string[] = [];
  for (let number = 0; number < 3; number += 1) messages.unshift(await client.webhooks.test(made.webhook_id));
  const deliveries = await all(client.webhooks.deliveries(made.webhook_id));
  assert.deepEqual(deliveries.map((delivery) => delivery.message_id), messages);
  assert.equal(deliveries[0]?.attempts?.[0]?.status, 204);
  await client.webhooks.delete(made.webhook_id);
  assert.deepEqual(await client.webhooks.list(), []);
});

test('a genuine message', async () => {
  const headers = await signWebhook(secret(1), 'msg_1', NOW, BODY);
  const event = await verifyWebhook(secret(1), headers, BODY, AT);
  assert.deepEqual([event.id, event.type, event.data.list_id, event.data.counts], ['msg_1', 'list.completed', 'lst_1', { mailbox_exists: 2 }]);
  const shouted = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
  for (const form of [new Headers(headers), shouted]) assert.deepEqual(await verifyWebhook(secret(1), form, Buffer.from(BODY), AT), event);
});

test('two secrets, while one is replaced', async () => {
  const [old, fresh] = [secret(1), secret(2)];
  const headers = await signWebhook(old, 'msg_1', NOW, BODY);
  const both = { ...headers, 'webhook-signature': `${headers['webhook-signature']} ${(await signWebhook(fresh, 'msg_1', NOW, BODY))['webhook-signature']}` };
  for (const secrets of [old, fresh, [old, fresh], [secret(3), fresh]]) await verifyWebhook(secrets, both, BODY, AT);
  await verifyWebhook([fresh, old], headers, BODY, AT);
  await assert.rejects(verifyWebhook([fresh, secret(3)], headers, BODY, AT), WebhookVerificationError);
});

const FORGERIES: [string, (value: string) => string | undefined][] = [
  ['webhook-id', () => undefined],
  ['webhook-timestamp', () => undefined],
  ['webhook-signature', () => undefined],
  ['webhook-id', (value) => `${value}x`],
  ['webhook-timestamp', (value) => String(Number(value) + 1)],
  ['webhook-timestamp', () => 'soon'],
  ['webhook-timestamp', () => '²'],
  ['webhook-signature', (value) => `${value.slice(0, -4)}AAA=`],
  ['webhook-signature', (value) => value.replace('v1,', 'v2,')],
  ['webhook-signature', (value) => value.replace('v1,', '')],
  ['webhook-signature', (value) => value.slice(0, -1)],
  ['webhook-signature', () => 'v1,'],
  ['webhook-signature', () => 'v1,ä'],
  ...['\udcff', '\ud800', '\0', '\u{1f600}', '\n', ','].flatMap((odd): typeof FORGERIES => [
    ['webhook-id', (value) => value + odd],
    ['webhook-timestamp', (value) => value + odd],
    ['webhook-signature', (value) => value + odd],
    ['webhook-signature', () => `v1,${odd}`],
  ]),
];

for (const [name, change] of FORGERIES) {
  test(`a forgery of ${name}: ${change}`, async () => {
    const headers = await signWebhook(secret(1), 'msg_1', NOW, BODY);
    await assert.rejects(verifyWebhook(secret(1), { ...headers, [name]: change(headers[name] ?? '') }, BODY, AT), WebhookVerificationError);
  });
}

test('headers that no server sends', async () => {
  const headers = await signWebhook(secret(1), 'msg_1', NOW, BODY);
  const names = Object.keys(headers);
  for (const odd of [undefined, [], [''], ['', ''], ['x', 'y']]) {
    for (const name of names) await assert.rejects(verifyWebhook(secret(1), { ...headers, [name]: odd }, BODY, AT), WebhookVerificationError);
  }
  await assert.rejects(verifyWebhook(secret(1), {}, BODY, AT), WebhookVerificationError);
  await assert.rejects(verifyWebhook(secret(1), headers, `${BODY}\ud800`, AT), WebhookVerificationError);
});

test('another body, and messages that are no events', async () => {
  await assert.rejects(verifyWebhook(secret(1), await signWebhook(secret(1), 'm', NOW, BODY), `${BODY} `, AT), WebhookVerificationError);
  for (const body of ['', '[]', '{}', '{"type": 1, "timestamp": "x"}', new Uint8Array([255])]) {
    await assert.rejects(verifyWebhook(secret(1), await signWebhook(secret(1), 'm', NOW, body), body, AT), WebhookVerificationError);
  }
});

for (const [age, isAccepted] of [[0, true], [300, true], [301, false], [-300, true], [-301, false]] as const) {
  test(`an age of ${age} s`, async () => {
    const verified = verifyWebhook(secret(1), await signWebhook(secret(1), 'msg_1', NOW, BODY), BODY, { now: (NOW + age) * 1000 });
    await (isAccepted ? verified : assert.rejects(verified, WebhookVerificationError));
  });
}

test("bad secrets are the caller's fault", async () => {
  const headers = await signWebhook(secret(1), 'msg_1', NOW, BODY);
  for (const bad of ['', 'whsec_', 'whsec_***', []]) await assert.rejects(verifyWebhook(bad, headers, BODY, AT), TypeError);
});

test('the official library agrees: its messages pass here, and ours pass there', async () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const body = JSON.stringify({ ...(JSON.parse(BODY) as object), text: 'ä'.repeat(seed) });
    const official = new Webhook(secret(seed));
    const seconds = Math.floor(Date.now() / 1000);
    const theirs = official.sign(`msg_${seed}`, new Date(seconds * 1000), body);
    const ours = await signWebhook(secret(seed), `msg_${seed}`, seconds, body);
    assert.equal(ours['webhook-signature'], theirs);
    official.verify(body, ours);
    await verifyWebhook(secret(seed), { ...ours, 'webhook-signature': theirs }, body);
    const foreign = await signWebhook(secret(seed + 1), `msg_${seed}`, seconds, body);
    assert.throws(() => official.verify(body, foreign), OfficialError);
  }
});
