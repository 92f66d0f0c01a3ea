// What the walks share: browsers that complain, the API as the console uses it, the keyboard, axe, and screenshots.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';

import { chromium } from 'playwright-core';

export const base = process.env.LINKFORGE_TEST_URL;
const here = import.meta.dirname;
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const documents = JSON.parse(gunzipSync(await readFile(path.join(here, '../../dist/documents.json.gz'))));

export const complaints = [];
let steps = 0;
export const tell = sentence => console.log(`${String(++steps).padStart(2)}. ${sentence}`);

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });

// open opens a browser of its own. It complains about errors of the page, violations of the policy, and requests to other
// hosts. context.asked are the names of the operations that were sent.
export async function open(browser, { width = 1280, dark = false, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width, height: 800 }, colorScheme: dark ? 'dark' : 'light', deviceScaleFactor: 0.5, locale: 'en-GB', timezoneId: 'UTC',
    ignoreHTTPSErrors: true, permissions: ['clipboard-read', 'clipboard-write'], ...options,
  });
  context.setDefaultTimeout(20_000);
  context.asked = [];
  context.allowed = new Set([new URL(base).origin]);
  context.expects = () => false; // which complaints of the browser a test causes
  const complain = text => context.expects(text) || complaints.push(text);
  context.on('console', message => {
    if (['error', 'warning'].includes(message.type())) complain(`the page says: ${message.text()} (${message.location().url})`);
  });
  context.on('weberror', error => complain(`the page fails: ${error.error().stack}`));
  context.on('request', request => {
    const { origin, pathname, protocol } = new URL(request.url());
    if (protocol.startsWith('http') && !context.allowed.has(origin)) complain(`a request to ${request.url()}`);
    if (origin !== new URL(base).origin || pathname !== '/graphql' || request.method() !== 'POST') return;
    const { query, variables } = request.postDataJSON();
    if (!variables?.after) context.asked.push(query.replace(/^(\w+) (\w+)[^]*$/, '$1 $2')); // and no further page
  });
  await context.addInitScript(() => addEventListener('securitypolicyviolation', event =>
    console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`)));
  return context;
}

// ---- the API

// call sends an operation of the console by its name, and returns the payload of its one field.
export async function call(token, name, variables) {
  const query = documents[`console/${name}`];
  assert.ok(query, `there is no operation ${name}`);
  return send(token, query, variables);
}

export async function send(token, query, variables) {
  const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(`${base}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  assert.equal(errors, undefined, JSON.stringify(errors));
  const [payload] = Object.entries(data).filter(([name]) => name !== '__typename').map(([, value]) => value);
  assert.deepEqual(payload?.errors ?? [], [], JSON.stringify(payload?.errors));
  return payload;
}

export const PASSWORD = 'correct horse battery staple';

// ---- the keyboard

// tabTo presses Tab until an element has the focus, as a person without a mouse does.
export async function tabTo(page, locator, key = 'Tab') {
  await locator.first().waitFor();
  const target = await locator.first().elementHandle();
  for (let i = 0; i < 250; i++) {
    if (await target.evaluate(element => element === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  assert.fail(`the keyboard does not reach ${locator}`);
}

export async function press(page, locator, key = 'Enter') {
  await tabTo(page, locator);
  await page.keyboard.press(key);
}

export async function type(page, locator, text) {
  await tabTo(page, locator);
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type(text);
}

export async function logIn(page, { email, password = PASSWORD }) {
  await page.goto(`${base}/app`);
  await type(page, page.getByLabel('E-mail'), email);
  await type(page, page.getByLabel('Password'), password);
  await page.keyboard.press('Enter');
}

// ---- what it looks like

// settled waits until nothing is loaded any more, so that what is looked at is complete.
export async function settled(page) {
  await page.waitForFunction(() => !document.querySelector('[aria-busy=true], .stale'));
}

// check has axe look at a page, in both widths and colours, and compares screenshots of two of these with those that are committed.
export async function check(page, name, { shots = false } = {}) {
  await settled(page);
  const before = page.viewportSize();
  for (const [width, colorScheme] of [[1280, 'light'], [1280, 'dark'], [360, 'light'], [360, 'dark']]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await settled(page);
    await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, { timeout: 2000 }).catch(() => {});
    await page.evaluate(axe);
    const violations = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations
      .map(({ id, nodes }) => `${id}: ${nodes.map(node => `${node.target} ${node.failureSummary}`).slice(0, 3).join(' | ')}`));
    for (const violation of violations) complaints.push(`axe, ${name}, ${width} px, ${colorScheme}: ${violation}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth && [...document.querySelectorAll('main *')]
      .filter(element => element.getBoundingClientRect().right > innerWidth).map(element => element.outerHTML.slice(0, 80)).slice(0, 6).join(' '));
    if (wide) complaints.push(`${name} is wider than ${width}: ${wide}`);
    if (shots && (width === 1280) === (colorScheme === 'light')) await compare(page, `${name}-${width}`);
  }
  await page.setViewportSize(before);
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
}

// compare compares the mean brightness of the squares that show something, so that other times and codes make no difference, but other
// places do.
async function compare(page, name) {
  const now = await page.screenshot({ type: 'jpeg', quality: 60, animations: 'disabled' });
  const file = path.join(here, 'shots', `${name}.jpg`);
  if (process.env.UPDATE_SHOTS) {
    await mkdir(path.dirname(file), { recursive: true });
    return writeFile(file, now);
  }
  const then = await readFile(file).catch(() => null);
  if (!then) return complaints.push(`there is no screenshot ${file}: UPDATE_SHOTS=1 makes it`);
  const blank = await page.context().browser().newPage();
  const different = await blank.evaluate(async images => {
    const SQUARE = 10, TOLERANCE = 20, INK = 8;
    const [a, b] = await Promise.all(images.map(async image => {
      const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(image), c => c.charCodeAt(0))]));
      const canvas = new OffscreenCanvas(Math.ceil(bitmap.width / SQUARE), Math.ceil(bitmap.height / SQUARE));
      const context = canvas.getContext('2d');
      context.imageSmoothingQuality = 'high';
      context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      return context.getImageData(0, 0, canvas.width, canvas.height).data;
    }));
    if (a.length !== b.length) return 1;
    const light = (image, i) => (image[i] + image[i + 1] + image[i + 2]) / 3;
    let far = 0, inked = 0; // of the squares that are not as empty as the last one
    for (let i = 0; i < a.length; i += 4) {
      const [inkOfA, inkOfB] = [a, b].map(image => Math.abs(light(image, i) - light(image, a.length - 4)));
      if (Math.max(inkOfA, inkOfB) > INK) inked++;
      if (Math.abs(light(a, i) - light(b, i)) > TOLERANCE) far++;
    }
    return far / inked;
  }, [now, then].map(image => image.toString('base64')));
  await blank.close();
  if (different > 0.2) {
    await writeFile(path.join(process.env.SHOTS_OUT ?? '.', `${name}.jpg`), now);
    complaints.push(`${name} looks different: ${Math.round(100 * different)} % of it`);
  }
}
