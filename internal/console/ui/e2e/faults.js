// What goes wrong: nothing that was typed is lost, nothing that users write is executed, and the rest of a screen stays.
import assert from 'node:assert/strict';

import { account, invited, links, logIn as session, shop } from './seeds.js';
import { base, call, check, logIn, open, PASSWORD, send, settled, tell } from './stage.js';

const API = '**/graphql';

export async function faults({ browser }) {
  const owner = await account('Mary Faults');
  const workspace = await shop(owner);
  const given = { browser, owner, workspace, app: `${base}/app/${workspace.slug}` };
  for (const fault of [away, limited, expired, another, conflict, tabs, removed, lacking, hostile, many]) await fault(given);
}

async function enter(browser, user, options) {
  const context = await open(browser, options);
  const page = await context.newPage();
  await logIn(page, user);
  await page.getByRole('heading', { name: 'Links' }).waitFor();
  return { context, page };
}

const answer = (status, code, message) => ({ status, contentType: 'application/json', body: JSON.stringify({ errors: [{ message, extensions: { code } }] }) });

// away: the API does not answer for a while.
async function away({ browser, owner, app }) {
  const { context, page } = await enter(browser, owner);
  context.expects = text => /ERR_FAILED/.test(text);
  await page.goto(`${app}/links?new`);
  await page.getByLabel('Destination').fill('https://example.com/away');
  await page.route(API, route => route.abort());
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByText('The server cannot be reached.').first().waitFor();
  assert.equal(await page.getByLabel('Destination').inputValue(), 'https://example.com/away');
  await page.unroute(API);
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByText('created, and copied.').waitFor();
  await page.route(API, route => route.abort());
  await page.getByRole('link', { name: 'Dashboard' }).click();
  await page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
  await page.unroute(API);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Visitors').first().waitFor();
  await context.close();
  tell('The API is away: what was typed stays, and the screen goes on.');
}

async function limited({ browser, owner, app }) {
  const { context, page } = await enter(browser, owner);
  context.expects = text => /429/.test(text);
  await page.goto(`${app}/links?new`);
  await page.getByLabel('Destination').fill('https://example.com/limited');
  await page.waitForTimeout(1000); // the preview
  await page.route(API, route => route.fulfill(answer(429, 'RATE_LIMITED', 'Too many requests: try again in 7 seconds.')));
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByRole('alert').getByText('try again in 7 seconds').waitFor();
  await page.unroute(API);
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByText('created, and copied.').waitFor();
  await context.close();
  tell('Too many requests: the form says when to try again, and keeps what was typed.');
}

// expired: the session ends while a form is filled in.
async function expired({ browser, owner, workspace, app }) {
  const { context, page } = await enter(browser, owner);
  context.expects = text => /401/.test(text);
  await page.goto(`${app}/links/${workspace.links[2].id}?tab=details`);
  await page.getByLabel('Title').fill('Typed before the session ended');
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByRole('link', { name: 'Details' }).click();
  assert.equal(await page.getByLabel('Title').inputValue(), 'Typed before the session ended', 'another tab loses what was typed');
  const other = await session(owner);
  await call(other.token, 'LogOutEverywhere', { input: { keepThis: true } });
  owner.token = other.token;
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  const again = page.getByRole('dialog', { name: 'Log in again' });
  await again.getByLabel('E-mail').fill(owner.email);
  await again.getByLabel('Password').fill(PASSWORD);
  await again.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Saved').first().waitFor();
  await again.waitFor({ state: 'detached' });
  await page.reload();
  await page.getByLabel('Title').waitFor();
  assert.equal(await page.getByLabel('Title').inputValue(), 'Typed before the session ended');
  await context.close();
  tell('An expired session asks for a log-in over the form, which is sent then.');
}

// another user logs in over what somebody has typed: nothing of it is sent.
async function another({ browser, owner }) {
  const [first, second] = [await account('First User'), await account('Second User')];
  const { context, page } = await enterAccount(browser, first);
  context.expects = text => /401/.test(text);
  await page.getByLabel('Name', { exact: true }).fill('Renamed by the first');
  const other = await session(first);
  await call(other.token, 'LogOutEverywhere', { input: { keepThis: false } });
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  const again = page.getByRole('dialog', { name: 'Log in again' });
  for (let i = 0; i < 4; i++) await page.keyboard.press('Escape');
  await again.getByLabel('E-mail').fill(second.email);
  await again.getByLabel('Password').fill(PASSWORD);
  await again.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Welcome, Second User').waitFor();
  await page.goto(`${base}/app/account`);
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Second User');
  await context.close();
  tell('Another user who logs in over a form sends nothing of it.');
}

async function enterAccount(browser, user) {
  const context = await open(browser), page = await context.newPage();
  await logIn(page, user);
  await page.getByText('Welcome,').waitFor();
  await page.goto(`${base}/app/account`);
  await page.getByRole('heading', { name: 'Your account' }).waitFor();
  return { context, page };
}

// conflict: somebody else changes the link while a draft of it waits on another tab.
async function conflict({ browser, owner, workspace, app }) {
  const { context, page } = await enter(browser, owner);
  const { id } = workspace.links[2];
  await page.goto(`${app}/links/${id}?tab=details`);
  await page.getByLabel('Note').fill('typed first');
  await page.getByRole('link', { name: 'History' }).click();
  await call(owner.token, 'UpdateLink', { input: { id, title: 'Changed elsewhere' } });
  await page.getByRole('link', { name: 'Clicks' }).click();
  await page.getByRole('link', { name: 'Details' }).click();
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('has been changed meanwhile').waitFor();
  await page.route(API, async route => { await new Promise(resolve => setTimeout(resolve, 600)); await route.continue().catch(() => {}); });
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByLabel('Note').fill('typed first, and more');
  await page.getByText('Saved').first().waitFor();
  await page.unroute(API);
  assert.equal(await page.getByLabel('Note').inputValue(), 'typed first, and more', 'what was typed while it was saved is lost');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Saved').nth(1).waitFor();
  context.expects = text => /does not conform/.test(text); // what the browser says of a date field
  for (const query of ['days=1e9', 'from=2026-01-01&to=20261-01-01', 'tab=nothing', 'period=x&device=%00']) {
    await page.goto(`${app}/links/${id}?${query}`);
    await page.getByRole('article', { name: 'Link' }).getByRole('heading').first().waitFor();
  }
  await context.close();
  tell('A conflict can be saved at the second attempt, and typing goes on while it is saved.');
}

// tabs renew the session at the same time, and end together.
async function tabs({ browser, owner, app }) {
  const { context, page } = await enter(browser, owner);
  const pages = [page, await context.newPage(), await context.newPage()];
  for (let round = 0; round < 6; round++) {
    await Promise.all(pages.map((tab, i) => tab.goto(`${app}/${['links', 'tags', 'people'][(i + round) % 3]}`)));
    for (const tab of pages) await tab.getByRole('heading', { level: 1 }).waitFor();
    for (const tab of pages) assert.equal(await tab.getByRole('heading', { name: 'Log in' }).count(), 0);
  }
  await page.getByLabel(/workspaces and account/).click();
  await page.getByRole('menuitem', { name: 'Log out' }).click();
  for (const tab of pages) await tab.getByRole('heading', { name: 'Log in' }).waitFor();
  await context.close();
  tell('Three tabs renew their session side by side, and a log-out ends all of them.');
}

async function removed({ browser, owner, workspace, app }) {
  const member = await invited(owner, workspace.id, 'Soon Gone', 'EDITOR');
  const { context, page } = await enter(browser, member);
  await page.goto(`${app}/links`);
  await page.getByRole('list', { name: 'Links' }).waitFor();
  await settled(page); // so that nothing else asks, and notices it first
  const { members } = await send(owner.token, 'query($id: ID!) { workspace(by: {id: $id}) { members(first: 50) { nodes { user { id email } } } } }',
    { id: workspace.id });
  const { user } = members.nodes.find(one => one.user.email === member.email);
  await call(owner.token, 'RemoveMember', { input: { workspaceId: workspace.id, userId: user.id } });
  await page.getByRole('link', { name: 'Tags' }).click();
  await page.getByText('No such workspace').waitFor();
  await context.close();
  tell('A removed member sees that the workspace is gone.');
}

// lacking: parts of an answer are null beside their errors.
async function lacking({ browser, owner, app }) {
  const { context, page } = await enter(browser, owner);
  await page.route(API, async route => {
    const response = await route.fetch(), body = await response.json().catch(() => null);
    const shown = body?.data?.workspace;
    if (shown?.links) {
      Object.assign(shown, { tags: null, folders: null, domains: null, utmTemplates: null });
      for (const link of shown.links.nodes) Object.assign(link, { tags: null, clickCount: null, stats: null });
      body.errors = [{ message: 'The statistics are not available.', path: ['workspace', 'tags'], extensions: { code: 'UNAVAILABLE' } }];
    }
    await route.fulfill({ response, json: body ?? undefined });
  });
  await page.goto(`${app}/links`);
  await page.getByRole('list', { name: 'Links' }).getByText('Spring sale').waitFor();
  await check(page, 'links-without-parts');
  await context.close();
  tell('Parts of an answer that are not there leave the rest of the screen as it is.');
}

// hostile: markup, other directions of writing, and texts of the greatest length.
async function hostile({ browser, owner, workspace, app }) {
  const canary = `${base}/canary`, markup = `<img src="${canary}" onerror="fetch('${canary}')"><script>fetch('${canary}')</script>`;
  const [link] = await links(owner, workspace.id, [
    { url: `https://example.com/?q=${encodeURIComponent(markup)}`, title: markup.slice(0, 200), tags: ['<b>bold</b>', 'تخفيضات'], note: markup },
    { url: `https://example.com/${'long/'.repeat(380)}`, title: 'עודף '.repeat(38), note: 'x'.repeat(2000) },
    { url: 'https://example.com/title', title: 'T'.repeat(200), tags: ['t'.repeat(50)] },
  ]);
  await call(owner.token, 'CreateFolder', { input: { workspaceId: workspace.id, name: '<i>folder</i>' } });
  await call(owner.token, 'UpdateLink', { input: { id: link.id, routing: { gate: { notice: markup.slice(0, 500) },
    rules: [{ name: '<u>rule</u>', when: [{ query: { name: '<s>', value: markup.slice(0, 60) } }], targets: [{ name: '<b>', url: 'https://example.com/a' }] }] } } });
  const { context, page } = await enter(browser, owner);
  let canaries = 0;
  context.on('request', request => { if (request.url().includes('/canary') && !request.url().includes('?')) canaries++; });
  page.on('dialog', () => { canaries++; });
  for (const place of ['links', 'tags', 'tags?show=folders', 'activity', `links/${link.id}?tab=details`, `links/${link.id}?tab=rules`, `links/${link.id}?tab=history`]) {
    await page.goto(`${app}/${place}`);
    await page.getByRole('heading').first().waitFor();
    await check(page, `hostile ${place}`);
  }
  assert.equal(canaries, 0, 'markup was executed');
  assert.equal(await page.locator('main img[src*=canary], main script').count(), 0);
  await context.close();
  tell('Markup, right-to-left and very long texts are text.');
}

// many: a thousand tags and ten thousand links.
async function many({ browser, owner }) {
  const { token } = owner;
  const workspace = await call(token, 'CreateWorkspace', { input: { name: 'Ten thousand', slug: `many-${Date.now().toString(36)}` } });
  const workspaceId = workspace.workspace.id;
  for (let n = 0; n < 10; n++) {
    await send(token, 'mutation($input: CreateLinksInput!) { createLinks(input: $input) { errors { message } } }', { input: { workspaceId, links:
      Array.from({ length: 1000 }, (_, i) => ({ url: `https://example.com/${n}/${i}`, title: `Page ${n * 1000 + i}`, tags: [`tag ${i}`] })) } });
  }
  const { context, page } = await enter(browser, owner);
  const slow = await context.newCDPSession(page);
  await page.goto(`${base}/app/${workspace.workspace.slug}/links`);
  await page.getByText('10,000').or(page.getByText('10K')).first().waitFor();
  await slow.send('Emulation.setCPUThrottlingRate', { rate: 4 });
  const started = Date.now();
  await page.reload();
  await page.getByRole('list', { name: 'Links' }).getByRole('listitem').first().waitFor();
  tell(`Ten thousand links: the first are seen after ${Date.now() - started} ms, at a quarter of the speed.`);
  await slow.send('Emulation.setCPUThrottlingRate', { rate: 1 });
  const rows = page.getByRole('list', { name: 'Links' }).getByRole('listitem');
  for (let seen = 25; seen < 150; seen += 25) {
    await page.mouse.wheel(0, 100_000);
    await page.waitForFunction(n => document.querySelectorAll('.links > li').length > n, seen);
  }
  assert.ok(await rows.count() >= 150);
  await page.getByRole('link', { name: 'Tags' }).click();
  await page.locator('.items > li').first().waitFor();
  await check(page, 'many tags');
  await context.close();
  tell('A thousand tags, and links that come as one scrolls.');
}
