// The pictures of README, for `cargo xtask pictures`: a trace on a terminal, and the overview of an account after a month.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite } from './harness.mjs';

const HOUR_MS = 60 * 60 * 1000;
/** Each picture is about 1,280 pixels wide, and its letters are large enough at the width of README. */
const PAGE = { size: { width: 1120, height: 800 }, scale: 1280 / 1120 };
const TERMINAL = { size: { width: 900, height: 900 }, scale: 1.5 };
/** A border sets the page off from README, which is white too. */
const BORDER = { position: 'fixed', inset: 0, border: '1px solid #c4c8d2' };
/** Single checks and rows of a batch on each day of the month; the last day is today. */
const DAYS = [
  [32, 60], [41, 55], [38, 80], [22, 0], [17, 0], [44, 70], [47, 62], [39, 75], [52, 90], [43, 66],
  [26, 0], [19, 0], [49, 85], [55, 72], [46, 95], [51, 64], [58, 100], [31, 0], [24, 0], [53, 78],
  [60, 88], [48, 110], [57, 92], [62, 120], [35, 0], [28, 0], [59, 84], [64, 105], [54, 98], [50, 76],
];
/** The day on which the account uploads a list, and the rows of the list. */
const LIST = { day: 22, rows: 90 };
/** The hours between two days, so that not everything happens at the same minute. */
const STEPS = [24.6, 23.3, 24.2, 23.9];

let asked = 0;
/** The next address. Most of twenty exist, some do not exist, some are at a server that accepts every recipient. */
function address() {
  asked += 1;
  const kind = asked % 20;
  if (kind < 14) return `user-${asked}@customers.example`;
  return kind < 18 ? `user-${asked}@moved.example` : `user-${asked}@accepts-all.example`;
}
const addresses = (count) => Array.from({ length: count }, address);

async function signUp(page, t) {
  await page.goto(`${t.base}/signup`);
  await page.getByLabel('E-mail address').fill('shop@example.com');
  await page.getByLabel('Password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await t.mailprobe('account', 'set-plan', 'shop@example.com', 'starter');
  await page.goto(`${t.base}/keys`);
  await page.getByLabel('Label').fill('website');
  await page.getByRole('button', { name: 'Create key' }).click();
  return page.getByLabel('API key').inputValue();
}

/** A request of the API; gives the answer. */
async function call(t, key, path, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const init = body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(`${t.base}/v1/${path}`, init);
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

async function single(t, key, count) {
  await Promise.all(addresses(count).map((email) => call(t, key, 'verify', { email })));
}

async function batch(t, key, count) {
  const { batch_id: id } = await call(t, key, 'verify/batch', { emails: addresses(count) });
  while ((await call(t, key, `verify/batch/${id}`)).status !== 'completed') {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function upload(page, t, rows) {
  const buffer = Buffer.from(['email', ...addresses(rows)].join('\n'));
  await page.goto(`${t.base}/lists`);
  await page.getByLabel('File').setInputFiles({ name: 'newsletter.csv', mimeType: 'text/csv', buffer });
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('button', { name: 'Download result' }).waitFor({ timeout: 60_000 });
}

await suite({
  'a trace on a terminal': async (t) => {
    const page = await t.page(TERMINAL);
    await page.setContent(await readFile(process.env.BROWSER_TRACE, 'utf8'));
    await page.locator('main').screenshot({ path: join(process.env.BROWSER_SHOTS, 'trace.png'), omitBackground: true });
  },
  'the overview of an account': async (t) => {
    const page = await t.page(PAGE);
    const key = await signUp(page, t);
    for (const [day, [singles, rows]] of DAYS.entries()) {
      if (day > 0) await t.advance(Math.round(STEPS[day % STEPS.length] * HOUR_MS));
      await single(t, key, singles);
      if (rows > 0) await batch(t, key, rows);
      if (day === LIST.day) await upload(page, t, LIST.rows);
      // The session of a user ends after a week without a page.
      await page.goto(t.base);
    }
    const chart = await page.locator('section', { hasText: 'Last 30 days' }).boundingBox();
    await page.setViewportSize({ width: PAGE.size.width, height: Math.ceil(chart.y + chart.height) + 16 });
    await page.evaluate((style) => {
      Object.assign(document.body.appendChild(document.createElement('div')).style, style);
    }, BORDER);
    await page.screenshot({ path: join(process.env.BROWSER_SHOTS, 'dashboard.png') });
  },
});
