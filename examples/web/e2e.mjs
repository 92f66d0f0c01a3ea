// Uses the built page as a newcomer would, in a headless Chromium, with the server at LINKFORGE_TEST_URL:
//
//   node e2e.mjs PAGE_URL SCREENSHOT_FOLDER
//
// The page is served here, at PAGE_URL, which the server must have been told in LINKFORGE_ORIGINS. CHROMIUM names the browser.
// Exits with 1 when a step fails or the browser complains about anything.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';

import jsqr from 'jsqr';
import { chromium } from 'playwright-core';

// The old service delays what follows FAST_OLD_REQUESTS until the comparison with it is canceled, so that it cannot end before.
const FAST_OLD_REQUESTS = 300;
let oldRequests = 0, releaseOldService;
const comparisonCanceled = new Promise(resolve => { releaseOldService = resolve; });

const [address, folder] = process.argv.slice(2);
const api = new URL('/graphql', process.env.LINKFORGE_TEST_URL).href;
const origin = new URL(address).origin;
const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

// IPHONE has the headers that the rule of editRouting expects.
const IPHONE = {
  'User-Agent': 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  'Accept-Language': 'de-AT,en;q=0.8',
};

const complaints = [];
let steps = 0;
const tell = sentence => console.log(`${String(++steps).padStart(2)}. ${sentence}`);

await mkdir(folder, { recursive: true });
const server = await serve();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP *.example.test 127.0.0.1'] });
const context = await openContext();
const page = await context.newPage();
try {
  const visitor = await anonymousVisitor();
  const account = await story();
  await editRouting();
  await editConditions();
  await imports();
  await claims(visitor, account);
  await others();
  await publishable();
  await singleSignOn();
  await secondFactor();
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

// singleSignOn logs a new user in at the identity provider.
async function singleSignOn() {
  const visitor = await (await openContext()).newPage();
  await visitor.goto(address);
  await logInAtProvider(visitor, `sso-${Date.now().toString(36)}`);
  await visitor.locator('#who').getByText('Ada', { exact: true }).waitFor();
  assert.equal(visitor.url(), `${origin}/`);
  assert.equal(await visitor.evaluate(() => sessionStorage.getItem('linkforge.sso')), null);
  await visitor.getByRole('heading', { name: 'Your first workspace' }).waitFor();
  tell('A user logs in at the identity provider, and neither its code nor the transaction stays.');

  await visitor.getByRole('button', { name: 'Log out' }).click();
  await visitor.goto(`${address}/?error=access_denied&state=any`);
  await visitor.getByText('The log-in was not completed: access_denied.').waitFor();
  assert.equal(visitor.url(), `${origin}/`);
  tell('A log-in that the provider refuses is reported.');
}

// logInAtProvider fills in the pages of oidc-provider: log-in, and consent.
async function logInAtProvider(visitor, login) {
  await visitor.route('https://fonts.googleapis.com/**', route => route.fulfill({ contentType: 'text/css', body: '' }));
  await visitor.getByRole('button', { name: 'Continue with SSO' }).click();
  await visitor.locator('input[name=login]').fill(login);
  await visitor.locator('input[name=password]').fill('any');
  assert.notEqual(new URL(visitor.url()).origin, origin);
  assert.equal(/sso_/.test(visitor.url()), false, 'the transaction is in a URL');
  await visitor.locator('button[type=submit]').click();
  await visitor.locator('input[name=prompt][value=consent]').waitFor({ state: 'attached' });
  await visitor.locator('button[type=submit]').click();
  await visitor.waitForURL(`${origin}/**`);
}

// secondFactor sets up an authenticator app, logs in with a recovery code, and connects the identity at the provider.
async function secondFactor() {
  const visitor = await (await openContext()).newPage();
  const login = `grace-${Date.now().toString(36)}`;
  const account = { email: `${login}@example.com`, password: 'correct horse battery staple' };
  await visitor.goto(address);
  await visitor.getByLabel('Your name').fill('Grace Hopper');
  await visitor.getByLabel('E-mail').fill(account.email);
  await visitor.getByLabel('Password').fill(account.password);
  await visitor.getByRole('button', { name: 'Register' }).click();
  await visitor.getByRole('button', { name: 'Second factor' }).click();
  await visitor.getByLabel('Proof that it is you').fill(account.password);
  await visitor.getByRole('button', { name: 'Set up an authenticator app' }).click();
  const uri = new URL(await visitor.locator('#totp-uri').filter({ hasText: 'otpauth:' }).textContent());
  assert.equal(await visitor.locator('#totp-secret').textContent(), uri.searchParams.get('secret'));
  const { data, width, height } = await visitor.locator('#totp-qr').evaluate(canvas => {
    const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return { data: [...data], width, height };
  });
  assert.equal(jsqr(Uint8ClampedArray.from(data), width, height)?.data, uri.href);
  await visitor.screenshot({ path: path.join(folder, `${String(steps + 1).padStart(2, '0')}-enroll.png`) });
  await visitor.getByLabel('Code in the app').fill(totp(uri.searchParams.get('secret')));
  await visitor.getByRole('button', { name: 'Confirm' }).click();
  await visitor.locator('#recovery-codes li').first().waitFor();
  const codes = await visitor.locator('#recovery-codes li').allTextContents();
  assert.equal(new Set(codes).size, 10);
  assert.equal(await visitor.locator('#totp-secret').textContent(), '');
  tell('A user sets up an authenticator app by its URI or QR code, and gets ten recovery codes.');

  await visitor.getByRole('button', { name: 'Log out' }).click();
  await signIn(visitor, account);
  await prove(visitor, 'RECOVERY_CODE', 'wrong');
  await visitor.locator('input[name=proof][aria-invalid=true], #status.wrong').first().waitFor();
  await prove(visitor, 'RECOVERY_CODE', codes[0]);
  await visitor.locator('#who').getByText('Grace Hopper').waitFor();
  await visitor.getByRole('button', { name: 'Second factor' }).click();
  await visitor.getByText('Unused recovery codes: 9.').waitFor();
  assert.equal(await visitor.locator('#recovery-codes li').count(), 0);
  tell('The password is not enough any more, and a recovery code replaces the app.');

  await visitor.getByRole('button', { name: 'Log out' }).click();
  await logInAtProvider(visitor, login);
  await prove(visitor, 'PASSWORD', account.password);
  await prove(visitor, 'RECOVERY_CODE', codes[1]);
  await visitor.locator('#who').getByText('Grace Hopper').waitFor();
  tell('An identity with the address of an account is connected by its password and its second factor.');

  await visitor.getByRole('button', { name: 'Second factor' }).click();
  await visitor.getByLabel('Code of the app').fill(codes[1]);
  await visitor.getByRole('button', { name: 'Replace the recovery codes' }).click();
  await visitor.locator('input[name=proof][aria-invalid=true]').waitFor();
  await visitor.getByLabel('Code of the app').fill(codes[2]);
  await visitor.getByRole('button', { name: 'Replace the recovery codes' }).click();
  await visitor.getByText('The earlier recovery codes are invalid.').waitFor();
  const renewed = await visitor.locator('#recovery-codes li').allTextContents();
  assert.equal(new Set([...codes, ...renewed]).size, 20);
  await visitor.getByLabel('Code of the app').fill(renewed[0].toLowerCase());
  await visitor.getByRole('button', { name: 'Remove the authenticator app' }).click();
  await visitor.getByText('Your account has no second factor.').waitFor();
  tell('The recovery codes are replaced, and the app is removed, each by a proof of identity.');
}

async function prove(visitor, method, proof) {
  await visitor.locator(`#challenge option[value=${method}]`).waitFor({ state: 'attached' });
  await visitor.locator('#challenge select').selectOption(method);
  await visitor.locator('#challenge input').fill(proof);
  await visitor.getByRole('button', { name: 'Continue' }).click();
}

// totp returns the present code of a secret in base32: RFC 6238 with SHA-1, six digits and 30 seconds.
function totp(secret) {
  const bits = [...secret].map(c => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map(byte => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000)));
  const hash = createHmac('sha1', key).update(counter).digest();
  const code = hash.readUInt32BE(hash.at(-1) & 15) & 0x7fffffff;
  return String(code % 1_000_000).padStart(6, '0');
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
    await page.getByLabel('URL', { exact: true }).fill(`${origin}/destination?n=${i}`);
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

  await page.getByLabel('New folder').fill('Campaigns');
  await page.getByRole('button', { name: 'Create folder' }).click();
  await page.getByText('The folder Campaigns is empty.').waitFor();
  await page.getByLabel('URL', { exact: true }).fill(`${origin}/destination?n=8`);
  await page.getByLabel('Title').fill('Destination 8');
  await page.getByLabel('Tags').fill('print, spring');
  await page.locator('select[name=folder]').selectOption({ label: 'Campaigns (0)' });
  await page.getByRole('button', { name: 'Shorten' }).click();
  await page.locator('tbody').getByText('Destination 8 in Campaigns #print #spring').waitFor();
  await page.locator('#tags option[value=spring]').waitFor({ state: 'attached' });
  await page.locator('#shown').selectOption({ label: 'Campaigns (1)' });
  await page.getByText('1 of 1').waitFor();
  await page.locator('#shown').selectOption({ label: 'all links' });
  await page.getByText('5 of 8').waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('8 of 8').waitFor();
  tell('A link with tags is in a folder, and the list shows the folder alone.');

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
  await follow(page.locator('tbody tr').first().getByRole('link'), `${origin}/destination?n=8`);
  await page.locator('#clicks li', { hasText: 'Destination 8' }).waitFor();
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
  await page.getByText('8 of 8').waitFor();
  const noted = complaints.splice(renewing); // the browser's own note of the refusal
  assert.equal(noted.length, 1);
  assert.match(noted[0], /401/);
  assert.notEqual(await page.evaluate(() => JSON.parse(sessionStorage.getItem('linkforge.session')).token), 'spent');
  tell('A token that has ended is renewed.');
  return { email: `${slug}@example.com`, password: 'correct horse battery staple' };
}

// editRouting edits the rules of a link with a live explanation, saves them, and follows the short URL.
async function editRouting() {
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
  const row = page.locator('tbody tr', { hasText: 'Destination 5' });
  const shortUrl = await row.getByRole('link').getAttribute('href');
  const own = `${origin}/destination?n=5`;
  const [a, b] = ['a', 'b'].map(target => `${origin}/destination?target=${target}`);
  await row.getByRole('button', { name: 'Routing of' }).click();
  await page.getByRole('heading', { name: 'Routing of' }).waitFor();
  const answer = page.locator('#answer');
  await answer.getByText("No rule decides: the link's URL.").waitFor();
  assert.equal(await page.locator('#answer-location').textContent(), own);
  tell('The editor of a plain link explains that visitors get its URL.');

  const rule = page.getByRole('listitem', { name: 'Rule 1' });
  const visit = page.locator('#visit');
  await page.getByRole('button', { name: 'Add rule' }).click();
  await rule.getByLabel('Name').first().fill('German iPhones');
  await addCondition(rule, 'condition', 'os', 'Systems', 'iOS');
  await addCondition(rule, 'condition', 'language', 'Languages', 'de');
  await addCondition(rule, 'exception', 'bot');
  await rule.getByLabel('URL').fill(a);
  await rule.getByRole('button', { name: 'Add target' }).click();
  await rule.getByLabel('URL').nth(1).fill(b);
  await rule.getByLabel('Share').first().fill('3');
  await visit.getByLabel('Visitor').selectOption({ label: 'iPhone' });
  await rule.getByText('The condition on language does not hold').waitFor();
  assert.equal(await rule.locator('.condition.fails').getByLabel('Languages').inputValue(), 'de');
  await visit.getByLabel('Accept-Language').fill('de-AT,en;q=0.8');
  await answer.getByText('Rule 1 decides.').waitFor();
  await rule.getByText('Decides this visit').waitFor();
  assert.equal(await rule.locator('.target .badge', { hasText: 'Candidate' }).count(), 2);
  assert.equal(await page.locator('#answer-status').textContent(), '302');
  assert.ok([a, b].includes(await page.locator('#answer-location').textContent()));
  await shot('routing');
  await page.evaluate(() => scrollTo(0, 0));
  await shot('routing-top');
  await explainOnlyTheLatest(visit, answer);
  await visit.getByLabel('Visitor').selectOption({ label: 'Search bot' });
  await answer.getByText("No rule decides: the link's URL.").waitFor();
  assert.deepEqual(await visitShortUrl(shortUrl, IPHONE), [302, own]);
  tell('A rule with conditions and two targets decides the tried visit before it is saved. A new edit aborts an outdated explanation.');

  await rule.getByLabel('URL').nth(1).fill('ftp://example.com/');
  await answer.getByText(/^Rule 1, target 2, url: .*https?:/).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  const wrong = rule.locator('input[aria-invalid=true]');
  await wrong.waitFor();
  assert.equal(await wrong.inputValue(), 'ftp://example.com/');
  assert.equal(await wrong.evaluate(e => e === document.activeElement), true, 'the wrong field has no focus');
  assert.match(await wrong.evaluate(e => document.getElementById(e.getAttribute('aria-describedby')).textContent), /https?:/);
  await shot('routing-error');
  tell('The server refuses a URL in the explanation, and when it is saved: then the message is at the field of the second target.');

  await wrong.fill(b);
  assert.equal(await wrong.count(), 0, 'the message stays although the field has been edited');
  for (const share of await rule.getByLabel('Share').all()) await share.fill('0');
  await page.getByRole('button', { name: 'Save' }).click();
  await rule.locator('[data-path="rules/0/targets"].invalid > em').waitFor();
  await rule.getByLabel('Share').first().fill('3');
  assert.equal(await rule.locator('em').count(), 0);
  await rule.getByLabel('Share').nth(1).fill('1');
  tell('A message about all targets of a rule is at their group, and disappears with the next edit.');

  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('button', { name: 'Add rule' }).click();
  await page.locator('[data-path="rules/1/name"]').fill('Office hours');
  await addCondition(page.getByRole('listitem', { name: 'Rule 2' }), 'condition', 'weekly');
  await addCondition(page.getByRole('listitem', { name: 'Rule 2' }), 'condition', 'country', 'Countries', 'de, at');
  await page.getByRole('button', { name: 'Move rule 2 up' }).press('Enter');
  assert.equal(await rule.getByLabel('Name').first().inputValue(), 'Office hours');
  assert.equal(await rule.getByLabel('Name').first().evaluate(e => e === document.activeElement), true, 'the moved rule has no focus');
  const [saved] = (await readRules(shortUrl)).rules;
  assert.equal(saved.name, 'German iPhones');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await page.locator('#warnings').getByText('Rule 1, condition 2, country').waitFor();
  const after = await readRules(shortUrl);
  assert.deepEqual(after.rules.map(r => r.name), ['Office hours', 'German iPhones']);
  assert.deepEqual(after.rules[1], saved, 'the moved rule or its targets have other ids');
  assert.deepEqual(after.rules[0].when[1].country, ['DE', 'AT']);
  tell('A second rule is moved before the first with the keyboard. The first keeps its ids, and a warning about countries is shown.');

  await page.reload();
  await page.locator('tbody tr', { hasText: 'Destination 5' }).getByRole('button', { name: 'Routing of' }).click();
  const reloaded = page.getByRole('listitem', { name: 'Rule 2' });
  assert.equal(await reloaded.getByLabel('Name').first().inputValue(), 'German iPhones');
  assert.deepEqual(await reloaded.getByLabel('URL').evaluateAll(all => all.map(e => e.value)), [a, b]);
  assert.equal(await reloaded.getByLabel('Languages').inputValue(), 'de');
  const [status, location] = await visitShortUrl(shortUrl, IPHONE);
  assert.equal(status, 302);
  assert.ok([a, b].includes(location), `an iPhone is redirected to ${location}`);
  assert.deepEqual(await visitShortUrl(shortUrl, { ...IPHONE, 'Accept-Language': 'fr' }), [302, own]);
  await followAs(shortUrl, [a, b]);
  tell('After a reload the rules are shown, and an iPhone in German follows the short URL to one of the targets.');

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await visit.getByLabel('Visitor').selectOption({ label: 'iPhone' });
  await visit.getByLabel('Accept-Language').fill('de');
  await answer.getByText('Rule 2 decides.').waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'the editor is wider than a phone');
  await page.evaluate(() => scrollTo(0, 0));
  await shot('routing-phone');
  await page.locator('.target').first().scrollIntoViewIfNeeded();
  await shot('routing-phone-targets');
  tell('On a phone in the dark, the answer stays below the rules.');

  await page.setViewportSize({ width: 1280, height: 900 });
  await request('mutation ($id: ID!) { updateLink(input: {id: $id, title: "Changed elsewhere"}) { errors { message } } }', { id: after.id });
  await page.locator('[data-path="rules/0/name"]').fill('Lost');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Your changes are not saved.').waitFor();
  await shot('routing-conflict');
  page.once('dialog', dialog => dialog.accept());
  await page.getByRole('button', { name: 'Load the current routing' }).click();
  await page.locator('#routing-status', { hasText: /^$/ }).waitFor({ state: 'attached' });
  assert.equal(await page.locator('[data-path="rules/0/name"]').inputValue(), 'Office hours');
  await page.getByRole('button', { name: 'Back to the links' }).click();
  await page.getByRole('heading', { name: 'Links of Analytical Engines' }).waitFor();
  tell('A change by another client since is reported as a conflict, and the current routing is loaded.');
}

// editConditions saves a rule with a condition of each kind, and expects the server to store the values of the fields.
async function editConditions() {
  const row = page.locator('tbody tr', { hasText: 'Destination 6' });
  const shortUrl = await row.getByRole('link').getAttribute('href');
  await row.getByRole('button', { name: 'Routing of' }).click();
  await page.locator('#answer-location', { hasText: `${origin}/destination?n=6` }).waitFor();
  await page.getByRole('button', { name: 'Add rule' }).click();
  const rule = page.getByRole('listitem', { name: 'Rule 1' });
  const add = (kind, label, text) => addCondition(rule, 'condition', kind, label, text);
  await add('country', 'Countries', 'de, at');
  await rule.getByLabel('or unknown').check();
  await add('device');
  await rule.getByRole('checkbox', { name: 'tablet' }).check();
  await rule.getByRole('checkbox', { name: 'unknown', exact: true }).check();
  await add('os', 'Systems', 'iOS, Android');
  await add('browser', 'Browsers', 'Firefox');
  await add('language', 'Languages', 'pt-BR');
  await add('referrer', 'Referring hosts', '.example.com');
  await add('query');
  await rule.getByRole('group', { name: 'Query parameter' }).getByLabel('Name').fill('ref');
  await add('weekly');
  await rule.getByRole('checkbox', { name: 'Fri' }).uncheck();
  await rule.getByLabel('Time zone').fill('Europe/Berlin');
  await rule.getByRole('group', { name: 'Times of the week' }).getByLabel('To').fill('24:00');
  await add('during', 'Until', '2031-05-01T12:00:00');
  await add('network', 'Networks', '192.0.2.0/24, 2001:db8::1');
  await add('bot');
  await rule.getByRole('combobox', { name: 'Visitor' }).selectOption({ label: 'Is not a bot' });
  await page.locator('#settings').getByLabel('Query of the short URL').selectOption('REPLACE');
  await page.getByLabel('Only these parameters').fill('ref, lang');
  await page.getByLabel('After the link has ended, redirect to').fill('https://example.com/ended?code={code}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const until = await page.evaluate(() => new Date('2031-05-01T12:00:00').toISOString().replace('.000', ''));
  const { rules, query, endedUrl } = await readRules(shortUrl);
  assert.deepEqual(rules[0].when.map(withoutNulls), [
    { country: ['DE', 'AT', ''] },
    { device: ['tablet', ''] },
    { os: ['iOS', 'Android'] },
    { browser: ['Firefox'] },
    { language: ['pt-BR'] },
    { referrer: ['.example.com'] },
    { query: { name: 'ref', value: null } },
    { weekly: { timezone: 'Europe/Berlin', days: ['MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY'], from: '09:00', to: '24:00' } },
    { during: { from: null, to: until } },
    { network: ['192.0.2.0/24', '2001:db8::1'] },
    { bot: false },
  ]);
  assert.deepEqual({ query, endedUrl }, { query: { mode: 'REPLACE', only: ['ref', 'lang'] }, endedUrl: 'https://example.com/ended?code={code}' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  assert.deepEqual((await readRules(shortUrl)).rules, rules, 'saving the same rules again changes them');
  await page.locator('#answer').getByText("No rule decides: the link's URL.").waitFor();
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'the conditions are wider than a phone');
  await rule.getByRole('group', { name: 'Times of the week' }).scrollIntoViewIfNeeded();
  await shot('conditions');
  await page.getByRole('button', { name: 'Back to the links' }).click();
  tell('A condition of each kind is saved with its values, and saving it again changes nothing.');
}

function withoutNulls(value) {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== null));
}

// explainOnlyTheLatest holds the explanation of one edit back, and expects the next edit to abort it.
async function explainOnlyTheLatest(visit, answer) {
  const isExplanation = request => request.postData()?.includes('query ExplainRedirect') ?? false;
  const held = page.waitForRequest(isExplanation);
  const aborted = page.waitForEvent('requestfailed', isExplanation);
  let release;
  await page.route(api, route => {
    if (release || !isExplanation(route.request())) return route.fallback();
    release = () => route.continue();
  });
  await visit.getByLabel('Accept-Language').fill('fr');
  await held;
  await visit.getByLabel('Accept-Language').fill('de');
  assert.match((await aborted).postData(), /"acceptLanguage":"fr"/);
  await release().catch(() => {}); // it is aborted
  await answer.getByText('Rule 1 decides.').waitFor();
  await page.unroute(api);
}

async function addCondition(rule, noun, kind, label, text) {
  await rule.getByRole('button', { name: `Add ${noun}` }).click();
  await rule.locator('.part', { has: page.getByRole('button', { name: `Add ${noun}` }) }).getByLabel('Kind').last().selectOption(kind);
  if (label) await rule.getByLabel(label).fill(text);
}

async function visitShortUrl(shortUrl, headers) {
  const response = await fetch(shortUrl, { redirect: 'manual', headers });
  return [response.status, response.headers.get('location')];
}

// followAs opens the short URL in a browser with the headers of IPHONE, which must land on one of the targets.
async function followAs(shortUrl, targets) {
  const phone = await browser.newContext({ userAgent: IPHONE['User-Agent'], locale: 'de-AT' });
  const tab = await phone.newPage();
  await tab.goto(shortUrl);
  await tab.getByRole('heading', { name: 'You have arrived' }).waitFor();
  assert.ok(targets.includes(tab.url()), `the browser is redirected to ${tab.url()}`);
  await phone.close();
}

async function readRules(shortUrl) {
  const query = `query ($shortUrl: String!) { link(by: {shortUrl: $shortUrl}) { id routing { query { mode only } endedUrl rules {
    ruleId name targets { targetId name url share } when {
      country device os browser language referrer query { name value } weekly { timezone days from to } during { from to }
      network bot } } } } }`;
  const { link } = await request(query, { shortUrl });
  return { id: link.id, ...link.routing };
}

// request sends an operation with the session of the page.
async function request(query, variables) {
  const token = await page.evaluate(() => JSON.parse(sessionStorage.getItem('linkforge.session')).token);
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
  const response = await fetch(api, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  assert.equal(errors, undefined, JSON.stringify(errors));
  return data;
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

// publishable shortens with a publishable key at the origin that it names, and cannot at another one.
async function publishable() {
  const call = async (token, query, variables) => {
    const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
    const { data, errors } = await (await fetch(api, { method: 'POST', headers, body: JSON.stringify({ query, variables }) })).json();
    assert.equal(errors, undefined);
    return Object.values(data)[0];
  };
  const { port } = new URL(address);
  const [allowed, other] = ['app', 'other'].map(name => `http://${name}.example.test:${port}`);
  const { token } = await call(null, `mutation { register(input: {name: "Publisher", email: "publisher@example.com", password: "a long enough password"}) { token } }`);
  const { workspace } = await call(token, 'mutation { createWorkspace(input: {name: "Publisher", slug: "publisher"}) { workspace { id } } }');
  const { secret } = await call(token, `mutation ($in: CreateApiKeyInput!) { createApiKey(input: $in) { secret } }`, {
    in: { workspaceId: workspace.id, name: 'page', scopes: ['LINKS_CREATE'], destinationHosts: ['example.com'], origins: [allowed] },
  });
  assert.match(secret, /^lfp_/);
  const context = await browser.newContext();
  context.setDefaultTimeout(15_000);
  const shorten = async (at, url) => {
    const page = await context.newPage();
    await page.goto(`${at}/publishable.html?${new URLSearchParams({ server: api, workspace: workspace.id, key: secret })}`);
    await page.getByLabel('Destination').fill(url);
    await page.getByRole('button', { name: 'Shorten' }).click();
    await page.getByRole('status').filter({ hasText: /./ }).waitFor();
    const text = await page.getByRole('status').textContent();
    await page.close();
    return text;
  };
  const shortURL = await shorten(allowed, 'https://example.com/article');
  assert.equal((await fetch(shortURL, { redirect: 'manual' })).headers.get('location'), 'https://example.com/article');
  assert.match(await shorten(allowed, 'https://evil.example/'), /limited to example\.com/);
  assert.match(await shorten(other, 'https://example.com/article'), /^Failed/);
  tell('A page with a publishable key shortens at its origin, for its hosts, and at no other origin.');
}

// imports imports a file, from the dry run to the comparison with the old service, which is this server at /old.
async function imports() {
  const lines = ['Short URL,Long URL,Short code,Title,Password'];
  for (let i = 1; i <= 700; i++) lines.push(`${origin}/old/moved-${i},${origin}/destination?n=moved-${i},moved-${i},Moved ${i},`);
  lines.push(`${origin}/old/other,${origin}/destination?n=other,other,Other,`);
  lines.push(`${origin}/old/locked,${origin}/destination?n=locked,locked,Locked,a secret`);
  lines.push(`${origin}/old/broken,no address,broken,Broken,`);
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Import links' }) });
  await section.locator('input[type=file]').setInputFiles({ name: 'links.csv', mimeType: 'text/csv', buffer: Buffer.from(lines.join('\n')) });
  await section.getByRole('button', { name: 'Try the import' }).click();
  await section.locator('progress').waitFor();
  await section.getByText('Dry run: succeeded, 703 of 703.').waitFor();
  await section.getByText('701 created').waitFor();
  await section.getByText('1 closed').waitFor();
  await section.getByText('password of 1: unsupported').waitFor();
  await section.getByText(/^Line 703, .*broken: /).waitFor();
  await section.scrollIntoViewIfNeeded();
  await shot('dry-run');
  tell('A dry run of a file shows what would become of its rows, and what would be lost.');

  const before = await page.locator('#total').textContent();
  await section.getByRole('button', { name: 'Import these links' }).click();
  await section.getByText('Import: succeeded, 703 of 703.').waitFor();
  await page.locator('#total', { hasNotText: before }).waitFor();
  await page.locator('tbody small', { hasText: 'Other' }).waitFor();
  const { workspace } = await request('query ($slug: String!) { workspace(by: {slug: $slug}) { links(first: 1, filter: {search: "moved-7 "}) { nodes { shortUrl } } } }',
    { slug: (await request('{ me { workspaces(first: 1) { nodes { slug } } } }', {})).me.workspaces.nodes[0].slug });
  assert.equal(workspace.links.nodes.length, 1);
  tell('The import creates the links of the dry run, and the list shows them.');

  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'the import is wider than a phone');
  await section.scrollIntoViewIfNeeded();
  await shot('imported');
  await page.setViewportSize({ width: 1100, height: 800 });
  await section.getByRole('button', { name: 'Compare with the old links' }).click();
  await section.getByText(/^[1-9]\d* of 702$/).waitFor();
  await section.getByRole('button', { name: 'Cancel' }).click();
  await section.getByText(/^Comparison: canceled/).waitFor();
  releaseOldService();
  tell('The comparison with the old service shows its progress, and is canceled.');

  const small = ['Short URL,Long URL,Short code', `${origin}/old/moved-1,${origin}/destination?n=moved-1,moved-1`,
    `${origin}/old/other,${origin}/destination?n=other,other`];
  await section.getByLabel('Account').fill('again');
  await section.locator('input[type=file]').setInputFiles({ name: 'small.csv', mimeType: 'text/csv', buffer: Buffer.from(small.join('\n')) });
  await section.getByRole('button', { name: 'Try the import' }).click();
  await section.getByText('Dry run: succeeded, 2 of 2.').waitFor();
  await section.getByRole('button', { name: 'Import these links' }).click();
  await section.getByText('2 unchanged').waitFor();
  await section.getByRole('button', { name: 'Compare with the old links' }).click();
  await section.getByText(/^Comparison: succeeded/).waitFor({ timeout: 30_000 });
  await section.getByText('2 same').waitFor();
  await section.getByText(`${origin}/old/other: different destination, ${origin}/destination?n=elsewhere`).first().waitFor();
  await section.scrollIntoViewIfNeeded();
  await shot('parity');
  tell('The comparison names the link that leads elsewhere at the old service.');
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
    if (pathname.startsWith('/old/')) { // the old service
      if (++oldRequests > FAST_OLD_REQUESTS) await comparisonCanceled;
      const n = pathname === '/old/other' ? 'elsewhere' : pathname.slice('/old/'.length);
      response.writeHead(302, { Location: `${origin}/destination?n=${n}` });
      return response.end();
    }
    const file = path.join(dist, pathname === '/' ? 'index.html' : path.normalize(pathname));
    const body = await readFile(file).catch(() => null);
    response.writeHead(body ? 200 : 404, { 'Content-Type': `${KINDS[path.extname(file)] ?? 'text/plain'}; charset=utf-8` });
    return response.end(body);
  });
  await new Promise(resolve => server.listen(Number(new URL(address).port), '127.0.0.1', resolve));
  return server;
}
