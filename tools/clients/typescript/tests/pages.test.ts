/** The examples of docs/clients.md and README.md. Each runs in a process of its own, with the scripted and with the real server. */

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { signWebhook } from 'mailprobe';
import { isMissing, real, scripted } from './servers.js';

const PAGES = fileURLToPath(new URL('pages', import.meta.url));
const SECRET = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3';
const LIMIT_MS = 120_000;

/** What an example prints, by a text of the example. */
const PRINTED: [string, string][] = [
  ["client.verify('deliverable@example.com'", 'true mailbox_exists'],
  ['row.email, row.reason', 'deliverable@example.com mailbox_exists'],
  ["row['name']", 'Alice true mailbox_exists'],
  ['error.listId', '20890'],
  ['delivery.type', 'webhook.test'],
  ['error.invalid', 'not an address'],
];

const fake = await scripted();
const server = await real();
const folder = await mkdtemp(join(tmpdir(), 'mailprobe-'));
after(() => rm(folder, { recursive: true }));

const examples = await Promise.all(
  (await readdir(PAGES)).filter((name) => name.endsWith('.js')).map(async (name) => ({ name, code: await readFile(join(PAGES, name), 'utf8') })),
);
const receivers = examples.filter(({ code }) => code.includes('createServer'));
const others = examples.filter((example) => !receivers.includes(example));

async function run({ name, code }: { name: string; code: string }, url: string, key: string): Promise<void> {
  const env = { ...process.env, MAILPROBE_URL: url, MAILPROBE_KEY: key };
  const { stdout } = await promisify(execFile)(process.execPath, [join(PAGES, name)], { cwd: folder, env, timeout: LIMIT_MS });
  for (const [text, printed] of PRINTED) assert.ok(!code.includes(text) || stdout.includes(printed), stdout);
}

test('there are examples', () => {
  assert.ok(others.length >= 8 && receivers.length === 1);
  for (const [text] of PRINTED) assert.ok(others.some(({ code }) => code.includes(text)), text);
});

for (const example of others) {
  test(`${example.name} with the scripted server`, async () => {
    await fake.control('reset');
    await run(example, fake.url, 'key');
  });

  test(`${example.name} with the real server`, { skip: server ? false : 'MAILPROBE_BIN_DIR is not set: no server to test against' }, async (t) => {
    assert.ok(server);
    for (const path of ['/v1/lists', '/v1/webhooks']) {
      if (example.code.includes(`.${path.slice(4)}.`) && (await isMissing(t, server, path))) return;
    }
    await run(example, server.url, example.code.includes('.webhooks.') ? server.live_key : server.test_key);
  });
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

test('the receiver', async () => {
  const port = await freePort();
  const env = { ...process.env, MAILPROBE_WEBHOOK_SECRET: SECRET, PORT: String(port) };
  const child = spawn(process.execPath, [join(PAGES, receivers[0]?.name ?? '')], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    let printed = '';
    child.stdout.on('data', (piece: Buffer) => (printed += piece.toString()));
    const body = '{"type": "list.completed", "timestamp": "2026-11-25T12:00:00Z", "data": {"list_id": "lst_1"}}';
    const headers = await signWebhook(SECRET, 'msg_1', Math.floor(Date.now() / 1000), body);
    const post = async (content: string): Promise<number> => {
      for (let attempts = 0; ; attempts += 1) {
        try {
          return (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body: content })).status;
        } catch (error) {
          if (attempts > 100) throw error;
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      }
    };
    assert.equal(await post(body), 204);
    assert.equal(await post(`${body} `), 400);
    assert.match(printed, /msg_1 list\.completed lst_1/);
  } finally {
    child.kill();
  }
});
