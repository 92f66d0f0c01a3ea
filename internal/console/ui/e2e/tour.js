// The first minutes of somebody who has just started a server, and the pictures of them in docs/images.
import assert from 'node:assert/strict';
import path from 'node:path';

import { newEmail, visit } from './seeds.js';
import { base, check, open, PASSWORD, press, settled, tell, type } from './stage.js';

const MINUTE_MS = 60_000;

// tour goes from the root of the server to a click in the chart, by the keyboard.
export async function tour({ browser, isRough }) {
  for (const dark of [false, true]) {
    const context = await open(browser, { dark, deviceScaleFactor: 1 });
    const page = await context.newPage();
    const picture = async name => {
      if (!process.env.DOCS_IMAGES) return;
      await page.screenshot({ path: path.join(process.env.DOCS_IMAGES, `console-${name}-${dark ? 'dark' : 'light'}.png`), animations: 'disabled' });
    };
    const started = Date.now();
    await page.goto(base);
    await page.waitForURL(`${base}/app`);
    await press(page, page.getByRole('link', { name: 'Create an account' }));
    await type(page, page.getByLabel('Name'), 'Ada Lovelace');
    await type(page, page.getByLabel('E-mail'), newEmail('ada'));
    await type(page, page.getByLabel('Password'), PASSWORD);
    if (!isRough && !dark) await check(page, 'register', { shots: true });
    await page.keyboard.press('Enter');

    await type(page, page.getByLabel('Name of the workspace'), dark ? 'Northwind Dark' : 'Northwind');
    await picture('1-workspace');
    await page.keyboard.press('Enter');
    await type(page, page.getByLabel('Paste a long URL'), 'shop.example.com/spring?utm_source=newsletter');
    await picture('2-first-url');
    await page.keyboard.press('Enter');
    await page.getByRole('img', { name: /QR code of/ }).waitFor();
    await picture('3-short-url');
    if (!isRough && !dark) await check(page, 'first-link');
    await press(page, page.getByRole('button', { name: /Copy/ }));
    const short = await page.evaluate(() => navigator.clipboard.readText());

    await press(page, page.getByRole('button', { name: 'Go to your links' }));
    await press(page, page.getByRole('list', { name: 'Links' }).getByRole('link').first());
    await page.getByText('live', { exact: true }).waitFor();
    await settled(page);
    await visit(short, 12);
    await page.getByText('Open the short URL: its click appears here.').waitFor({ state: 'detached' });
    await page.locator('.uplot').waitFor();
    await page.locator('.figures').getByText('12', { exact: true }).first().waitFor();
    await settled(page);
    await picture('4-live-click');
    const seconds = Math.round((Date.now() - started) / 1000);
    assert.ok(Date.now() - started < MINUTE_MS, `${seconds} s`);
    tell(`From the root of the server to a live click in the chart, ${dark ? 'dark' : 'light'}: ${seconds} s.`);
    await context.close();
  }
}

// pictures are those of a workspace in use.
export async function pictures({ browser, owner, workspace }) {
  if (!process.env.DOCS_IMAGES) return;
  for (const dark of [false, true]) {
    const context = await open(browser, { dark, deviceScaleFactor: 1 });
    const page = await context.newPage();
    await page.goto(`${base}/app`);
    await page.getByLabel('E-mail').fill(owner.email);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await page.getByRole('list', { name: 'Links' }).waitFor();
    for (const [name, place] of [['links', 'links'], ['link', `links/${workspace.links[0].id}`], ['rules', `links/${workspace.links[0].id}?tab=rules`],
      ['dashboard', 'dashboard']]) {
      await page.goto(`${base}/app/${workspace.slug}/${place}`);
      await page.getByRole('heading').first().waitFor();
      await settled(page);
      await page.waitForTimeout(500);
      await page.screenshot({ path: path.join(process.env.DOCS_IMAGES, `console-${name}-${dark ? 'dark' : 'light'}.png`), animations: 'disabled' });
    }
    await context.close();
  }
}
