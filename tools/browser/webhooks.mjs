// Webhooks: their pages, and their messages verified by the official libraries of Standard Webhooks for JavaScript and Python,
// as the examples of docs/webhooks.md use them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { suite } from './harness.mjs';

const PASSWORD = 'correct horse battery';
const DAY_MS = 86_400_000;

/** The blocks of docs/webhooks.md in these languages. */
const page = await readFile(join(process.env.BROWSER_DOCS, 'webhooks.md'), 'utf8');
const block = (language) => page.split(`\`\`\`${language}\n`)[1].split('```')[0];
const example = new Function('Webhook', `${block('js').replace(/^import .*$/m, '')}; return receive;`)(Webhook);

/** A receiver that keeps what it gets, and answers with a status. */
class Receiver {
  static async start(status = 204) {
    const receiver = new Receiver();
    Object.assign(receiver, { got: [], status });
    receiver.server = createServer(async (request, response) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      receiver.got.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
      response.writeHead(receiver.status).end();
    });
    await new Promise((resolve) => receiver.server.listen(0, '127.0.0.1', resolve));
    receiver.url = `http://127.0.0.1:${receiver.server.address().port}/hook`;
    return receiver;
  }

  /** Waits for the message with this number, from 1. */
  async message(number) {
    for (let waited = 0; this.got.length < number; waited += 50) {
      assert(waited < 20_000, `${this.got.length} messages`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return this.got[number - 1];
  }

  close() {
    this.server.close();
  }
}

async function api(t, method, path, body) {
  const headers = { authorization: `Bearer ${t.live}`, 'content-type': 'application/json' };
  const response = await fetch(t.base + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** What the Python library says of a message: its body, or a text that begins with `refused`. */
async function inPython(secret, { headers, body }) {
  const script = fileURLToPath(new URL('webhook.py', import.meta.url));
  const child = spawn(process.env.BROWSER_PYTHON, [script, secret], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify({ headers, body, example: block('python') }));
  let said = '';
  for await (const part of child.stdout) said += part;
  const code = await new Promise((resolve) => (child.exitCode === null ? child.once('close', resolve) : resolve(child.exitCode)));
  assert.equal(code, 0, said);
  return said.trim();
}

async function verified(secret, message) {
  const payload = example(secret, message.headers, message.body);
  assert.deepEqual(JSON.parse(await inPython(secret, message)), payload);
  return payload;
}

async function refused(secret, message) {
  assert.throws(() => example(secret, message.headers, message.body));
  assert.match(await inPython(secret, message), /^refused/);
}

await suite({
  'the libraries of Standard Webhooks verify the messages': async (t) => {
    const receiver = await Receiver.start();
    const { webhook_id: id, secret } = await api(t, 'POST', '/v1/webhooks', { url: receiver.url });
    const { batch_id: batch } = await api(t, 'POST', '/v1/verify/batch', { emails: ['alice@ok.example'] });
    const message = await receiver.message(1);
    const payload = await verified(secret, message);
    assert.deepEqual([payload.type, payload.data.batch_id, payload.data.total], ['batch.completed', batch, 1]);
    await refused(secret, { ...message, body: message.body.replace(batch, 'bat_other') });
    await refused(secret, { ...message, headers: { ...message.headers, 'webhook-id': 'msg_other' } });
    const old = String(Number(message.headers['webhook-timestamp']) - 600);
    await refused(secret, { ...message, headers: { ...message.headers, 'webhook-timestamp': old } });

    // While two secrets are valid, each of them verifies.
    const { secret: next } = await api(t, 'POST', `/v1/webhooks/${id}/rotate`);
    await api(t, 'POST', `/v1/webhooks/${id}/test`);
    const both = await receiver.message(2);
    assert.equal((await verified(secret, both)).type, 'webhook.test');
    await verified(next, both);
    await t.advance(DAY_MS);
    await api(t, 'POST', `/v1/webhooks/${id}/test`);
    // The clock of the server is ahead by a day, and the libraries refuse a timestamp in the future: only its signature counts here.
    const later = await receiver.message(3);
    assert.equal(later.headers['webhook-signature'].split(' ').length, 1);
    await api(t, 'DELETE', `/v1/webhooks/${id}`);
    receiver.close();
  },

  'the pages create, test, rotate and delete a webhook': async (t) => {
    const receiver = await Receiver.start(500);
    const page = await t.page();
    await page.goto(`${t.base}/signup`);
    await page.locator('input[name=email]').fill('hooks@example.com');
    await page.locator('input[name=password]').fill(PASSWORD);
    await page.locator('main button[type=submit]').click();
    await page.waitForURL(`${t.base}/`);
    await page.getByRole('link', { name: 'Webhooks' }).click();
    await t.inspect(page, 'webhooks-none');
    await page.getByLabel('URL').fill(receiver.url);
    await page.getByLabel('Label').fill('Test bench');
    await page.getByRole('button', { name: 'Create webhook' }).click();
    const secret = await page.getByRole('textbox', { name: 'Secret' }).inputValue();
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{32}$/);
    await t.inspect(page, 'webhook-new');
    await page.getByRole('link', { name: 'All webhooks' }).click();
    await t.inspect(page, 'webhooks');
    await page.getByRole('link', { name: receiver.url }).click();
    assert.equal(await page.getByLabel('Secret').count(), 0);
    await page.getByRole('button', { name: 'Send a test' }).click();
    await receiver.message(1);
    await page.waitForTimeout(1_000);
    await page.reload();
    await page.getByText('status 500').waitFor();
    await page.getByText('Attempts have failed since').waitFor();
    await t.inspect(page, 'webhook-failing');
    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByText('You have disabled this webhook.').waitFor();
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByRole('button', { name: 'Replace the secret' }).click();
    assert.notEqual(await page.getByRole('textbox', { name: 'Secret' }).inputValue(), secret);
    await page.getByText('The old secret signs as well until').waitFor();
    await page.getByRole('button', { name: 'Delete webhook' }).click();
    await page.getByText('There are no webhooks.').waitFor();
    receiver.close();
  },
});
