// Walks through the playground of a running server as a newcomer would, in headless Chromium:
//
//   node e2e.mjs BASE_URL SCREENSHOT_FOLDER
//
// CHROMIUM names the browser; without it, the usual names are looked up on PATH. Exits with 1 when a step fails, when
// the page asks for anything beyond this machine, or when the browser complains about anything.
import { access, constants, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { chromium } from 'playwright-core';

import { EXAMPLES, fill, written } from './src/examples.js';

const [base, folder] = process.argv.slice(2);
if (!base || !folder) {
  console.error('usage: node e2e.mjs BASE_URL SCREENSHOT_FOLDER');
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
];

const complaints = [];
let steps = 0;
const tell = sentence => console.log(`${String(++steps).padStart(2)}. ${sentence}`);

const destination = await serveDestination();
const profile = await mkdtemp(path.join(tmpdir(), 'playground-e2e-'));
await mkdir(folder, { recursive: true });
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || (await findChromium()),
  args: FLAGS,
  viewport: { width: 1400, height: 900 },
  colorScheme: 'light',
});

let page;
try {
  await runExamples();
  await watch(browser);
  page = browser.pages()[0] ?? (await browser.newPage());
  await story();
} catch (error) {
  complaints.push(error.message.replace(/\u001b\[\d+m/g, ''));
  await shot('failed').catch(() => {});
} finally {
  await browser.close();
  destination.close();
  await rm(profile, { recursive: true, force: true });
}

for (const complaint of complaints) console.error(`FAILED: ${complaint}`);
console.log(complaints.length ? `${complaints.length} complaints.` : 'The playground works.');
process.exitCode = complaints.length ? 1 : 0;

async function story() {
  const who = `ada-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
  const bar = page.getByRole('banner');
  const run = page.getByRole('button', { name: /^Execute query/ });
  const result = page.locator('.result-window');

  await page.goto(new URL('/playground', base).href);
  await page.getByRole('region', { name: 'Operation Editor' }).locator('.view-line').first().waitFor();
  await run.click();
  await result.getByText('totalLinks').waitFor();
  await shot('opened');
  tell('The page opens, and the platform stats run without an account.');

  await bar.getByLabel('E-mail').fill(`${who}@example.com`);
  await bar.getByLabel('Password').fill('correct horse battery staple');
  await bar.getByLabel('Name').fill('Ada Lovelace');
  await bar.getByRole('button', { name: 'Register' }).click();
  await bar.getByText('Logged in as').waitFor();
  await shot('registered');
  tell(`${who}@example.com registers with the helper and is logged in.`);

  await bar.getByLabel('New workspace').fill('Analytical Engines');
  await bar.getByLabel('Slug').fill(who);
  await bar.getByRole('button', { name: 'Create' }).click();
  await bar.getByRole('combobox', { name: 'Workspace' }).waitFor();
  await shot('workspace');
  tell(`A workspace is created, with the slug ${who}.`);

  const target = `http://127.0.0.1:${destination.address().port}/landing?step=1`;
  await page.getByRole('button', { name: 'Create a link', exact: true }).click();
  await page.getByText('mutation CreateLink').first().waitFor();
  const variables = await readVariables();
  if (!/^ws_\w+$/.test(variables.input.workspaceId)) throw new Error(`the example names the workspace ${variables.input.workspaceId}`);
  await writeVariables({ input: { ...variables.input, url: target, title: 'Landing' } });
  await run.click();
  const created = result.locator('.result-link').filter({ hasNotText: target }).first();
  await created.waitFor();
  const shortUrl = await bar.locator('.link a').getAttribute('href');
  await shot('link');
  tell(`The example "Create a link" runs: ${target} is now ${shortUrl}.`);

  await follow(created, target, 'landed-from-result');
  tell('A click on the short URL in the result leads to the destination.');
  await follow(bar.locator('.link a'), target, 'landed-from-bar');
  tell('So does a click on the short URL in the helper bar.');

  await page.getByRole('button', { name: 'Create a link with rules' }).click();
  await page.getByText('mutation CreateAppLink').first().waitFor();
  await run.click();
  await result.getByText('iPhone and iPad').first().waitFor();
  await page.getByRole('button', { name: 'Try rules before saving them' }).click();
  await page.getByText('query ExplainRedirect').first().waitFor();
  await variablesEditor().locator('.view-line', { hasText: /"shortUrl":\s"http/ }).waitFor();
  await run.click();
  await result.getByText('"https://example.com/de"').first().waitFor();
  await shot('routing');
  tell('A link with rules is created, and other rules are tried with it before they are saved.');

  await page.getByRole('button', { name: 'Find links of a workspace' }).click();
  await page.getByText('query WorkspaceLinks').first().waitFor();
  await run.click();
  await result.getByText('clickCount').first().waitFor();
  await shot('links');
  tell('The example "Find links of a workspace" lists the link.');

  // GraphiQL stores its tabs half a second after a change.
  await page.waitForFunction(() => sessionStorage.getItem('graphiql:tabState')?.includes('query WorkspaceLinks'));
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.reload();
  await bar.getByText('Logged in as').waitFor();
  await page.getByText('query WorkspaceLinks').first().waitFor();
  await run.click();
  await result.getByText('clickCount').first().waitFor();
  await shot('dark');
  tell('After a reload, in the dark, the session is still there.');

  await bar.getByRole('button', { name: 'Log out' }).click();
  await bar.getByRole('button', { name: 'Log in' }).waitFor();
  await shot('logged-out');
  tell('Logging out forgets it.');

  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole('button', { name: 'Log in', exact: true }).last().click();
  await page.getByText('mutation LogIn').first().waitFor();
  await shot('telephone');
  const panes = await page.locator('.graphiql-sidebar, .graphiql-editors, .graphiql-response').evaluateAll(all => all.map(pane => pane.getBoundingClientRect().toJSON()));
  const stacked = panes.every((pane, i) => pane.width > 300 && pane.right <= 390 && (i === 0 || pane.top >= panes[i - 1].bottom - 1));
  if (panes.length !== 3 || !stacked) throw new Error(`the panes on a telephone are not stacked: ${JSON.stringify(panes)}`);
  tell('On a telephone the panes are stacked, and an example closes the list of them.');
}

// runExamples sends each example to the server, with the objects that the examples before it have created.
async function runExamples() {
  const context = {};
  let token;
  for (const example of EXAMPLES) {
    const variables = JSON.parse(fill(written(example), context) || '{}');
    if (JSON.stringify(variables).includes('"<')) throw new Error(`${example.name}: a placeholder is not filled: ${JSON.stringify(variables)}`);
    const response = await fetch(new URL('/graphql', base), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
      body: JSON.stringify({ query: example.query, variables }),
    });
    const { data, errors } = await response.json();
    const problems = errors ?? Object.values(data).flatMap(payload => payload?.errors ?? []);
    if (problems.length > 0) throw new Error(`${example.name}: ${JSON.stringify(problems)}`);
    if (Object.values(data).includes(null)) throw new Error(`${example.name}: ${JSON.stringify(data)}`);
    token = (data.register ?? data.login)?.token ?? token;
    context.workspace = data.createWorkspace?.workspace ?? context.workspace;
    context.link = data.createLink?.link ?? context.link;
    context.template = data.createUtmTemplate?.utmTemplate ?? context.template;
    context.domain = data.addDomain?.domain ?? context.domain;
    checkExample(example.name, data);
  }
  tell(`All ${EXAMPLES.length} examples run one after the other.`);
}

// checkExample checks the results that the titles of the routing examples promise.
function checkExample(name, data) {
  const found = {
    ExplainRedirect: () => [data.explainRedirect.reason, data.explainRedirect.ruleIndex],
    UpdateRules: () => data.updateLink.link.routing.warnings.map(warning => warning.code),
    CreateCampaignLink: () => data.createLink.link.routing.utm,
  }[name]?.();
  const wanted = {
    ExplainRedirect: ['RULE', 1],
    UpdateRules: ['UNREACHABLE_RULE', 'UNKNOWN_VALUE'],
    CreateCampaignLink: { source: 'newsletter', medium: 'email', campaign: 'spring sale' },
  }[name];
  if (JSON.stringify(found) !== JSON.stringify(wanted)) complaints.push(`${name}: ${JSON.stringify(found)}, want ${JSON.stringify(wanted)}`);
}

// follow clicks on something that opens a tab, and expects it to land on the local page at target.
async function follow(locator, target, name) {
  const [tab] = await Promise.all([browser.waitForEvent('page', { timeout: 10_000 }), locator.click()]);
  await tab.getByRole('heading', { name: 'You have arrived' }).waitFor();
  if (tab.url() !== target) throw new Error(`the short URL led to ${tab.url()}, not to ${target}`);
  if (await tab.evaluate(() => window.opener !== null)) throw new Error('the new tab can reach the playground through window.opener');
  await shot(name, tab);
  await tab.close();
}

function variablesEditor() {
  return page.locator('.graphiql-editor-tool .graphiql-editor:not(.hidden)');
}

async function readVariables() {
  // The editor draws spaces as U+00A0.
  const lines = await variablesEditor().locator('.view-line').allTextContents();
  const ordered = await variablesEditor().locator('.view-line').evaluateAll(all => all.map(e => parseFloat(e.style.top)));
  const text = lines.map((line, i) => [ordered[i], line]).sort(([a], [b]) => a - b).map(([, line]) => line).join('\n');
  return JSON.parse(text.replaceAll('\u00a0', ' '));
}

async function writeVariables(value) {
  await variablesEditor().locator('.view-line').first().click();
  await page.keyboard.press('ControlOrMeta+A');
  // Pasted, because the editor closes brackets by itself when they are typed.
  await page.evaluate(text => navigator.clipboard.writeText(text), JSON.stringify(value, null, 2));
  await page.keyboard.press('ControlOrMeta+V');
}

// shot takes a screenshot, which no check depends on. Chromium sometimes has no frame to capture on a busy machine.
async function shot(name, of = page) {
  try {
    await of.screenshot({ path: path.join(folder, `${String(steps + 1).padStart(2, '0')}-${name}.png`) });
  } catch (error) {
    console.log(`no screenshot of ${name}: ${error.message.split('\n')[0]}`);
  }
}

// watch counts and stops every request that would leave this machine, and hears every complaint of the browser.
async function watch(context) {
  await context.route('**/*', route => {
    const address = new URL(route.request().url());
    if (!/^https?:$/.test(address.protocol) || LOOPBACK.test(address.hostname)) return route.continue();
    complaints.push(`a request for ${address.href}`);
    return route.abort();
  });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(base).origin });
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', e => console.error(`CSP: ${e.violatedDirective} refused ${e.blockedURI}`));
  });
  context.on('console', message => {
    if (message.type() === 'error') complaints.push(`the console: ${message.text()} (${message.location().url})`);
  });
  context.on('weberror', error => complaints.push(`the page: ${error.error().message}`));
}

// serveDestination is the page that short URLs lead to.
async function serveDestination() {
  const server = createServer((request, response) => {
    if (request.url === '/favicon.ico') return response.writeHead(204).end();
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' });
    response.end('<!doctype html><title>Destination</title><h1>You have arrived</h1>');
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function findChromium() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    for (const place of (process.env.PATH ?? '').split(path.delimiter)) {
      const file = path.join(place, name);
      if (await access(file, constants.X_OK).then(() => true, () => false)) return file;
    }
  }
  console.error('There is no Chromium on PATH; name one in CHROMIUM.');
  process.exit(2);
}
