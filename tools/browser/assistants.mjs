// Assistants with the official clients, of both ages of the protocol: they register, send their user through the
// consent page in Chromium, list the tools and call them, until they are no longer allowed to.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import * as modern from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { suite } from './harness.mjs';

const PASSWORD = 'correct horse battery';
const DAY_MS = 86_400_000;

/** The user at their computer: a browser that is signed in, and the programs' callback. */
class Desk {
  static async open(t, email) {
    const desk = new Desk();
    desk.t = t;
    desk.page = await t.page();
    await desk.page.goto(`${t.base}/signup`);
    await desk.page.locator('input[name=email]').fill(email);
    await desk.page.locator('input[name=password]').fill(PASSWORD);
    await desk.page.locator('main button[type=submit]').click();
    await desk.page.waitForURL(`${t.base}/`);
    desk.server = createServer((request, response) => desk.answer(request, response));
    await new Promise((resolve) => desk.server.listen(0, '127.0.0.1', resolve));
    desk.bridge = `http://127.0.0.1:${desk.server.address().port}`;
    desk.redirect = `${desk.bridge}/callback`;
    // The page of the program is the only other page that they load.
    t.allow(/^request elsewhere: http:\/\/127\.0\.0\.1:\d+\/callback$/);
    return desk;
  }

  /** Programs in other processes ask by POST /consent; the browser comes to GET /callback. */
  async answer(request, response) {
    const url = new URL(request.url, this.bridge);
    if (request.method === 'POST' && url.pathname === '/consent') {
      const parts = [];
      for await (const part of request) parts.push(part);
      const { url: consent, ...choice } = JSON.parse(Buffer.concat(parts).toString());
      const back = await this.consent(consent, choice).catch((error) => ({ failed: String(error) }));
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(back instanceof URLSearchParams ? Object.fromEntries(back) : back));
    } else {
      this.back = url.searchParams;
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Done</title><main><h1>Done</h1></main></html>');
    }
  }

  /** What the user does on the page of consent; what the program is sent back with. */
  async consent(url, { checks = 10, days = 30, deny = false, look } = {}) {
    this.back = undefined;
    await this.page.goto(String(url));
    if (look) await this.t.inspect(this.page, look);
    await this.page.getByLabel('Full checks').fill(String(checks));
    await this.page.getByLabel('Days').fill(String(days));
    await this.page.getByRole('button', { name: deny ? 'Deny' : 'Allow' }).click();
    await this.page.getByRole('heading', { name: 'Done' }).waitFor();
    return this.back;
  }

  close() {
    this.server.close();
  }
}

/** What the TypeScript clients keep of a connection, in memory. */
function keeper(desk, choice) {
  const kept = { back: undefined };
  return {
    kept,
    get redirectUrl() { return desk.redirect; },
    get clientMetadata() {
      return {
        client_name: 'TypeScript client', redirect_uris: [desk.redirect], grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'], token_endpoint_auth_method: 'none',
      };
    },
    state: () => 'a state',
    clientInformation: () => kept.client,
    saveClientInformation: (client) => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => { kept.tokens = tokens; },
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
    discoveryState: () => kept.discovery,
    saveDiscoveryState: (discovery) => { kept.discovery = discovery; },
    invalidateCredentials: (scope) => {
      const parts = { client: 'client', tokens: 'tokens', verifier: 'verifier', discovery: 'discovery' };
      for (const part of scope === 'all' ? Object.keys(parts) : [parts[scope]]) delete kept[part];
    },
    redirectToAuthorization: async (url) => { kept.back = await desk.consent(url, choice); },
  };
}

const AGES = {
  legacy: {
    make: () => new Client({ name: 'test', version: '1' }),
    transport: (url, authProvider) => new StreamableHTTPClientTransport(url, { authProvider }),
    finish: (transport, back) => transport.finishAuth(back.get('code')),
  },
  modern: {
    make: () => new modern.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    transport: (url, authProvider) => new modern.StreamableHTTPClientTransport(url, { authProvider }),
    finish: (transport, back) => transport.finishAuth(back),
  },
};

/** The whole way: refused, sent to consent, back with a code, connected. */
async function connect(t, desk, age, choice) {
  const { make, transport: over, finish } = AGES[age];
  const provider = keeper(desk, choice);
  const url = new URL(`${t.base}/mcp`);
  const first = over(url, provider);
  await assert.rejects(make().connect(first));
  assert.equal(provider.kept.back?.get('state'), 'a state');
  assert.equal(provider.kept.back.get('iss'), t.base);
  await finish(first, provider.kept.back);
  const client = make();
  await client.connect(over(url, provider));
  return { client, provider };
}

const verify = (client, email, mode) => client.callTool({ name: 'verify_email', arguments: { email, mode } });

/** So many full checks pass and the next is refused; fast ones go on. */
async function spend(client, checks) {
  for (let n = 1; n <= checks; n += 1) {
    const got = await verify(client, `user-${n}@ok.example`, 'full');
    assert.ok(!got.isError, JSON.stringify(got));
    assert.equal(got.structuredContent.deliverable, true);
    assert.equal(got.structuredContent.full_checks_left, checks - n);
  }
  const refused = await verify(client, 'bob@ok.example', 'full');
  assert.equal(refused.isError, true);
  assert.match(refused.content[0].text, /^full_checks_(used_up|not_allowed): /);
  const fast = await verify(client, 'joe@gmial.com', 'fast');
  assert.equal(fast.structuredContent.reason, 'possible_typo');
  assert.equal(fast.structuredContent.suggestion, 'joe@gmail.com');
}

const names = async (client) => (await client.listTools()).tools.map(({ name }) => name);

await suite({
  'the TypeScript client of 2025: ten full checks pass, the eleventh is refused': async (t) => {
    const desk = await Desk.open(t, 'ten@example.com');
    const { client } = await connect(t, desk, 'legacy', { checks: 10, days: 30, look: 'consent' });
    assert.deepEqual(await names(client), ['verify_email', 'account']);
    await spend(client, 10);
    const account = (await client.callTool({ name: 'account', arguments: {} })).structuredContent;
    assert.equal(account.credits_remaining, 90);
    assert.equal(account.connection.full_checks_left, 0);
    await desk.page.goto(`${t.base}/connections`);
    await desk.page.getByText('10 of 10').waitFor();
    await t.inspect(desk.page, 'connections');
    await client.close();
    desk.close();
  },
  'the TypeScript client of 2026: with 0 every full check is refused, and fast ones work': async (t) => {
    const desk = await Desk.open(t, 'zero@example.com');
    const { client } = await connect(t, desk, 'modern', { checks: 0, days: 1 });
    assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
    assert.deepEqual(await names(client), ['verify_email', 'account']);
    await spend(client, 0);
    await client.close();
    desk.close();
  },
  'who ends a connection on its page ends it at once': async (t) => {
    const desk = await Desk.open(t, 'end@example.com');
    const { client, provider } = await connect(t, desk, 'modern', { checks: 1 });
    assert.ok(!(await verify(client, 'alice@ok.example', 'full')).isError);
    await desk.page.goto(`${t.base}/connections`);
    await desk.page.getByRole('button', { name: 'End the connection of TypeScript client' }).click();
    await desk.page.getByText('The connection is ended.').waitFor();
    await t.inspect(desk.page, 'connections-none');
    // The client requests consent again by itself; its user declines.
    const before = provider.kept.tokens.access_token;
    const consent = desk.consent.bind(desk);
    desk.consent = (url) => consent(url, { deny: true });
    await assert.rejects(verify(client, 'alice@ok.example', 'fast'));
    assert.equal(provider.kept.back.get('error'), 'access_denied');
    await dead(t, before);
    desk.close();
  },
  'tokens are renewed while the connection lasts, and dead afterwards': async (t) => {
    const desk = await Desk.open(t, 'time@example.com');
    const { client, provider } = await connect(t, desk, 'legacy', { checks: 1, days: 2 });
    const first = provider.kept.tokens.access_token;
    await t.advance(DAY_MS);
    assert.ok(!(await verify(client, 'alice@ok.example', 'full')).isError);
    const second = provider.kept.tokens.access_token;
    assert.notEqual(first, second, 'renewed by the client itself');
    await dead(t, first);
    await t.advance(DAY_MS);
    await dead(t, second);
    desk.close();
  },
  'the Python client of both ages': async (t) => {
    for (const [mode, checks] of [['legacy', 10], ['auto', 10], ['auto', 0]]) {
      const desk = await Desk.open(t, `python-${mode}-${checks}@example.com`);
      const words = [`${t.base}/mcp`, desk.bridge, mode, String(checks)];
      const said = JSON.parse((await t.python('assistant.py', words)).stdout);
      assert.equal(said.version, mode === 'legacy' ? '2025-11-25' : '2026-07-28');
      assert.deepEqual(said.tools, ['verify_email', 'account']);
      assert.deepEqual(said.full, Array.from({ length: checks }, (_, n) => checks - n - 1));
      assert.match(said.refused, /^full_checks_(used_up|not_allowed): /);
      assert.equal(said.fast, 'possible_typo');
      assert.equal(said.credits, 100 - checks);
      desk.close();
    }
  },
});

/** The token is good for nothing. */
async function dead(t, token) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const answer = await fetch(`${t.base}/mcp`, { method: 'POST', headers, body });
  assert.equal(answer.status, 401);
}
