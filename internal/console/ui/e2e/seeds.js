// Accounts, workspaces and links to look at, made by the API.
import assert from 'node:assert/strict';

import { base, call, PASSWORD } from './stage.js';

const AGENTS = [
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0',
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36',
];
const REFERRERS = ['https://news.example.com/', 'https://search.example.org/', '', 'https://mail.example.net/'];

export const newEmail = name => `${name.toLowerCase().replaceAll(' ', '.')}-${Math.random().toString(36).slice(2, 8)}@example.com`;

// account is a user with a session; where strangers may not register, somebody has to invite them.
export async function account(name, email = newEmail(name)) {
  const { token } = await call(null, 'Register', { input: { name, email, password: PASSWORD } });
  return { name, email, token };
}

export const newSlug = name => process.env.DOCS_IMAGES ? name : `${name}-${Math.random().toString(36).slice(2, 7)}`;

export async function workspaceOf(owner, name = 'Garden shop', slug = newSlug('garden')) {
  const { workspace } = await call(owner.token, 'CreateWorkspace', { input: { name, slug } });
  return workspace;
}

// invited is a new member: somebody invites the address, and the page of the mail creates the account.
export async function invited(by, workspaceId, name, role) {
  const email = newEmail(name);
  const { token } = await call(by.token, 'InviteMember', { input: { workspaceId, email, role } });
  const response = await fetch(`${base}/invitation`, { method: 'POST', headers: { Origin: base },
    body: new URLSearchParams({ token, name, password: PASSWORD }) });
  assert.equal(response.status, 200, await response.text());
  return logIn({ name, email });
}

export async function logIn(user) {
  const { token } = await call(null, 'LogIn', { input: { email: user.email, password: PASSWORD } });
  return { ...user, token };
}

export async function links(by, workspaceId, inputs) {
  const made = [];
  for (const input of inputs) made.push((await call(by.token, 'CreateLink', { input: { workspaceId, ...input } })).link);
  return made;
}

// visit follows a short URL some times, as different people.
export async function visit(shortUrl, times) {
  for (let i = 0; i < times; i++) {
    const headers = { 'User-Agent': AGENTS[i % 4], 'Accept-Language': ['de-AT', 'en-GB', 'pt-BR'][i % 3], Referer: REFERRERS[i % 4] };
    const { status } = await fetch(shortUrl, { redirect: 'manual', headers });
    assert.equal(status, 302);
  }
}

// shop is a workspace with a little of everything. Webhooks need a verified address where mail can be sent.
export async function shop(owner, { hasWebhook = true } = {}) {
  const workspace = await workspaceOf(owner);
  const { id: workspaceId } = workspace, { token } = owner;
  const { folder } = await call(token, 'CreateFolder', { input: { workspaceId, name: 'Spring campaign' } });
  await call(token, 'CreateUtmTemplate', { input: { workspaceId, name: 'Newsletter', utm: { source: 'newsletter', medium: 'email' } } });
  await call(token, 'AddDomain', { input: { workspaceId, host: `${workspace.slug}.example.com` } });
  await call(token, 'CreateApiKey', { input: { workspaceId, name: 'Shop', scopes: ['LINKS_READ', 'LINKS_WRITE'] } });
  if (hasWebhook) await call(token, 'CreateWebhook', { input: { workspaceId, name: 'Billing', url: 'https://hooks.example.com/links', types: ['LINK_CREATED'] } });
  const made = await links(owner, workspaceId, [
    { url: 'https://shop.example.com/spring', customCode: 'spring', title: 'Spring sale', tags: ['sale', 'spring'], folderId: folder.id,
      routing: { rules: [{ name: 'Phones', when: [{ device: ['mobile'] }], targets: [{ url: 'https://shop.example.com/app' }] }] } },
    { url: 'https://shop.example.com/newsletter', customCode: 'news', title: 'Newsletter', tags: ['mail'],
      routing: { gate: { notice: 'The next page has advertisements.' } } },
    { url: 'https://shop.example.com/jobs/2026/senior-gardener-for-our-nursery', customCode: 'jobs', title: 'We are hiring' },
    { url: 'https://shop.example.com/holiday', customCode: 'holiday', startsAt: '2036-12-01T00:00:00Z', tags: ['sale'] },
    { url: 'https://partner.example.org/landing?ref=northwind', customCode: 'partner', expiresAt: '2036-01-31T00:00:00Z' },
  ]);
  for (const [i, times] of [34, 0, 13, 0, 5].entries()) await visit(made[i].shortUrl, times);
  return { ...workspace, links: made };
}
