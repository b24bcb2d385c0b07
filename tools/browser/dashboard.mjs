// The dashboard with the actions of a user: from the landing page to an account, keys, checks and sign-out.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite } from './harness.mjs';

const PASSWORD = 'correct horse battery';

async function signUp(page, t, email) {
  await page.goto(`${t.base}/signup`);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

const credits = async (page, t) => {
  await page.goto(t.base);
  return Number((await page.locator('#credits').textContent()).replaceAll(',', ''));
};

await suite({
  'pages for visitors': async (t) => {
    const page = await t.page();
    for (const [path, name] of [['/', 'landing'], ['/signin', 'signin'], ['/signup', 'signup']]) {
      await page.goto(t.base + path);
      await t.inspect(page, name);
    }
    await page.goto(t.base);
    const answer = await t.shell(await page.locator('#request').textContent(), { MAILPROBE_KEY: t.test });
    assert.equal(answer, await page.locator('#answer').textContent());
  },
  'a new account and its empty pages': async (t) => {
    const page = await t.page();
    await signUp(page, t, 'empty@example.com');
    const paths = ['', 'try', 'keys', 'lists', 'usage', 'batches', 'webhooks', 'connections', 'plan', 'sessions', 'account/delete'];
    for (const path of paths) {
      await page.goto(`${t.base}/${path}`);
      await t.inspect(page, `empty-${path.replace('/', '-') || 'overview'}`);
    }
    t.allow(/404/);
    await page.goto(`${t.base}/nothing`);
    await page.getByRole('heading', { name: 'Not found' }).waitFor();
    await t.inspect(page, 'nothing');
  },
  'a key is shown once, copied, works with curl and is revoked at once': async (t) => {
    const page = await t.page({ permissions: ['clipboard-read', 'clipboard-write'] });
    await signUp(page, t, 'keys@example.com');
    await page.goto(`${t.base}/keys`);
    await page.getByLabel('Label').fill('<b>shop</b>');
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = await page.getByLabel('API key').inputValue();
    await t.inspect(page, 'key-made');
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
    const ask = `curl --silent --header "Authorization: Bearer $KEY" ${t.base}/v1/account`;
    assert.equal(JSON.parse(await t.shell(ask, { KEY: key })).credits_remaining, 100);
    await page.goto(`${t.base}/keys`);
    assert.equal(await page.getByLabel('API key').count(), 0);
    assert.equal(await page.getByText('<b>shop</b>').count(), 1);
    await page.locator('.confirm summary').click();
    await t.inspect(page, 'key-revocation');
    await page.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByText('Revoked and expired keys (1)').waitFor();
    assert.equal(JSON.parse(await t.shell(ask, { KEY: key })).error, 'api_key_revoked');
  },
  'an address is tried, without script and by the keyboard alone': async (t) => {
    const page = await t.page({ script: false, size: 'phone' });
    await signUp(page, t, 'try@example.com');
    await page.goto(`${t.base}/try`);
    await page.getByLabel('Address').focus();
    await page.keyboard.type('alice@ok.example');
    await page.keyboard.press('Enter');
    await page.getByText('mailbox_exists').waitFor();
    assert.equal(await credits(page, t), 99);
  },
  'usage has a chart': async (t) => {
    const page = await t.page();
    await signUp(page, t, 'usage@example.com');
    for (const local of ['alice', 'info', 'full', 'nobody', 'gone']) {
      await page.goto(`${t.base}/try`);
      await page.getByLabel('Address').fill(`${local}@ok.example`);
      await page.getByRole('button', { name: 'Check' }).click();
      await page.getByText('1 credit.').waitFor();
    }
    await t.inspect(page, 'try-result');
    await page.goto(`${t.base}/usage`);
    await page.getByText('Show as table').click();
    await t.inspect(page, 'usage');
    const [csv] = await Promise.all([
      page.waitForEvent('download'), page.getByRole('link', { name: 'Download as CSV' }).click(),
    ]);
    const days = (await readFile(await csv.path(), 'utf8')).trimEnd().split('\n');
    assert.equal(days.length, 31);
    assert.ok(days[30].split(',').includes('5'), days[30]);
    assert.equal(await credits(page, t), 95);
    await t.inspect(page, 'overview');
  },
  'a list of 1,000 rows goes from upload to download': async (t) => {
    const page = await t.page();
    await signUp(page, t, 'lists@example.com');
    await t.mailprobe('account', 'set-plan', 'lists@example.com', 'starter');
    const rows = Array.from({ length: 1000 }, (_, n) => `${n},${n % 10 ? `user-${n}@ok.example` : 'none'}`);
    const list = ['id,email', ...rows].join('\n');
    await page.goto(`${t.base}/lists`);
    const name = '<b>list</b>.csv';
    await page.getByLabel('File').setInputFiles({ name, mimeType: 'text/csv', buffer: Buffer.from(list) });
    await page.getByRole('button', { name: 'Upload' }).click();
    await page.getByText('900 credits').waitFor();
    assert.equal(await page.getByRole('heading', { name }).count(), 1);
    await t.inspect(page, 'list-ready');
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByText('of 900 different addresses checked').waitFor();
    await t.inspect(page, 'list-running');
    // Without a reload: the page updates itself.
    const button = page.getByRole('button', { name: 'Download result' });
    await button.waitFor({ timeout: 120_000 });
    await t.inspect(page, 'list-completed');
    const fetched = async (rows, format) => {
      await page.getByLabel('Rows').selectOption(rows);
      await page.getByLabel('Format').selectOption(format);
      const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
      return [download.suggestedFilename(), await readFile(await download.path())];
    };
    const [file, sheet] = await fetched('Undeliverable', 'Spreadsheet (xlsx)');
    assert.equal(file, 'b-list-b.undeliverable.xlsx');
    assert.equal(sheet.subarray(0, 2).toString(), 'PK');
    const [, good] = await fetched('Deliverable', 'JSON lines');
    assert.equal(good.toString().trimEnd().split('\n').length, 900);
    const result = (await fetched('All rows', 'Format of the list'))[1].toString().trimEnd().split('\n');
    assert.equal(result.length, 1001);
    assert.equal(result[0], 'id,email,deliverable,reason');
    result.slice(1).forEach((row, n) => {
      const verdict = n % 10 ? 'true,mailbox_exists' : 'false,invalid_syntax';
      assert.equal(row, `${rows[n]},${verdict}`);
    });
    assert.equal(await credits(page, t), 4100);
    await page.goto(`${t.base}/lists`);
    await t.inspect(page, 'lists');
    await page.getByRole('link', { name }).click();
    await page.getByRole('link', { name: 'Open report' }).click();
    await page.getByText('1,000 rows').waitFor();
    await t.inspect(page, 'list-report');
  },
  'long names and large numbers fit into the tables': async (t) => {
    const page = await t.page();
    const long = 'newsletter.department-of-the-northern-region.consolidated-holdings.example';
    const email = `first.last@${long}`;
    await signUp(page, t, email);
    await t.mailprobe('account', 'grant', email, '987654321');
    let key;
    for (const label of ['W'.repeat(60), 'The shop of the northern region, for the new form']) {
      await page.goto(`${t.base}/keys`);
      await page.getByLabel('Label').fill(label);
      await page.locator('input[name=account]').uncheck();
      await page.getByLabel('Expiry').selectOption('After 30 days');
      await page.getByRole('button', { name: 'Create key' }).click();
      key = await page.getByLabel('API key').inputValue();
    }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const emails = [...Array.from({ length: 150 }, (_, n) => `user-${n}@ok.example`), 'blocked@ok.example', email, `a@${long}`];
    const body = JSON.stringify({ emails, name: 'Customers of the northern region who have bought something in the last year' });
    const created = await (await fetch(`${t.base}/v1/verify/batch`, { method: 'POST', headers, body })).json();
    const batch = `batches/${created.batch_id}`;
    await page.goto(`${t.base}/${batch}`);
    await page.getByText('153 of 153 addresses have a result').waitFor();
    for (const path of ['keys', 'usage', 'batches', batch]) {
      await page.goto(`${t.base}/${path}`);
      await page.evaluate(() => document.querySelectorAll('details').forEach((each) => { each.open = true; }));
      await t.inspect(page, `long-${path.split('/').length > 1 ? 'batch' : path}`);
    }
  },
  'signing out ends the session': async (t) => {
    const page = await t.page();
    await signUp(page, t, 'out@example.com');
    const cookies = await page.context().cookies();
    assert.ok(cookies.some(({ name, secure, httpOnly }) => name === '__Host-mailprobe' && secure && httpOnly));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Mail address verification' }).waitFor();
    await page.context().addCookies(cookies);
    await page.goto(`${t.base}/keys`);
    await page.getByRole('heading', { name: 'Sign-in' }).waitFor();
  },
  'a link of the operator signs in once': async (t) => {
    const page = await t.page();
    const link = (await t.mailprobe('account', 'sign-in-link', 'default')).trim();
    const path = link.slice(link.indexOf('/signin/link'));
    await page.goto(t.base + path);
    await t.inspect(page, 'signin-link');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    t.allow(/404/);
    await page.goto(t.base + path);
    await page.getByText('This sign-in link was used').waitFor();
    await t.inspect(page, 'not-found');
  },
});
