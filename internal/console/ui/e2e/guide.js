// Uses the front end that the guide prints in docs/guide/front-ends.md, on an origin of its own.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const GUIDE = new URL('../../../../docs/guide/front-ends.md', import.meta.url);
const PASSWORD = 'correct horse battery';

// guide is given a browser, the address of the server without a path, and a function that reports what was shown.
export async function guide({ browser, api, tell }) {
  const server = await serve(await printedPage(api));
  const context = await browser.newContext();
  context.setDefaultTimeout(15_000);
  const failures = [];
  context.on('weberror', error => failures.push(error.error().message));
  try {
    const email = await register(api);
    const page = await context.newPage();
    // A name of the server itself is permitted on any port.
    await page.goto(`http://${new URL(api).hostname}:${server.address().port}/`);
    await logIn(page, email);
    tell('The page of the guide shows a wrong password, and logs in.');
    const link = await createLinks(page);
    tell('It creates links, and shows each error at its field.');
    await countClicks(page, link);
    tell('It counts clicks, and resumes after the last one.');
    await refresh(page);
    tell('Two of its tabs refresh the session after UNAUTHENTICATED.');
    await logOut(page, api, email);
    tell('It logs out, and notices when the session has ended elsewhere.');
    assert.deepEqual(failures, []);
  } finally {
    await context.close();
    server.close();
  }
}

// printedPage is the HTML of the guide with the lines for live clicks at the end of its script.
async function printedPage(api) {
  const text = await readFile(GUIDE, 'utf8');
  const [html, live] = ['html', 'js'].map(language => text.match(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms'))[1]);
  const lines = html.split('\n').length - 1;
  assert.ok(lines <= 100, `the page has ${lines} lines`);
  const page = html.replace('http://localhost:8080/graphql', `${api}/graphql`).replace('</script>', () => `${live}</script>`);
  assert.ok(page.includes(`'${api}/graphql'`) && page.includes(live));
  return page;
}

async function serve(page) {
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/' ? 200 : 204, { 'Content-Type': 'text/html' }).end(request.url === '/' ? page : '');
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return server;
}

// send returns the value of an operation with one field.
async function send(api, query, variables, token) {
  const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(`${api}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  assert.equal(errors, undefined, JSON.stringify(errors));
  const [value] = Object.values(data);
  assert.deepEqual(value.errors ?? [], []);
  return value;
}

// register creates an account with a workspace, and returns its address.
async function register(api) {
  const unique = Date.now().toString(36);
  const email = `guide-${unique}@example.com`;
  const { token } = await send(api, 'mutation ($input: RegisterInput!) { register(input: $input) { token errors { message } } }',
    { input: { email, password: PASSWORD, name: 'Guide' } });
  await send(api, 'mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { errors { message } } }',
    { input: { name: 'Guide', slug: `guide-${unique}` } }, token);
  return email;
}

const tokens = page => page.evaluate(() => JSON.parse(localStorage.getItem('tokens')));

async function enter(page, email, password) {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

async function logIn(page, email) {
  await enter(page, email, 'another password');
  await page.locator('form#login > em', { hasText: 'wrong' }).waitFor();
  await enter(page, email, PASSWORD);
  await page.getByLabel('Destination').waitFor();
}

// createLinks creates a link, and then tries a wrong URL and a code that is taken. It returns the link.
async function createLinks(page) {
  const create = async (url, code) => {
    await page.getByLabel('Destination').fill(url);
    await page.getByLabel('Code').fill(code);
    await page.getByRole('button', { name: 'Create link' }).click();
  };
  // errorAt waits for an error after a field, and for no other.
  const errorAt = async (name, message) => {
    await page.locator(`input[name=${name}] + em`, { hasText: message }).waitFor();
    assert.equal(await page.locator('em').count(), 1);
  };
  const rows = page.getByRole('listitem');
  const first = url => rows.first().filter({ hasText: `to ${url}, clicks: 0` }).waitFor();
  await create('ftp://example.com/', '');
  await errorAt('url', 'must start with http');
  await create('https://example.com/guide', 'guide');
  await first('https://example.com/guide');
  assert.equal(await page.locator('em').count(), 0);
  await create('https://example.com/other', 'guide');
  await errorAt('customCode', 'code');
  await create('https://example.com/other', 'other');
  await first('https://example.com/other');
  await create('https://example.com/guide', 'guide'); // again: the same link
  await first('https://example.com/guide');
  assert.equal(await rows.count(), 2);
  await page.reload();
  await first('https://example.com/other');
  assert.equal(await rows.count(), 2);
  return { id: await rows.last().getAttribute('id'), shortUrl: await rows.last().getByRole('link').getAttribute('href') };
}

// countClicks follows the link in the time of a subscription. Then it ends the stream in the middle of an event, and
// checks that the next one starts after the last click; it refuses that click as too old, and the page reads its list again.
async function countClicks(page, { id, shortUrl }) {
  const count = async n => page.locator(`#${id} output`, { hasText: new RegExp(`^${n}$`) }).waitFor();
  const subscribed = () => page.waitForResponse(response => response.headers()['content-type']?.startsWith('text/event-stream'));
  const follow = async () => assert.equal((await fetch(shortUrl, { redirect: 'manual' })).status, 302);
  let ready = subscribed();
  await page.reload();
  await ready;
  await follow();
  await count(1);
  await follow();
  await count(2);

  const next = answer => `:\n\nevent: next\ndata: ${JSON.stringify(answer)}\n\n`;
  const click = id => ({ data: { linkClicked: { id, link: { id: 'lnk_of_another_page' } } } });
  const tooOld = { data: null, errors: [{ message: 'Too old.', extensions: { code: 'EXPIRED' } }] };
  const bodies = [next(click('clk_first')) + next(click('clk_last')) + next(click('clk_cut')).slice(0, -2), next(tooOld)];
  const received = [];
  await page.route('**/graphql', async (route, request) => {
    const { query, variables } = request.postDataJSON();
    if (!query.startsWith('subscription') || bodies.length === 0) return route.continue();
    received.push(variables.after);
    const headers = { 'Access-Control-Allow-Origin': '*', 'Content-Type': 'text/event-stream' };
    return route.fulfill({ headers, body: bodies.shift() });
  });
  await page.reload();
  await page.waitForRequest(request => request.postDataJSON()?.variables?.after === 'clk_last');
  ready = subscribed();
  await page.waitForEvent('load');
  assert.deepEqual(received, [undefined, 'clk_last']);
  await ready;
  await count(2);
  await follow();
  await count(3);
  await page.unroute('**/graphql');
}

// refresh spoils the access token that two tabs share, and loads both.
async function refresh(page) {
  const before = await tokens(page);
  await page.evaluate(old => localStorage.setItem('tokens', JSON.stringify({ ...old, token: 'expired' })), before);
  const other = await page.context().newPage();
  await Promise.all([page.reload(), other.goto(page.url())]);
  for (const tab of [page, other]) await tab.getByRole('listitem').first().waitFor();
  const after = await tokens(page);
  assert.notEqual(after.token, 'expired');
  assert.notEqual(after.refreshToken, before.refreshToken);
  await other.close();
}

// logOut logs out by the button, and is logged out when another client ends the session.
async function logOut(page, api, email) {
  const { refreshToken } = await tokens(page);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Email').waitFor();
  assert.deepEqual(await tokens(page), {});
  const refresh = 'mutation ($input: RefreshSessionInput!) { refreshSession(input: $input) { token } }';
  assert.deepEqual(await send(api, refresh, { input: { refreshToken } }), { token: null });
  await enter(page, email, PASSWORD);
  await page.getByRole('listitem').first().waitFor();
  await send(api, 'mutation { logoutEverywhere(input: {}) { errors { message } } }', {}, (await tokens(page)).token);
  await page.reload();
  await page.getByLabel('Email').waitFor();
  assert.deepEqual(await tokens(page), {});
}
