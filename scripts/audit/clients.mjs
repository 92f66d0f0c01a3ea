// Subscribes with the clients that front ends use, against a running server: node clients.mjs BASE_URL. A click that is
// heard of was made by following a short URL.
import assert from 'node:assert/strict';

import { EventSource } from 'eventsource';
import { createClient as createSSEClient } from 'graphql-sse';
import { createClient as createWSClient } from 'graphql-ws';
import WebSocket from 'ws';

const base = process.argv[2];
const endpoint = new URL('/graphql', base).href;
const socket = endpoint.replace(/^http/, 'ws');
const CLICKS = 'subscription Clicks($w: ID!, $after: ID) { linkClicked(workspaceId: $w, after: $after) { id link { id } } }';

const ada = await person('ada');
await check('graphql-ws hears of a click', async () => {
  const client = createWSClient({
    url: socket,
    webSocketImpl: WebSocket,
    lazy: false,
    retryAttempts: 0,
    connectionParams: { authorization: `Bearer ${ada.token}` },
    onNonLazyError: console.error,
  });
  await hearsOfClicks(client);
  const [only] = await collect(client.iterate({ query: '{ me { email } }' }));
  assert.equal(only.data.me.email, ada.email);
  await client.dispose();
});

await check('graphql-ws is told why it may not', async () => {
  const client = createWSClient({ url: socket, webSocketImpl: WebSocket, retryAttempts: 0 });
  const ended = collect(client.iterate({ query: CLICKS, variables: { w: ada.workspace } }));
  await assert.rejects(ended, errors => errors[0].extensions.code === 'UNAUTHENTICATED');
  await client.dispose();
});

await check('graphql-ws hears that its token is not taken', async () => {
  const client = createWSClient({
    url: socket, webSocketImpl: WebSocket, retryAttempts: 0, connectionParams: { authorization: 'Bearer nonsense' },
  });
  await assert.rejects(collect(client.iterate({ query: '{ __typename }' })), event => event.code === 4403);
});

await check('graphql-sse hears of a click, and reads to the end', async () => {
  const client = createSSEClient({ url: endpoint, retryAttempts: 0, headers: { Authorization: `Bearer ${ada.token}` } });
  await hearsOfClicks(client);
  const [only] = await collect(client.iterate({ query: '{ me { email } }' }));
  assert.equal(only.data.me.email, ada.email);
  const [refused] = await collect(client.iterate({ query: CLICKS, variables: { w: 'ws_01h455vb4pex5vsknk084sn02q' } }));
  assert.equal(refused.errors[0].extensions.code, 'NOT_FOUND');
  client.dispose();
});

await check('EventSource hears of a click, and reads to the end', async () => {
  const source = new EventSource(address(CLICKS, { w: ada.workspace }), {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${ada.token}` } }),
  });
  const heard = new Promise((resolve, reject) => {
    source.addEventListener('next', event => resolve(JSON.parse(event.data)));
    source.addEventListener('error', reject);
  });
  await new Promise(resolve => source.addEventListener('open', resolve));
  const stop = clickOnAndOn();
  assert.equal((await heard).data.linkClicked.link.id, ada.link.id);
  await stop();
  source.close();

  for (const [query, expected] of [['{ __typename }', { data: { __typename: 'Query' } }], [CLICKS, 'UNAUTHENTICATED']]) {
    const nobody = new EventSource(address(query, { w: ada.workspace })); // as a page's own would
    const results = await new Promise((resolve, reject) => {
      const all = [];
      nobody.addEventListener('next', event => all.push(JSON.parse(event.data)));
      nobody.addEventListener('complete', () => resolve(all));
      nobody.addEventListener('error', reject);
    });
    nobody.close();
    assert.equal(results.length, 1);
    if (typeof expected === 'string') assert.equal(results[0].errors[0].extensions.code, expected);
    else assert.deepEqual(results[0], expected);
  }
});

await check('a mutation does not go by GET, whatever is accepted', async () => {
  for (const accept of ['text/event-stream', 'application/json', 'text/event-stream, application/graphql-response+json']) {
    const response = await fetch(address('mutation { logoutEverywhere(input: {}) { loggedOut } }'), {
      headers: { Accept: accept, Authorization: `Bearer ${ada.token}` },
    });
    assert.equal(response.status, 405, accept);
    assert.equal(response.headers.get('allow'), 'POST');
    assert.equal((await response.json()).errors[0].extensions.code, 'BAD_REQUEST');
  }
});

const hello = { type: 'connection_init' };
const standing = id => ({ type: 'subscribe', id, payload: { query: CLICKS, variables: { w: ada.workspace } } });
const known = { headers: { Authorization: `Bearer ${ada.token}` } };
for (const [name, code, said, options] of [
  ['no JSON', 4400, ['hello']],
  ['bytes', 4400, [Buffer.from(JSON.stringify(hello))]],
  ['an array', 4400, [[]]],
  ['no type', 4400, [{}]],
  ['a type that is not one', 4400, [hello, { type: 'shout' }]],
  ['an introduction that is no object', 4400, [{ type: 'connection_init', payload: 'me' }]],
  ['an operation without an id', 4400, [hello, { type: 'subscribe', payload: { query: '{ __typename }' } }]],
  ['an operation without a payload', 4400, [hello, { type: 'subscribe', id: 'a' }]],
  ['a query that is no text', 4400, [hello, { type: 'subscribe', id: 'a', payload: { query: 1 } }]],
  ['complete without an id', 4400, [hello, { type: 'complete' }]],
  ['an operation before the introduction', 4401, [standing('a')]],
  ['a token that is not taken', 4403, [{ type: 'connection_init', payload: { authorization: 'Bearer nonsense' } }]],
  ['no subprotocol', 4406, [hello], { protocol: [] }], // with another one, clients end the connection themselves
  ['no introduction', 4408, []],
  ['an id twice', 4409, [hello, standing('a'), standing('a')], known],
  ['two introductions', 4429, [hello, hello]],
]) {
  await check(`${code} is the end of ${name}`, async () => assert.equal(await closeCode(said, options), code));
}
console.log('The clients work.');

// hearsOfClicks subscribes, hears of a click, leaves, and hears by its cursor of the next one.
async function hearsOfClicks(client) {
  let after;
  for (const round of [1, 2]) {
    const clicks = client.iterate({ query: CLICKS, variables: { w: ada.workspace, after } });
    const next = clicks.next();
    const stop = clickOnAndOn();
    const { value, done } = await next;
    await stop();
    assert.equal(done, false, `round ${round}`);
    assert.equal(value.errors, undefined);
    assert.equal(value.data.linkClicked.link.id, ada.link.id);
    assert.notEqual(value.data.linkClicked.id, after);
    after = value.data.linkClicked.id;
    await clicks.return();
  }
}

// clickOnAndOn follows the short URL until it is stopped: nobody is told when a subscription has begun.
function clickOnAndOn() {
  let going = true;
  const all = (async () => {
    while (going) {
      const response = await fetch(ada.link.shortUrl, { redirect: 'manual' });
      assert.equal(response.status, 302);
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  })();
  return () => {
    going = false;
    return all;
  };
}

function closeCode(said, { protocol = 'graphql-transport-ws', headers } = {}) {
  return new Promise((resolve, reject) => {
    const connection = new WebSocket(socket, protocol, { headers });
    connection.on('open', () => {
      for (const one of said) connection.send(typeof one === 'string' || Buffer.isBuffer(one) ? one : JSON.stringify(one));
    });
    connection.on('error', reject);
    connection.on('close', resolve);
  });
}

async function collect(iterable) {
  const all = [];
  for await (const one of iterable) all.push(one);
  return all;
}

function address(query, variables) {
  return `${endpoint}?${new URLSearchParams({ query, variables: JSON.stringify(variables ?? null) })}`;
}

async function person(name) {
  const slug = `${name}-${Date.now().toString(36)}`;
  const one = { email: `${slug}@example.com` };
  const registered = await ask(`mutation ($in: RegisterInput!) { register(input: $in) { token errors { message } } }`,
    { in: { email: one.email, password: 'correct horse battery staple', name } });
  one.token = registered.register.token;
  const made = await ask(`mutation ($in: CreateWorkspaceInput!) { createWorkspace(input: $in) { workspace { id } } }`,
    { in: { name, slug } }, one.token);
  one.workspace = made.createWorkspace.workspace.id;
  const shortened = await ask(`mutation ($in: CreateLinkInput!) { createLink(input: $in) { link { id shortUrl } } }`,
    { in: { workspaceId: one.workspace, url: 'https://example.com/' } }, one.token);
  one.link = shortened.createLink.link;
  return one;
}

async function ask(query, variables, token) {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(JSON.stringify(errors));
  return data;
}

// check runs one step, and ends the program when it fails or takes too long.
async function check(name, step) {
  let late;
  const limit = new Promise((_, reject) => { late = setTimeout(() => reject(new Error('it took longer than 30 seconds')), 30_000); });
  try {
    await Promise.race([step(), limit]);
    console.log(`ok   ${name}`);
  } catch (error) {
    console.error(`FAILED ${name}:`, error);
    process.exit(1);
  } finally {
    clearTimeout(late);
  }
}
