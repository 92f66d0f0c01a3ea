// A server for production: accounts by invitation or at the provider, and no documents but those of the console.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { logIn as session, newEmail } from './seeds.js';
import { base, open, PASSWORD, tell } from './stage.js';

const { LINKFORGE_TEST_PROGRAM: program, LINKFORGE_TEST_SSO_ISSUER: issuer, ...env } = process.env;
const settings = Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('WITH_LINKFORGE_')).map(([name, value]) => [name.slice('WITH_'.length), value]));

// firstAccount is what the operator does, and then goes on without a terminal. It returns the account.
export async function firstAccount({ browser }) {
  const email = newEmail('grace');
  const { stdout } = await promisify(execFile)(program, ['users', 'create', email, '--name', 'Grace Hopper'],
    { env: { PATH: env.PATH, LINKFORGE_DATA_DIR: env.LINKFORGE_DATA_DIR, LINKFORGE_PUBLIC_URL: base, ...settings } });
  const address = /http\S+/.exec(stdout)?.[0];
  assert.ok(address, stdout);
  const context = await open(browser);
  const page = await context.newPage();
  await page.goto(address);
  await page.getByLabel('New password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set the password' }).click();
  await page.getByRole('link').first().click();
  await page.waitForURL(`${base}/app`);
  assert.equal(await page.getByText('Create an account').count(), 0);
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByLabel('Name of the workspace').fill('First');
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.getByLabel('Paste a long URL').fill('example.com/first');
  await page.getByRole('button', { name: 'Shorten' }).click();
  await page.getByText('Your link is ready').waitFor();
  await context.close();
  tell('linkforge users create prints a page, from which a new user gets to the first link.');
  return session({ name: 'Grace Hopper', email });
}

// singleSignOn logs a new user in at the identity provider, and says when that was not completed.
export async function singleSignOn({ browser }) {
  const context = await open(browser);
  context.allowed.add(issuer);
  await context.route('https://fonts.googleapis.com/**', route => route.fulfill({ contentType: 'text/css', body: '' }));
  context.allowed.add('https://fonts.googleapis.com');
  const page = await context.newPage();
  await page.goto(`${base}/app`);
  await page.getByRole('button', { name: 'Continue with SSO' }).click();
  await page.locator('input[name=login]').fill(`sso-${Date.now().toString(36)}`);
  await page.locator('input[name=password]').fill('any');
  assert.equal(/sso_/.test(page.url()), false, 'the transaction is in a URL');
  await page.locator('button[type=submit]').click();
  await page.locator('input[name=prompt][value=consent]').waitFor({ state: 'attached' });
  await page.locator('button[type=submit]').click();
  await page.getByLabel('Name of the workspace').waitFor();
  assert.equal(new URL(page.url()).search, '');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.evaluate(() => localStorage.clear());
  await page.goto(`${base}/app/login?error=access_denied&state=any`);
  await page.getByRole('status').getByText(/not completed/).waitFor();
  assert.equal(new URL(page.url()).search, '');
  await context.close();
  tell('A user logs in at the identity provider, and a log-in that was not completed says so.');
}
