// The shared parts of the browser tests: a Chromium, pages that record their errors, and the counts.
//
// `cargo xtask browser` starts a server on an empty data folder for every script, and passes its URL in the
// environment. A script is a list of tests; each gets a `t`:
//
//   import { suite } from './harness.mjs';
//   await suite({
//     'what it shows': async (t) => { const page = await t.page(); await page.goto(t.base + '/docs'); ... },
//   });
//
// A test fails by throwing (node:assert), and also if one of its pages logged or threw an error, requested a host
// other than the server, or was answered a 4xx or 5xx that the test had not announced by `t.allow(pattern)`.

import { chromium } from 'playwright-core';
import { execFile } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const environment = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run the tests by \`cargo xtask browser\``);
  return value;
};

/** Chromium makes no request of its own, and no GPU, sandbox or second process model is needed. */
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
];
const SIZES = { phone: { width: 390, height: 844 }, desktop: { width: 1200, height: 900 } };
const SCHEMES = ['light', 'dark'];
/** For one step on a page. On a busy machine without a GPU, a screenshot of the API reference takes over 15 s: on a phone, the
 *  page is 120,000 pixels high. */
const STEP_MS = 60_000;
/** For one test as a whole. */
const TEST_MS = 300_000;
const COMMAND_MS = 60_000;

const here = fileURLToPath(new URL('.', import.meta.url));
const base = environment('BROWSER_BASE');
const shots = environment('BROWSER_SHOTS');
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Runs the tests one after another, prints a line for each and ends the process by what came of them. */
export async function suite(tests) {
  await mkdir(shots, { recursive: true });
  const browser = await chromium.launch({ executablePath: environment('BROWSER_CHROMIUM'), args: FLAGS });
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    const t = new Test(browser);
    const began = Date.now();
    try {
      await within(TEST_MS, test(t));
      t.verdict();
      console.log(`ok    ${name}: ${Date.now() - began} ms`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${name}: ${error?.stack ?? error}`);
      for (const fault of t.faults) console.log(`      ${fault}`);
      await t.shootAll(name);
    }
    await t.close();
  }
  await browser.close();
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}

class Test {
  constructor(browser) {
    this.browser = browser;
    this.contexts = [];
    this.faults = [];
    this.allowed = [];
    /** Where the server is, without a slash at its end. */
    this.base = base;
    /** The first account's keys. */
    this.live = environment('BROWSER_LIVE_KEY');
    this.test = environment('BROWSER_TEST_KEY');
  }

  /**
   * A page of a browser that nobody has used. `size` is phone, desktop, or a width and height; `scale` is the number of pixels of a
   * screenshot per pixel of the page; `script: false` switches scripts off.
   */
  async page({ size = 'desktop', scale = 1, scheme = 'light', script = true, permissions = [] } = {}) {
    const context = await this.browser.newContext({
      viewport: SIZES[size] ?? size, deviceScaleFactor: scale, colorScheme: scheme, javaScriptEnabled: script, permissions, locale: 'en-GB',
      timezoneId: 'UTC', isMobile: size === 'phone', hasTouch: size === 'phone', acceptDownloads: true,
    });
    context.setDefaultTimeout(STEP_MS);
    this.contexts.push(context);
    context.on('page', (page) => this.watch(page));
    return context.newPage();
  }

  watch(page) {
    const note = (what) => this.faults.push(what);
    page.on('console', (said) => {
      // Pages name their icon. Chromium only requests a default one for a page of JSON.
      if (said.location().url === `${base}/favicon.ico`) return;
      if (said.type() === 'error' || said.type() === 'warning') {
        note(`console ${said.type()}: ${said.text()} (${said.location().url})`);
      }
    });
    page.on('pageerror', (error) => note(`script: ${error}`));
    page.on('request', (request) => {
      const url = new URL(request.url());
      const elsewhere = url.protocol.startsWith('http') && url.origin !== new URL(base).origin;
      if (elsewhere) note(`request elsewhere: ${url.origin}${url.pathname}`);
    });
    page.on('response', (response) => {
      if (response.status() >= 400) note(`answer ${response.status()}: ${new URL(response.url()).pathname}`);
    });
  }

  /** What may go wrong in this test: faults that fit the pattern do not count. */
  allow(pattern) {
    this.allowed.push(pattern);
  }

  verdict() {
    const left = this.faults.filter((fault) => !this.allowed.some((pattern) => pattern.test(fault)));
    this.faults = left;
    if (left.length > 0) throw new Error(`${left.length} faults on its pages`);
  }

  /**
   * Looks at the page at both widths, in light and dark: nothing to scroll sideways, no table on a desktop that has to be
   * scrolled or that breaks a number or a short code, no serious fault of accessibility. Each look is kept as a screenshot `NAME-phone-dark.png`.
   */
  async inspect(page, name) {
    const before = page.viewportSize();
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.setViewportSize(viewport);
      for (const scheme of SCHEMES) {
        await page.emulateMedia({ colorScheme: scheme });
        const path = join(shots, `${name}-${size}-${scheme}.png`);
        await page.screenshot({ path, fullPage: true, animations: 'disabled' });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) throw new Error(`${name}, ${size}: ${wide} pixels wider than the screen`);
        const broken = size === 'desktop' ? await page.evaluate(brokenTables) : [];
        if (broken.length > 0) throw new Error(`${name}, ${size}: ${broken.join('; ')}`);
        await this.accessible(page, `${name}, ${size}, ${scheme}`);
      }
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize(before);
  }

  /** axe-core finds no serious or critical fault. Works with scripts on only. */
  async accessible(page, what) {
    if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    const told = grave.map(({ id, help, nodes }) => {
      const where = nodes.slice(0, 3).map((node) => `${node.target}: ${node.failureSummary}`);
      return `  ${id}: ${help}\n    ${where.join('\n    ')}`;
    });
    if (told.length > 0) throw new Error(`${what} is not accessible:\n${told.join('\n')}`);
  }

  /** A screenshot of the page as it is. */
  async shoot(page, name) {
    await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true, animations: 'disabled' });
  }

  /** The pages of a test that failed, as far as they can still be shown. */
  async shootAll(name) {
    const file = name.replace(/[^A-Za-z0-9]+/g, '-');
    for (const [number, page] of this.contexts.flatMap((context) => context.pages()).entries()) {
      await this.shoot(page, `FAIL-${file}-${number}`).catch((error) => console.log(`      no screenshot: ${error}`));
    }
  }

  /** Runs a command of `mailprobe` on the server's data folder; gives what it prints. */
  async mailprobe(...words) {
    const data = ['--data', environment('BROWSER_DATA')];
    return (await this.run(environment('BROWSER_MAILPROBE'), [...words, ...data])).stdout;
  }

  /** Lets time pass on the server: its wall clock alone, not its time-outs. */
  async advance(ms) {
    await this.mailprobe('clock', 'advance', String(ms));
  }

  /** Runs a program, with more in its environment; throws with what it said when it fails. */
  async run(program, words, more = {}) {
    const env = { ...process.env, ...more };
    return promisify(execFile)(program, words, { env, timeout: COMMAND_MS, maxBuffer: 1 << 24 });
  }

  /** Runs what a page says to paste into a shell; gives what it prints. */
  async shell(text, more = {}) {
    return (await this.run('/bin/sh', ['-euc', text], more)).stdout;
  }

  /** Runs a Python script of this folder with the packages of requirements.txt. */
  async python(script, words, more = {}) {
    return this.run(environment('BROWSER_PYTHON'), [join(here, script), ...words], more);
  }

  async close() {
    for (const context of this.contexts) await context.close();
  }
}

/** What does not fit into the tables of the page. Runs in the page. */
function brokenTables() {
  const places = [...document.querySelectorAll('.scroll')].filter((place) => place.scrollWidth > place.clientWidth);
  const wide = places.map((place) => `the table ${place.getAttribute('aria-label')} is wider than its place`);
  const cells = [...document.querySelectorAll('td.number, td.mono, td .whole')];
  const lines = (text) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
  };
  const texts = cells.flatMap((cell) => [...cell.childNodes]).filter((node) => node.nodeType === Node.TEXT_NODE);
  const cut = texts.filter((text) => text.length <= 24 && lines(text) > 1);
  return [...wide, ...cut.map((text) => `${text.data} is in several lines`)];
}

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
