// Uses the built page as a newcomer would, in a headless Chromium, with the server at LINKFORGE_URL:
//
//   node e2e.mjs PAGE_URL SCREENSHOT_FOLDER
//
// The page is served here, at PAGE_URL, which the server must have been told in LINKFORGE_ORIGINS. CHROMIUM names the browser.
// Exits with 1 when a step fails or the browser complains about anything.
import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';

import { chromium } from 'playwright-core';

const [address, folder] = process.argv.slice(2);
const api = new URL('/graphql', process.env.LINKFORGE_URL).href;
const origin = new URL(address).origin;
const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

const complaints = [];
let steps = 0;
const tell = sentence => console.log(`${String(++steps).padStart(2)}. ${sentence}`);

await mkdir(folder, { recursive: true });
const server = await serve();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
const context = await openContext();
const page = await context.newPage();
try {
  const visitor = await anonymousVisitor();
  const account = await story();
  await claims(visitor, account);
  await others();
} catch (error) {
  complaints.push(error.message.replace(/\u001b\[\d+m/g, ''));
  await shot('failed').catch(() => {});
} finally {
  await browser.close();
  server.close();
}
for (const complaint of complaints) console.error(`FAILED: ${complaint}`);
console.log(complaints.length ? `${complaints.length} complaints.` : 'The example works.');
process.exitCode = complaints.length ? 1 : 0;

async function openContext() {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, colorScheme: 'light' });
  context.setDefaultTimeout(15_000);
  context.on('console', message => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`the console: ${message.text()} (${message.location().url})`);
  });
  context.on('weberror', error => complaints.push(`the page: ${error.error().message}`));
  return context;
}

// anonymousVisitor creates a link without an account in a browser of its own, and returns its page.
async function anonymousVisitor() {
  const visitor = await (await openContext()).newPage();
  await visitor.goto(address);
  await createAnonymously(visitor, 'expires');
  const [stored] = await storedLinks(visitor);
  assert.match(stored.claimToken, /^claim_/);
  assert.equal(stored.url, `${origin}/destination?n=expires`);
  tell('A visitor creates a link without an account, and the browser stores its claim token.');
  return visitor;
}

async function createAnonymously(visitor, n) {
  await visitor.getByLabel('Destination').fill(`${origin}/destination?n=${n}`);
  await visitor.getByRole('button', { name: 'Shorten without an account' }).click();
  await visitor.getByText('Register or log in to keep it.').waitFor();
}

function storedLinks(visitor) {
  return visitor.evaluate(() => JSON.parse(localStorage.getItem('linkforge.anonymous') ?? '[]'));
}

// claims signs in with three stored links: one to be claimed, one that has expired, and one that the server does not know.
// Then it creates the expired one again, and presents the token of the claimed one a second time.
async function claims(visitor, account) {
  const [expired] = await storedLinks(visitor);
  while ((await fetch(expired.shortUrl, { redirect: 'manual' })).status !== 410) await visitor.waitForTimeout(250);
  await createAnonymously(visitor, 'claimed');
  const fresh = (await storedLinks(visitor)).find(link => link.claimToken !== expired.claimToken);
  await visitor.evaluate(() => {
    const stored = JSON.parse(localStorage.getItem('linkforge.anonymous'));
    const unknown = { claimToken: 'claim_UNKNOWN', shortUrl: 'https://unknown.example/x', url: 'https://example.com/', expiresAt: new Date().toISOString() };
    localStorage.setItem('linkforge.anonymous', JSON.stringify([...stored, unknown]));
  });
  await signIn(visitor, account);
  await visitor.getByText('Links claimed: 1. No longer available: https://unknown.example/x.').waitFor();
  await visitor.locator('tbody').getByText(`${origin}/destination?n=claimed`).waitFor();
  assert.deepEqual((await storedLinks(visitor)).map(link => link.claimToken), [expired.claimToken]);
  assert.equal((await fetch(fresh.shortUrl, { redirect: 'manual' })).status, 302);
  await visitor.screenshot({ path: path.join(folder, `${String(steps + 1).padStart(2, '0')}-claimed.png`) });
  tell('At sign-in a link is claimed with its code, an unknown one is dropped, and an expired one stays.');

  await visitor.reload();
  await visitor.getByText(`${expired.shortUrl} ended before you signed in.`).waitFor();
  await visitor.getByRole('button', { name: 'Create again' }).click();
  await visitor.getByText(`replaces ${expired.shortUrl}.`).waitFor();
  await visitor.locator('tbody').getByText(`${origin}/destination?n=expires`).waitFor();
  assert.deepEqual(await storedLinks(visitor), []);
  assert.equal(await visitor.locator('#expired li').count(), 0);
  tell('The expired link is offered after a reload too, and created again with another short URL.');

  await visitor.evaluate(link => localStorage.setItem('linkforge.anonymous', JSON.stringify([link])), fresh);
  await visitor.reload();
  await visitor.getByText('Links claimed: 1.').waitFor();
  assert.deepEqual(await storedLinks(visitor), []);
  tell('A second claim by the same workspace changes nothing.');
}

async function signIn(visitor, { email, password }) {
  await visitor.getByLabel('E-mail').fill(email);
  await visitor.getByLabel('Password').fill(password);
  await visitor.getByRole('button', { name: 'Log in' }).click();
}

async function story() {
  const slug = `ada-${Date.now().toString(36)}`;
  await page.goto(address);
  await page.getByLabel('Your name').fill('Ada Lovelace');
  await page.getByLabel('E-mail').fill(`${slug}@example.com`);
  await page.getByLabel('Password').fill('short');
  await page.getByRole('button', { name: 'Register' }).click();
  const password = page.getByLabel('Password');
  await page.locator('input[name=password][aria-invalid=true]').waitFor();
  assert.match(await password.evaluate(e => document.getElementById(e.getAttribute('aria-describedby')).textContent), /8 characters/);
  await shot('wrong');
  tell('A short password is refused, and its field says why.');

  await password.fill('correct horse battery staple');
  await page.getByRole('button', { name: 'Register' }).click();
  await page.getByText('Ada Lovelace').waitFor();
  await page.getByRole('heading', { name: 'Your first workspace' }).waitFor();
  tell(`${slug}@example.com registers.`);

  await page.getByRole('textbox', { name: 'Name' }).fill('Analytical Engines');
  await page.getByLabel('Slug').fill(slug);
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.getByRole('heading', { name: 'Links of Analytical Engines' }).waitFor();
  await shot('workspace');
  tell('A workspace is created.');

  for (let i = 1; i <= 7; i++) {
    await page.getByLabel('URL').fill(`${origin}/destination?n=${i}`);
    await page.getByLabel('Title').fill(`Destination ${i}`);
    await page.getByRole('button', { name: 'Shorten' }).click();
    await page.locator('tbody').getByText(`Destination ${i}`).waitFor();
    await page.getByText('is ready.').waitFor();
  }
  assert.equal(await page.locator('tbody tr').count(), 5);
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('7 of 7').waitFor();
  assert.equal(await page.locator('tbody tr').count(), 7);
  assert.equal(await page.getByRole('button', { name: 'Show more' }).isVisible(), false);
  tell('Seven links are made, and listed in pages of five.');

  const row = page.locator('tbody tr', { hasText: 'Destination 3' });
  for (let n = 1; n <= 3; n++) {
    await follow(row.getByRole('link'), `${origin}/destination?n=3`);
    await row.locator('td.number', { hasText: new RegExp(`^${n}$`) }).waitFor();
    await page.locator('#clicks li').nth(n - 1).waitFor();
  }
  assert.equal(await page.locator('#clicks li', { hasText: 'Destination 3' }).count(), 3);
  await shot('clicks');
  tell('Three clicks on a short URL are shown as they come, and counted.');

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: 'dark' });
  let cut = 0;
  await page.route(api, route => {
    const watching = route.request().postData()?.includes('subscription Clicks');
    return watching && cut++ === 0 ? route.abort() : route.continue();
  });
  const before = complaints.length;
  const watching = page.waitForResponse(response => response.request().postData()?.includes('subscription Clicks') ?? false);
  await page.reload();
  await watching;
  assert.equal(cut, 2);
  await follow(page.locator('tbody tr').first().getByRole('link'), `${origin}/destination?n=7`);
  await page.locator('#clicks li', { hasText: 'Destination 7' }).waitFor();
  complaints.length = before; // the browser's own note of the connection that was cut
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'the page is wider than a phone');
  await shot('phone');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('You have logged out.').waitFor();
  await page.getByLabel('E-mail').fill(`${slug}@example.com`);
  await page.getByLabel('Password').fill('correct horse battery staple');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('tbody tr').first().waitFor();
  tell('After a reload, on a phone in the dark, the session is still there, clicks come although the first connection was cut, and the links are there after the next log-in.');

  // The token is not taken any more: the next request is refused, and sent again with a new one.
  await page.evaluate(() => {
    const session = JSON.parse(sessionStorage.getItem('linkforge.session'));
    sessionStorage.setItem('linkforge.session', JSON.stringify({ ...session, token: 'spent' }));
  });
  const renewing = complaints.length;
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('7 of 7').waitFor();
  const noted = complaints.splice(renewing); // the browser's own note of the refusal
  assert.equal(noted.length, 1);
  assert.match(noted[0], /401/);
  assert.notEqual(await page.evaluate(() => JSON.parse(sessionStorage.getItem('linkforge.session')).token), 'spent');
  tell('A token that has ended is renewed.');
  return { email: `${slug}@example.com`, password: 'correct horse battery staple' };
}

// others asks from pages as a browser lets them: one that the server has not been told of, and one without a client.
async function others() {
  const answers = await page.evaluate(api => new Promise((resolve, reject) => {
    const all = [];
    const source = new EventSource(`${api}?query=${encodeURIComponent('{ __typename }')}`);
    source.addEventListener('next', event => all.push(JSON.parse(event.data)));
    source.addEventListener('complete', () => (source.close(), resolve(all)));
    source.addEventListener('error', reject);
  }), api);
  assert.deepEqual(answers, [{ data: { __typename: 'Query' } }]);
  tell("The browser's own EventSource reads an answer to its end.");

  const headers = await page.evaluate(async api => {
    const response = await fetch(`${api}?query={__typename}`, { headers: { Authorization: 'Bearer nonsense' } });
    return [response.status, Boolean(response.headers.get('x-request-id')), response.headers.get('www-authenticate')];
  }, api);
  assert.deepEqual(headers, [401, true, null]);
  complaints.pop(); // the browser's own note of it
  tell('A listed page may read the id of a request, and headers that are not exposed it may not.');

  const evil = await context.newPage();
  await evil.goto(address.replace('127.0.0.1', 'evil.localhost'));
  const before = complaints.length;
  const refused = await evil.evaluate(async api => {
    const tried = {};
    for (const [name, init] of Object.entries({
      post: { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"query": "{ __typename }"}' },
      get: {},
    })) tried[name] = await fetch(init.method ? api : `${api}?query={__typename}`, init).then(() => 'read', () => 'refused');
    tried.socket = await new Promise(resolve => {
      const socket = new WebSocket(api.replace('http', 'ws'), 'graphql-transport-ws');
      socket.onopen = () => resolve('open');
      socket.onerror = () => resolve('refused');
    });
    return tried;
  }, api);
  assert.deepEqual(refused, { post: 'refused', get: 'refused', socket: 'refused' });
  complaints.length = before; // which the browser has complained about
  tell('A page of another origin reads nothing, and gets no WebSocket.');
}

// follow clicks on a short URL, which opens a tab that is to land on target.
async function follow(link, target) {
  const [tab] = await Promise.all([context.waitForEvent('page'), link.click()]);
  await tab.getByRole('heading', { name: 'You have arrived' }).waitFor();
  assert.equal(tab.url(), target);
  await tab.close();
}

async function shot(name) {
  await page.screenshot({ path: path.join(folder, `${String(steps + 1).padStart(2, '0')}-${name}.png`) });
}

// serve serves the built page, and what short URLs lead to.
async function serve() {
  const dist = path.join(import.meta.dirname, 'dist');
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, address);
    if (pathname === '/destination') {
      response.writeHead(200, { 'Content-Type': 'text/html' });
      return response.end('<!doctype html><title>Destination</title><link rel="icon" href="data:,"><h1>You have arrived</h1>');
    }
    const file = path.join(dist, pathname === '/' ? 'index.html' : path.normalize(pathname));
    const body = await readFile(file).catch(() => null);
    response.writeHead(body ? 200 : 404, { 'Content-Type': `${KINDS[path.extname(file)] ?? 'text/plain'}; charset=utf-8` });
    return response.end(body);
  });
  await new Promise(resolve => server.listen(Number(new URL(address).port), '127.0.0.1', resolve));
  return server;
}
