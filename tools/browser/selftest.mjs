// The harness itself: it must detect the errors that the other scripts rely on.

import assert from 'node:assert/strict';
import { suite } from './harness.mjs';

const PAGE = (body) => `<!doctype html><html lang="en"><title>t</title><main><h1>t</h1>${body}</main></html>`;

/** Shows a page of ours in place of one of the server's. */
async function show(t, body, headers = {}) {
  const page = await t.page();
  await page.route('**/livez', (route) =>
    route.fulfill({ contentType: 'text/html', headers, body: PAGE(body) }));
  await page.goto(`${t.base}/livez`);
  return page;
}

async function noticed(t, pattern) {
  assert.throws(() => t.verdict(), /faults on its pages/);
  assert.match(t.faults.join('\n'), pattern);
  t.faults = [];
}

await suite({
  'the server is there': async (t) => {
    const page = await t.page();
    const answer = await page.goto(`${t.base}/livez`);
    assert.equal(answer.status(), 200);
    assert.match(await t.mailprobe('account', 'list'), /default/);
  },
  'its keys work with curl': async (t) => {
    const said = await t.shell(`curl --silent --fail --header "Authorization: Bearer $KEY" ${t.base}/v1/account`,
      { KEY: t.live });
    assert.equal(JSON.parse(said).plan, 'free');
  },
  'time can pass': async (t) => {
    const now = async () => Number(await t.mailprobe('clock', 'advance', '0'));
    const before = await now();
    await t.advance(86_400_000);
    assert.ok((await now()) - before >= 86_400_000);
  },
  'Chromium keeps a __Host- cookie of a loopback address without TLS': async (t) => {
    const page = await show(t, '', { 'set-cookie': '__Host-t=1; Path=/; Secure; HttpOnly; SameSite=Lax' });
    const kept = await page.context().cookies();
    assert.deepEqual(kept.map(({ name, secure }) => [name, secure]), [['__Host-t', true]]);
  },
  'an error on the console is noticed': async (t) => {
    await show(t, '<script>console.error("oh")</script>');
    await noticed(t, /console error: oh/);
  },
  'an error of a script is noticed': async (t) => {
    await show(t, '<script>throw new Error("oh")</script>');
    await noticed(t, /script: Error: oh/);
  },
  'what a policy blocks is noticed': async (t) => {
    await show(t, '<script>1</script>', { 'content-security-policy': "default-src 'none'" });
    await noticed(t, /console error: .*Content Security Policy/);
  },
  'a request elsewhere is noticed': async (t) => {
    await show(t, '<img alt="t" src="http://127.0.0.1:9/x.png">');
    await noticed(t, /request elsewhere: http:\/\/127\.0\.0\.1:9\/x\.png/);
  },
  'an answer that says no is noticed': async (t) => {
    const page = await t.page();
    await page.goto(`${t.base}/v1/account`);
    await noticed(t, /answer 401: \/v1\/account/);
  },
  'a fault of accessibility is noticed, under a policy too': async (t) => {
    const policy = { 'content-security-policy': "default-src 'none'" };
    const page = await show(t, '<button></button>', policy);
    await assert.rejects(t.accessible(page, 'it'), /button-name/);
    await t.accessible(await show(t, '<button>t</button>', policy), 'it');
  },
  'a page that is too wide is noticed': async (t) => {
    const page = await show(t, '<pre>' + 'w'.repeat(2000) + '</pre>');
    await assert.rejects(t.inspect(page, 'selftest'), /pixels wider than the screen/);
  },
  'a table that does not fit is noticed': async (t) => {
    const table = (cell) => `<table><tr><td class="number">${cell}</td></tr></table>`;
    const scrolled = `<div class="scroll" style="overflow-x: auto" tabindex="0" role="region" aria-label="Sums">${table('1'.repeat(2000))}</div>`;
    await assert.rejects(t.inspect(await show(t, scrolled), 'selftest'), /the table Sums is wider than its place/);
    const narrow = `<div style="width: 3em">${table('99.7 %')}</div>`.replace('<table', '<table style="width: 3em"');
    await assert.rejects(t.inspect(await show(t, narrow), 'selftest'), /99.7 % is in several lines/);
  },
});
