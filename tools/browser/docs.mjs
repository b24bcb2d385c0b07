// The API reference: readable at every size, alone and without script, with examples that work when pasted.

import assert from 'node:assert/strict';
import { suite } from './harness.mjs';

/** What a person would copy. */
const snippets = (page, kind) =>
  page.locator(`pre.${kind}`).evaluateAll((all) => all.map((it) => it.innerText));

/** curl as people have it, but that an answer of 4xx or 5xx is a failure. */
const STRICT = 'curl() { command curl --fail-with-body --silent --show-error "$@"; }\n';

await suite({
  'the page is readable at every size': async (t) => {
    const page = await t.page();
    await page.goto(`${t.base}/docs`);
    assert.equal(await page.locator('h1').innerText(), 'API reference');
    assert.equal(await page.locator('article h3', { hasText: 'Verify one address' }).count(), 2);
    await t.inspect(page, 'docs');
    for (const summary of await page.locator('summary').all()) {
      if (!(await summary.evaluate((it) => it.parentElement.open))) await summary.evaluate((it) => it.click());
    }
    await page.setViewportSize({ width: 390, height: 844 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'too wide when open');
  },
  'it needs no script and nothing from elsewhere': async (t) => {
    const page = await t.page({ script: false, size: 'phone' });
    const asked = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.goto(`${t.base}/docs`);
    assert.deepEqual(asked.filter((path) => !/^\/(docs|assets\/style-[0-9a-f]+\.css)$/.test(path)), []);
    const answers = page.locator('#createBatch > details');
    await answers.last().locator('> summary').click();
    assert.equal(await answers.last().getAttribute('open'), '');
    await page.getByRole('link', { name: 'POST /v1/verify/batch', exact: true }).click();
    assert.equal(await page.evaluate(() => location.hash), '#createBatch');
  },
  'every link of it leads somewhere': async (t) => {
    const page = await t.page();
    await page.goto(`${t.base}/docs`);
    const missing = await page.evaluate(() => [...document.querySelectorAll('a[href^="#"]')]
      .filter((link) => !document.getElementById(link.getAttribute('href').slice(1)))
      .map((link) => link.getAttribute('href')));
    assert.deepEqual(missing, []);
    const whole = await page.getByRole('link', { name: '/v1/openapi.json', exact: true }).getAttribute('href');
    assert.equal((await (await page.request.get(t.base + whole)).json()).openapi, '3.1.0');
  },
  'its examples work when pasted': async (t) => {
    const page = await t.page();
    await page.goto(`${t.base}/docs`);
    const [setup, ...more] = await snippets(page, 'setup');
    assert.deepEqual(more, []);
    const variable = /^export (\w+)='mp_test_\.\.\.'$/.exec(setup)[1];
    const examples = await snippets(page, 'curl');
    assert.ok(examples.length >= 9, `${examples.length} examples`);
    const seen = new Set();
    for (const key of [t.test, t.live]) {
      const told = setup.replace('mp_test_...', key);
      for (const example of examples) {
        const needsLiveKey = /\/v1\/(webhooks|account\/export)/.test(example);
        if (key === t.test && needsLiveKey) continue;
        const said = await t.shell(`${told}\n${STRICT}${example}`);
        if (example.includes('/results')) {
          const [header, ...rows] = said.trimEnd().split('\n');
          assert.ok(header.endsWith(',deliverable,reason') && rows.length === 3, said);
          seen.add('rows');
        } else {
          for (const field of Object.keys(JSON.parse(said || '{}'))) seen.add(field);
        }
      }
    }
    assert.ok(variable);
    for (const field of ['reason', 'checks', 'detail', 'batch_id', 'results', 'plan', 'openapi', 'list_id', 'rows']) {
      assert.ok(seen.has(field), `no answer had ${field}`);
    }
  },
  'an example with a wrong key says so': async (t) => {
    const page = await t.page();
    await page.goto(`${t.base}/docs`);
    const [example] = await snippets(page, 'curl');
    await assert.rejects(t.shell(`export MAILPROBE_KEY=mp_test_wrong\n${STRICT}${example}`), /401/);
  },
});
