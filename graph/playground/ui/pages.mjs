// Follows short URLs in every state with headless Chromium, as somebody who has just clicked on one:
//
//   node pages.mjs BASE_URL SCREENSHOT_FOLDER
//
// CHROMIUM names the browser, LINKFORGE the server's program, for the operator's command beside the running server;
// LINKFORGE_DATA_DIR and LINKFORGE_HIT_QUOTA are the server's. Exits with 1 when a link answers something else, when a
// page does not fit, cannot be read or asks for anything, or when the browser complains about anything.
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import { chromium } from 'playwright-core';

const [base, folder] = process.argv.slice(2);
const { CHROMIUM, LINKFORGE, LINKFORGE_DATA_DIR, LINKFORGE_HIT_QUOTA } = process.env;
if (!base || !folder || !CHROMIUM || !LINKFORGE || !LINKFORGE_DATA_DIR || !LINKFORGE_HIT_QUOTA) {
  console.error('usage: node pages.mjs BASE_URL SCREENSHOT_FOLDER, with CHROMIUM, LINKFORGE, LINKFORGE_DATA_DIR and LINKFORGE_HIT_QUOTA set');
  process.exit(2);
}

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Routes do not see where a redirect leads: nothing else has an address.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1',
];

const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const LOOKS = {
  'desktop-light': { ...DESKTOP, colorScheme: 'light' },
  'desktop-dark': { ...DESKTOP, colorScheme: 'dark' },
  'phone-light': { ...PHONE, colorScheme: 'light' },
  'phone-dark': { ...PHONE, colorScheme: 'dark' },
};

// What visitors are told, by what has become of a link.
const NOTHING = ['Link not found', 'Check the address for typos, or contact the sender.'];
const PAGES = {
  unknown: [404, ...NOTHING],
  deleted: [404, ...NOTHING],
  scheduled: [404, ...NOTHING],
  expired: [410, 'This link has expired', 'Contact the sender for a new link.'],
  exhausted: [410, 'This link reached its click limit', 'Contact the sender for a new link.'],
  disabled: [410, 'This link has been disabled', 'The operator of this service has disabled it.'],
  'over its monthly quota': [429, 'This link reached its monthly click limit', 'It works again from the first day of next month.'],
};

const PASSWORD = 'correct horse';
const SLACKBOT = 'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)';

// WCAG 2.2, success criterion 1.4.3.
const LEAST_CONTRAST = 4.5;

// What axe-core finds is a barrier for some visitors.
const AXE = await readFile(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

const complaints = [];
let steps = 0;
let told = 0;

await mkdir(folder, { recursive: true });
const arrivals = [];
const destination = await serve(request => {
  arrivals.push(request);
  return '<!doctype html><html lang="en"><title>Destination</title><h1>You have arrived</h1>';
});
// It tells all it can, so that what the destination hears is the short URL's decision.
const sender = await serve(
  request => {
    const to = new URL(request.url, 'http://sender.invalid').searchParams.get('to');
    return `<!doctype html><html lang="en"><title>Sender</title><a href="${to}">Have a look</a>`;
  },
  { 'Referrer-Policy': 'unsafe-url' },
);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

try {
  await story();
} catch (error) {
  complaints.push(error.message.replace(/\u001b\[\d+m/g, ''));
} finally {
  await browser.close();
  destination.server.close();
  sender.server.close();
}

for (const complaint of complaints) console.error(`FAILED: ${complaint}`);
console.log(complaints.length ? `${complaints.length} complaints.` : 'The pages work.');
process.exitCode = complaints.length ? 1 : 0;

async function story() {
  const contexts = {};
  for (const [look, options] of Object.entries(LOOKS)) contexts[look] = await open(options);
  const desktop = contexts['desktop-light'];

  const owner = await register();
  tell(`${owner.email} registers, and has a workspace.`);

  const live = await owner.shorten('live');
  await arrives(desktop, live, 'live');
  await arrives(contexts['phone-dark'], live, 'live-phone');
  tell(`A live link leads to the destination, which hears where the visitor was only as ${sender.origin}/.`);

  const anonymous = await shortenAnonymously();
  await arrives(desktop, anonymous, 'anonymous');
  tell('So does an anonymous link.');

  await reads(contexts, 'inspection', `${anonymous.shortUrl}+`, '127.0.0.1');
  tell('A + after an anonymous link shows its destination.');

  await reads(contexts, 'report', new URL(`/abuse?link=${encodeURIComponent(anonymous.shortUrl)}`, base).href, 'Report a short link');
  await reports(contexts['phone-dark'], anonymous);
  tell('A form reports it to the operator.');

  await owner.openUp(live);
  await reads(contexts, 'inspection-stats', `${live.shortUrl}+`, '127.0.0.1');
  const limited = await owner.shorten('limited', { maxClicks: 5 });
  await reads(contexts, 'inspection-hidden', `${limited.shortUrl}+`, 'This short link does not show where it leads');
  tell('So does a + after the links of an inspectable workspace, unless they are limited.');

  for (const [look, context] of Object.entries(contexts)) {
    const gated = await owner.shorten(`gated-${look}`, { routing: { gate: { password: PASSWORD, notice: 'For the board only.' } } });
    await reads({ [look]: context }, 'gate-password', gated.shortUrl, 'This link is protected by a password');
    await opens(context, look, gated);
    await arrives(context, gated);
  }
  tell('A password opens a gated link, and the browser needs it once.');

  const german = { german: await open({ ...DESKTOP, locale: 'de-DE' }) };
  for (const [look, context] of Object.entries(contexts)) {
    const asked = await owner.shorten(`asked-${look}`, { routing: { gate: { notice: 'This link leads to a shop.' } } });
    await reads({ [look]: context }, 'gate-notice', asked.shortUrl, 'Before you continue');
    await reads(german, `gate-notice-${look}`, asked.shortUrl, 'Bevor Sie fortfahren', 'de');
    await confirms(context, look, asked);
  }
  tell('A notice is shown before the redirect, around it in the language of the visitor.');

  for (const [look, context] of Object.entries(contexts)) {
    const once = await owner.shorten(`once-${look}`, { maxClicks: 1, routing: { gate: { confirm: true } } });
    await previews(once, 'Do you want to open this link?');
    await reads({ [look]: context }, 'gate-confirm', once.shortUrl, 'Do you want to open this link?');
    await confirms(context, look, once);
    await owner.waitFor(once, 'EXHAUSTED');
  }
  tell('A button opens a one-time link, which neither a preview nor its own page uses up.');

  const plain = await owner.shorten('once', { maxClicks: 1 });
  await previews(plain, 'Do you want to open this link?');
  await arrives(desktop, plain);
  await owner.waitFor(plain, 'EXHAUSTED');
  tell('So does a click on one without a button, after a preview.');

  await shows(contexts, 'unknown', { shortUrl: new URL('/no-such-link', base).href });

  const deleted = await owner.shorten('deleted');
  await arrives(desktop, deleted);
  await owner.remove(deleted);
  await shows(contexts, 'deleted', deleted);

  const scheduled = await owner.shorten('scheduled', { startsAt: soon(3600) });
  await owner.waitFor(scheduled, 'SCHEDULED');
  await shows(contexts, 'scheduled', scheduled);

  const expired = await owner.shorten('expired', { expiresAt: soon(2) });
  await owner.waitFor(expired, 'EXPIRED');
  await shows(contexts, 'expired', expired);

  const exhausted = await owner.shorten('exhausted', { maxClicks: 1 });
  await arrives(desktop, exhausted);
  await owner.waitFor(exhausted, 'EXHAUSTED');
  await shows(contexts, 'exhausted', exhausted);

  // Disabling goes by host, so this one leads to a host of its own.
  const host = 'disabled.localhost';
  const disabled = await owner.shorten('disabled', {}, destination.origin.replace('127.0.0.1', host));
  await arrives(desktop, disabled);
  await operate('block', 'disable', host);
  await owner.waitFor(disabled, 'DISABLED');
  await shows(contexts, 'disabled', disabled);

  const busy = await owner.shorten('busy');
  for (let i = 0; i < Number(LINKFORGE_HIT_QUOTA); i++) await arrives(desktop, busy);
  await shows(contexts, 'over its monthly quota', busy);

  await arrives(desktop, live);
  tell('The live link still leads to the destination.');
}

// arrives follows a link to its destination.
async function arrives(context, { shortUrl, target }, name) {
  arrivals.length = 0;
  const { page, response, requests } = await follow(context, shortUrl);
  const hop = await response.request().redirectedFrom()?.response();
  const expect = expecting(`following ${shortUrl}`);
  expect('the status', hop?.status(), 302);
  expect('Location', hop?.headers().location, target);
  expect('the address', page.url(), target);
  expect('Cache-Control', hop?.headers()['cache-control'], 'private, no-store');
  expect('the heading', await page.getByRole('heading').innerText(), 'You have arrived');
  expect('the requests', requests.join(' '), `${shortUrl} ${target.replace(/#.*/, '')}`);
  expect('the referrers', arrivals.map(r => r.headers.referer).join(' '), `${sender.origin}/`);
  if (name) await shot(page, name);
  await page.close();
}

// shot takes a screenshot, which no check depends on. Chromium sometimes has no frame to capture on a busy machine.
async function shot(page, name) {
  try {
    await page.screenshot({ path: path.join(folder, `${prefix()}-${name}.png`) });
  } catch (error) {
    console.log(`no screenshot of ${name}: ${error.message.split('\n')[0]}`);
  }
}

// shows follows a link to a page that says why it leads nowhere, in every look.
async function shows(contexts, state, { shortUrl }) {
  arrivals.length = 0;
  for (const [look, context] of Object.entries(contexts)) {
    const { page, response, requests } = await follow(context, shortUrl, PAGES[state][0]);
    await shot(page, `${state.replaceAll(' ', '-')}-${look}`);
    const expect = expecting(`${state}, ${look}`);
    await check(expect, page, LOOKS[look].viewport, PAGES[state]);
    const head = response.headers();
    expect('the status', response.status(), PAGES[state][0]);
    expect('Referrer-Policy', head['referrer-policy'], 'no-referrer');
    expect('Cache-Control', head['cache-control'], 'no-store');
    expect('whether there is a Retry-After', Number(head['retry-after']) > 0, response.status() === 429);
    expect('the address', page.url(), shortUrl);
    expect('the requests', requests.join(' '), shortUrl);
    await isAccessible(page, expect);
    await page.close();
  }
  expecting(state)('what reached the destination', arrivals.length, 0);
  tell(`A link that is ${state} answers ${PAGES[state].slice(0, 2).join(' ')}.`);
}

// reads opens a page in every look.
async function reads(contexts, name, address, heading, language = 'en') {
  for (const [look, context] of Object.entries(contexts)) {
    const page = await context.newPage();
    await page.addInitScript({ content: AXE });
    const requests = [];
    page.on('request', request => requests.push(request.url()));
    page.on('console', message => complaints.push(`the console: ${message.text()}`));
    const response = await page.goto(address);
    await shot(page, `${name}-${look}`);
    const expect = expecting(`${name}, ${look}`);
    const seen = await page.evaluate(measure);
    expect('the status', response.status(), 200);
    expect('the headings', seen.headings.join(' | '), heading);
    expect('the language', seen.language, language);
    expect('whether it fits across', seen.content.width <= seen.window.width, true);
    expect('what has too little contrast', seen.contrasts.filter(c => c.ratio < LEAST_CONTRAST).map(c => `${c.of} ${c.ratio}`).join(', '), '');
    expect('the requests', requests.join(' '), address);
    await isAccessible(page, expect);
    await page.close();
  }
}

// isAccessible looks for barriers in a page that was opened with AXE.
async function isAccessible(page, expect) {
  const { violations } = await page.evaluate(() => axe.run());
  expect('the barriers', violations.map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`).join(', '), '');
}

// opens passes the gate of a link with the keyboard, by a wrong and then by the right password.
async function opens(context, look, { shortUrl, target }) {
  const { page, expect } = await visit(context, look, shortUrl);
  await page.getByLabel('Password').fill('wrong horse');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  await shot(page, `gate-wrong-${look}`);
  expect('the message', await page.getByRole('alert').innerText(), 'The password is wrong. Check it, then try again.');
  await isAccessible(page, expect);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.keyboard.press('Enter');
  await page.waitForURL(target);
  await page.close();
}

// confirms passes the gate of a link by its button.
async function confirms(context, look, { shortUrl, target }) {
  const { page } = await visit(context, look, shortUrl);
  await page.getByRole('button').press('Enter');
  await page.waitForURL(target);
  await page.close();
}

async function visit(context, look, shortUrl) {
  const page = await context.newPage();
  await page.addInitScript({ content: AXE });
  await page.goto(shortUrl);
  return { page, expect: expecting(`${shortUrl}, ${look}`) };
}

// previews asks for a link as Slack does, which gets a page without the destination.
async function previews({ shortUrl, target }, heading) {
  const response = await fetch(shortUrl, { redirect: 'manual', headers: { 'User-Agent': SLACKBOT, Accept: '*/*' } });
  const text = await response.text();
  const expect = expecting(`the preview of ${shortUrl}`);
  expect('the status', response.status, 200);
  expect('Location', response.headers.get('location'), null);
  expect('whether it has the heading', text.includes(heading), true);
  expect('whether it has the destination', text.includes(new URL(target).host), false);
}

// reports follows the link to the form, and sends it.
async function reports(context, { shortUrl }) {
  const page = await context.newPage();
  await page.goto(`${shortUrl}+`);
  await page.getByRole('link', { name: 'Report this link' }).click();
  await page.getByLabel('Reason').selectOption('SPAM');
  await page.getByLabel('Details').fill('seen in a message');
  await page.getByRole('button', { name: 'Report' }).click();
  await page.getByText('review the link').waitFor();
  const expect = expecting('reporting');
  expect('the heading', await page.getByRole('heading').innerText(), 'Thank you for the report');
  await page.close();
}

// check looks at a page as it is drawn.
async function check(expect, page, viewport, [, title, text]) {
  const seen = await page.evaluate(measure);
  expect('the title', seen.title, title);
  expect('the headings', seen.headings.join(' | '), title);
  expect('the visible text', seen.text, `${title} | ${text}`);
  expect('the language', seen.language, 'en');
  expect('the landmarks', seen.landmarks, 1);
  expect('the width of the window', seen.window.width, viewport.width);
  expect('whether it fits across', seen.content.width <= viewport.width, true);
  expect('whether it fits down', seen.content.height <= viewport.height, true);
  expect('what has too little contrast', seen.contrasts.filter(c => c.ratio < LEAST_CONTRAST).map(c => `${c.of} ${c.ratio}`).join(', '), '');
}

// measure runs in the page.
function measure() {
  const numbers = colour => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    const colour = numbers(getComputedStyle(element).backgroundColor);
    return colour[3] === 0 ? behind(element.parentElement) : colour;
  };
  const contrast = element => {
    const [dark, light] = [numbers(getComputedStyle(element).color), behind(element)].map(luminance).sort((a, b) => a - b);
    return { of: element.localName, ratio: Math.round(((light + 0.05) / (dark + 0.05)) * 100) / 100 };
  };
  const all = [...document.body.querySelectorAll('*')];
  const written = all.filter(e => [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim()));
  return {
    title: document.title,
    headings: [...document.querySelectorAll('h1')].map(e => e.innerText),
    text: document.body.innerText.split(/\n+/).map(line => line.trim()).filter(Boolean).join(' | '),
    language: document.documentElement.lang,
    landmarks: document.querySelectorAll('main').length,
    window: { width: innerWidth, height: innerHeight },
    content: { width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight },
    contrasts: written.map(contrast),
  };
}

// follow clicks on a short URL in the sender's page, and waits for where that leads.
async function follow(context, shortUrl, failing) {
  const page = await context.newPage();
  await page.addInitScript({ content: AXE });
  await page.goto(`${sender.origin}/post?to=${encodeURIComponent(shortUrl)}`);
  const requests = [];
  page.on('request', request => requests.push(request.url()));
  page.on('console', message => {
    // The browser's own note of a page with such a status.
    const note = `Failed to load resource: the server responded with a status of ${failing} `;
    if (message.location().url === shortUrl && message.text().startsWith(note)) return;
    if (['error', 'warning'].includes(message.type())) complaints.push(`the console: ${message.text()} (${message.location().url})`);
  });
  const [response] = await Promise.all([
    page.waitForResponse(r => r.request().isNavigationRequest() && (r.status() < 300 || r.status() > 399)),
    page.waitForURL(url => url.origin !== sender.origin),
    page.getByRole('link').click(),
  ]);
  return { page, response, requests };
}

// open makes a context that stops every request that would leave this machine, and hears every complaint.
async function open(options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(10_000);
  await context.route('**/*', route => (local(route.request().url()) ? route.continue() : route.abort()));
  context.on('request', request => {
    if (!local(request.url())) complaints.push(`a request for ${request.url()}`);
  });
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', e => console.error(`CSP: ${e.violatedDirective} refused ${e.blockedURI}`));
  });
  context.on('weberror', error => complaints.push(`a page: ${error.error().message}`));
  return context;
}

function local(address) {
  const url = new URL(address);
  return /^https?:$/.test(url.protocol) && LOOPBACK.test(url.hostname);
}

// register makes an account with a workspace, and answers with what it can do.
async function register() {
  const who = `ada-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
  const email = `${who}@example.com`;
  const { token } = await ask(
    'register(input: $input) { token',
    'RegisterInput!', { email, password: 'correct horse battery staple', name: 'Ada Lovelace' },
  );
  const { workspace } = await ask(
    'createWorkspace(input: $input) { workspace { id }',
    'CreateWorkspaceInput!', { name: 'Analytical Engines', slug: who }, token,
  );
  return {
    email,
    async shorten(name, more = {}, origin = destination.origin) {
      const target = `${origin}/${name}?step=1#here`;
      const { link } = await ask(
        'createLink(input: $input) { link { id shortUrl }',
        'CreateLinkInput!', { workspaceId: workspace.id, url: target, ...more }, token,
      );
      return { ...link, target };
    },
    async remove({ id }) {
      await ask('deleteLink(input: $input) { link { status }', 'DeleteLinkInput!', { id }, token);
    },
    // openUp makes the workspace inspectable, and the stats of a link public.
    async openUp({ id }) {
      await ask('updateWorkspace(input: $input) { workspace { id }', 'UpdateWorkspaceInput!', { id: workspace.id, inspectable: true }, token);
      await ask('updateLink(input: $input) { link { id }', 'UpdateLinkInput!', { id, statsPublic: true }, token);
    },
    // waitFor asks until the link has the status.
    async waitFor({ id, shortUrl }, status) {
      const until = Date.now() + 20_000;
      for (let last; last !== status; await pause(50)) {
        if (Date.now() > until) throw new Error(`${shortUrl} is ${last} and does not become ${status}`);
        const { link } = await graphql('query ($id: ID!) { link(by: {id: $id}) { status } }', { id }, token);
        last = link.status;
      }
    },
  };
}

async function shortenAnonymously() {
  const target = `${destination.origin}/anonymous`;
  const { link } = await ask('createAnonymousLink(input: $input) { link { shortUrl }', 'CreateAnonymousLinkInput!', { url: target });
  return { ...link, target };
}

// ask sends a mutation whose selection is still open, and answers with its payload.
async function ask(selection, type, input, token) {
  const [payload] = Object.values(await graphql(`mutation ($input: ${type}) { ${selection} errors { code message } } }`, { input }, token));
  if (payload.errors.length) throw new Error(`${selection}: ${JSON.stringify(payload.errors)}`);
  return payload;
}

async function graphql(query, variables, token) {
  const response = await fetch(new URL('/graphql', base), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(`${query}: ${JSON.stringify(errors)}`);
  return data;
}

// operate runs a command of the operator's beside the running server.
async function operate(...args) {
  await promisify(execFile)(LINKFORGE, args, { env: { LINKFORGE_DATA_DIR } });
}

// serve answers every request on a port of its own with a page.
async function serve(answer, headers) {
  const server = createServer((request, response) => {
    if (request.url === '/favicon.ico') return response.writeHead(204).end();
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', ...headers });
    response.end(answer(request));
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

// expecting makes a comparison that complains and goes on.
function expecting(what) {
  return (of, got, want) => {
    if (got !== want) complaints.push(`${what}: ${of}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  };
}

// tell says what a step has shown, or that it has not.
function tell(sentence) {
  console.log(`${String(++steps).padStart(2)}. ${complaints.length > told ? 'NOT SO: ' : ''}${sentence}`);
  told = complaints.length;
}

function soon(seconds) {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

function prefix() {
  return String(steps + 1).padStart(2, '0');
}
