// A walk through every screen for each role, by the keyboard alone.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { account, invited, shop } from './seeds.js';
import { base, check, logIn, open, press, settled, tabTo, tell, type } from './stage.js';

const EVERYONE = ['Links', 'Dashboard', 'Tags', 'Domains', 'People', 'Move', 'Activity'];
const ADMINS = ['Links', 'Dashboard', 'Tags', 'Domains', 'People', 'Keys', 'Webhooks', 'Move', 'Activity', 'Settings'];
const ROLES = { OWNER: ADMINS, ADMIN: ADMINS, EDITOR: EVERYONE, VIEWER: EVERYONE };
// READS are the buttons of those who change nothing: to copy, to choose what is shown, and to filter.
const READS = /^(|QR code|Today|7 days|30 days|90 days|Year|Custom|View at date…|.*\d)$/;
const NAMES = { ADMIN: 'Bea Admin', EDITOR: 'Edi Tor', VIEWER: 'Vi Ewer' };

export async function roles({ browser, owner, isRough }) {
  owner ??= await account('Ada Lovelace');
  const workspace = await shop(owner, { hasWebhook: !isRough });
  for (const [role, screens] of Object.entries(ROLES)) {
    const user = role === 'OWNER' ? owner : await invited(owner, workspace.id, NAMES[role], role);
    const context = await open(browser);
    const page = await context.newPage();
    await logIn(page, user);
    await page.getByRole('heading', { name: 'Links' }).waitFor();
    await walk(page, role, screens, workspace, isRough);
    await useLinks(page, role, workspace, isRough);
    if (role === 'OWNER') await aside(page, workspace, isRough);
    await logOut(page);
    await context.close();
    tell(`${role}: ${screens.length} screens, their tabs and what the role may do, by the keyboard.`);
  }
  return { owner, workspace };
}

const entry = (page, name) => page.getByRole('navigation', { name: 'Workspace' }).getByRole('link', { name, exact: true });

const shows = (page, links) => page.waitForFunction(n => document.querySelectorAll('.links > li').length === n, links);

// walk goes to each screen. It sends one query, looks good, and has nothing that is there but disabled.
async function walk(page, role, screens, workspace, isRough) {
  const names = await page.getByRole('navigation', { name: 'Workspace' }).getByRole('link').allTextContents();
  assert.deepEqual(names, screens, role);
  for (const name of [...screens.slice(1), screens[0]]) {
    page.context().asked.length = 0;
    await press(page, entry(page, name));
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await settled(page);
    assert.equal(page.context().asked.filter(text => text.startsWith('query')).length, 1, `${name} asks ${page.context().asked}`);
    if (role === 'VIEWER') assert.equal(await page.locator('main :disabled').count(), 0, `${name} has what a viewer may not use`);
    if (!isRough) await check(page, name.toLowerCase(), { shots: role === 'OWNER' });
  }
}

// useLinks searches, opens a link and its tabs, and does what the role may.
async function useLinks(page, role, workspace, isRough) {
  await page.locator('body').click({ position: { x: 640, y: 790 } });
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('/');
  await page.keyboard.type(`${base}/${workspace.slug}/spring`.replace('http://', ''));
  await page.keyboard.press('Enter');
  await page.waitForURL(/search=/);
  await shows(page, 1);
  await press(page, page.getByRole('list', { name: 'Links' }).getByRole('link').first());
  const panel = page.getByRole('article', { name: 'Link' });
  for (const tab of ['Clicks', 'Details', 'Rules', 'History']) {
    page.context().asked.length = 0;
    await press(page, panel.getByRole('link', { name: tab, exact: true }));
    await page.waitForURL(new RegExp(`tab=${tab.toLowerCase()}`));
    await settled(page);
    const asked = page.context().asked.filter(text => text.startsWith('query') && text !== 'query ExplainRedirect');
    assert.ok(asked.length <= 1, `${tab} asks ${asked}`);
    if (!isRough) await check(page, `link-${tab.toLowerCase()}`, { shots: role === 'OWNER' });
    if (role === 'VIEWER') assert.deepEqual((await panel.getByRole('button').allTextContents()).filter(text => !READS.test(text.trim())), []);
  }
  await panel.focus();
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'detached' });
  if (role === 'VIEWER') return onlyReads(page);

  await page.locator('body').click({ position: { x: 640, y: 790 } });
  await page.keyboard.press('c');
  const dialog = page.getByRole('dialog', { name: 'New link' });
  await type(page, dialog.getByLabel('Destination'), `example.com/made-by-${role.toLowerCase()}`);
  await dialog.getByText(`https://example.com/made-by-${role.toLowerCase()}`).waitFor();
  if (!isRough && role === 'OWNER') await check(page, 'link-new', { shots: true });
  await page.keyboard.press('Enter');
  await page.getByText(/ created, and copied\./).waitFor();
  await dialog.waitFor({ state: 'detached' });
  const short = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal((await fetch(short, { redirect: 'manual' })).headers.get('location'), `https://example.com/made-by-${role.toLowerCase()}`);

  await press(page, entry(page, 'Links'));
  await settled(page);
  const box = page.getByRole('checkbox').first(), rows = page.getByRole('list', { name: 'Links' }).getByRole('listitem');
  const before = await rows.count();
  await press(page, box, 'Space');
  await press(page, page.getByRole('toolbar', { name: 'Selected links' }).getByRole('button', { name: 'Delete' }));
  await page.getByText('1 deleted').waitFor();
  await shows(page, before - 1);
  await press(page, page.getByRole('status').getByRole('button', { name: 'Undo' }).last());
  await shows(page, before);
}

async function onlyReads(page) {
  await page.locator('body').click({ position: { x: 640, y: 790 } });
  await page.keyboard.press('c');
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.getByRole('link', { name: 'New link' }).count(), 0);
  assert.equal(await page.getByRole('checkbox').count(), 0);
}

// aside looks at what is beside the walk: empty screens, the account, dialogs, what does not exist.
async function aside(page, workspace, isRough) {
  await press(page, entry(page, 'Keys'));
  await press(page, page.getByRole('button', { name: 'Create key' }));
  const dialog = page.getByRole('dialog', { name: 'Create key' });
  await type(page, dialog.getByLabel('Name'), 'Newsletter');
  await press(page, dialog.getByLabel('Create links'), 'Space');
  await page.keyboard.press('Enter');
  await page.getByText(/lf[a-z]*_\w{20,}/).first().waitFor();
  if (!isRough) await check(page, 'key-created');
  await press(page, page.getByRole('button', { name: 'Done' }));

  await press(page, entry(page, 'Tags'));
  await press(page, page.getByLabel('Actions for spring'));
  await press(page, page.getByRole('menuitem', { name: 'Rename' }));
  await type(page, page.getByLabel('New name'), 'sale');
  await page.getByText('This tag exists').waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('The tags of one link are changed.').waitFor();
  await page.getByLabel('Actions for spring').waitFor({ state: 'detached' });
  await press(page, page.getByRole('link', { name: 'Folders', exact: true }));
  await press(page, page.getByRole('button', { name: 'New folder' }));
  await type(page, page.getByLabel('Name', { exact: true }), 'Spring campaign');
  await page.keyboard.press('Enter');
  await page.locator('.field .error').waitFor(); // another folder has the name
  await type(page, page.getByLabel('Name', { exact: true }), 'Summer campaign');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Summer campaign' }).waitFor();

  await press(page, entry(page, 'Move'));
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Export links' }) });
  const [download] = await Promise.all([page.waitForEvent('download'), press(page, section.getByRole('button', { name: 'Download' }))]);
  const [head, ...rows] = (await readFile(await download.path(), 'utf8')).split('\r\n');
  assert.match(head, /^\ufeff"url","shortUrl","title"/);
  assert.ok(rows.some(row => row.startsWith('"https://shop.example.com/spring",') && row.includes('"sale"')), rows);

  await page.goto(`${base}/app/${workspace.slug}/links/${workspace.links[0].id}?tab=rules`);
  await type(page, page.getByLabel('URL', { exact: true }).first(), 'https://shop.example.com/phones');
  await press(page, page.getByRole('button', { name: 'Try on the last 30 days' }));
  await page.getByText(/ of 34 clicks would go elsewhere/).waitFor();
  await page.getByText('→ Phones: shop.example.com/phones').waitFor();
  if (!isRough) await check(page, 'link-simulation');
  await press(page, page.getByRole('button', { name: 'Cancel' }));

  await page.goto(`${base}/app/account`);
  await page.getByRole('heading', { name: 'Your account' }).waitFor();
  if (!isRough) await check(page, 'account', { shots: true });
  await page.goto(`${base}/app/nothing-here/links`);
  await page.getByText('No such workspace').waitFor();
  if (!isRough) await check(page, 'no-such-workspace');
  await page.goto(`${base}/app/${workspace.slug}/links`);
  await page.getByRole('heading', { name: 'Links' }).waitFor();
}

async function logOut(page) {
  await press(page, page.getByLabel(/workspaces and account/));
  await press(page, page.getByRole('menuitem', { name: 'Log out' }));
  await page.getByRole('heading', { name: 'Log in' }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('linkforge.refreshToken')), null);
}
