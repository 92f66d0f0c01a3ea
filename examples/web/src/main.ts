// The page: a form to come in, then a workspace's links with their clicks, and the editor of a link's routing.
import * as anonymous from './anonymous';
import { connect } from './api';
import { anchor, button, create, element, small, values } from './dom';
import { setUpFactors } from './factors';
import { complain, mend, say, submitted } from './forms';
import type { LinksQuery } from './gql/graphql';
import { CreateAnonymousLink, CreateFolder, CreateLink, CreateWorkspace, Links, LogOut, Me } from './operations';
import { setUpImports } from './imports';
import { setUpLogin } from './login';
import { setUpEditor } from './routing';
import * as session from './session';
import { type Click, watch } from './watch';

type Workspace = NonNullable<LinksQuery['workspace']>;
type Link = NonNullable<Workspace['links']>['edges'][number]['node'];

const SHOWN_CLICKS = 20;

const client = connect(() => {
  say('Your session has ended: log in again.');
  void start();
});
const editor = setUpEditor(client);
const login = setUpLogin(client, start);
const factors = setUpFactors(client);
setUpImports(client, () => workspace, () => void relist(), complain);
const links = new Map<string, { row: HTMLElement; clicks: number }>();
let workspace = '';
let cursor: string | null = null;
let unwatch = () => {};
let opener: HTMLElement | null = null; // the button that opened the editor, which gets the focus back

element('anonymous').addEventListener('submit', submitted(shortenAnonymously));
element('workspace').addEventListener('submit', submitted(createWorkspace));
element('link').addEventListener('submit', submitted(shorten));
element('folder').addEventListener('submit', submitted(createFolder));
element('shown').addEventListener('change', () => void relist());
element('more').addEventListener('click', () => void more());
element('routing-back').addEventListener('click', closeEditor);
element('log-out').addEventListener('click', () => void logOut());
element('factors-open').addEventListener('click', () => void openFactors());
element('factors-back').addEventListener('click', () => void start());
void login.finishSso().then(start);

// start shows what there is for whoever is here.
async function start() {
  unwatch();
  editor.stop();
  factors.close();
  if (session.load() === null) return welcome();
  const { data, error } = await client.query(Me, {});
  if (error) return complain(error);
  if (!data?.me) return session.save(null), welcome();
  element('who').querySelector('span')!.textContent = data.me.name;
  const first = data.me.workspaces?.edges[0]?.node;
  if (!first) return show('begin');
  workspace = first.id;
  element('list-title').firstChild!.textContent = `Links of ${first.name} `;
  show('links');
  await claim();
  await relist();
  unwatch = watch(client, workspace, clicked, () => void relist());
}

async function welcome() {
  listUnclaimed();
  show('welcome');
  await login.offer();
}

async function openFactors() {
  if (!editor.close()) return;
  unwatch();
  say('');
  await factors.open();
  show('factors');
}

// shortenAnonymously creates a link without an account, and stores its claim token before anything else can fail.
async function shortenAnonymously(form: HTMLFormElement) {
  const { url } = values(form);
  const { data, error } = await client.mutation(CreateAnonymousLink, { input: { url: url! } });
  if (error) return complain(error);
  const created = data?.createAnonymousLink;
  if (!created?.link?.expiresAt || !created.claimToken) return mend(form, created?.errors ?? []);
  const { shortUrl, expiresAt } = created.link;
  anonymous.add({ claimToken: created.claimToken, shortUrl, url: url!, expiresAt });
  form.reset();
  listUnclaimed();
  say(`${shortUrl} is ready. Register or log in to keep it.`);
}

// listUnclaimed shows the links that this browser created without an account.
function listUnclaimed() {
  element('unclaimed').replaceChildren(...anonymous.load().map(link => {
    const item = document.createElement('li');
    item.append(anchor(link.shortUrl), small(` until ${new Date(link.expiresAt).toLocaleString()}`));
    return item;
  }));
}

// claim moves the links of this browser into the workspace, and shows what became of each.
async function claim() {
  const { claimed, expired, lost, refused, error } = await anonymous.claim(client, workspace);
  element('expired').replaceChildren(...expired.map(ended));
  if (error) return complain(error);
  const said = [];
  if (claimed.length > 0) said.push(`Links claimed: ${claimed.length}.`);
  if (lost.length > 0) said.push(`No longer available: ${lost.map(link => link.shortUrl).join(', ')}.`);
  said.push(...refused);
  if (said.length > 0) say(said.join(' '), refused.length > 0);
}

// ended offers to create a link again whose short URL ended before it was claimed. The new link has another code.
function ended(link: anonymous.AnonymousLink): HTMLElement {
  const item = document.createElement('li');
  const forget = () => (anonymous.remove([link]), item.remove());
  const again = button('Create again', async () => {
    const { data, error } = await client.mutation(CreateLink, { input: { workspaceId: workspace, url: link.url } });
    if (error) return complain(error);
    const created = data?.createLink;
    if (!created?.link) return say((created?.errors ?? []).map(e => e.message).join(' '), true);
    forget();
    say(`${created.link.shortUrl} replaces ${link.shortUrl}.`);
    await relist();
  });
  const text = document.createElement('span');
  text.textContent = `${link.shortUrl} ended before you signed in.`;
  item.append(text, again, button('Dismiss', forget));
  return item;
}

async function createWorkspace(form: HTMLFormElement) {
  const { name, slug } = values(form);
  const { data, error } = await client.mutation(CreateWorkspace, { input: { name: name!, slug: slug! } });
  if (error) return complain(error);
  const { workspace: created, errors } = data!.createWorkspace!;
  if (!created) return mend(form, errors);
  say(`${created.name} is yours.`);
  await start();
}

async function shorten(form: HTMLFormElement) {
  const { url, title, tags, folder } = values(form);
  const names = tags!.split(',').map(tag => tag.trim()).filter(Boolean);
  const input = { workspaceId: workspace, url: url!, title: title || null, tags: names, folderId: folder || null };
  const { data, error } = await client.mutation(CreateLink, { input });
  if (error) return complain(error);
  const made = data?.createLink;
  if (!made?.link) return mend(form, made?.errors ?? []);
  form.reset();
  say(made.created ? `${made.link.shortUrl} is ready.` : `There was one already: ${made.link.shortUrl}`);
  await relist();
}

async function createFolder(form: HTMLFormElement) {
  const { data, error } = await client.mutation(CreateFolder, { input: { workspaceId: workspace, name: values(form).name! } });
  if (error) return complain(error);
  const { folder, errors } = data!.createFolder!;
  if (!folder) return mend(form, errors);
  form.reset();
  say(`The folder ${folder.name} is empty.`);
  await relist();
}

// offer lists the tags and folders of the workspace in the form, and the folders above the links.
function offer({ tags, folders }: Workspace) {
  element('tags').replaceChildren(...(tags?.nodes ?? []).map(tag => create('option', { value: tag.name })));
  for (const [select, none] of [[chosen(), 'none'], [shown(), 'all links']] as const) {
    const options = (folders?.nodes ?? []).map(folder => create('option', { value: folder.id }, `${folder.name} (${folder.linkCount ?? '?'})`));
    const { value } = select;
    select.replaceChildren(create('option', { value: '' }, none), ...options);
    select.value = value;
    if (select.selectedIndex < 0) select.value = '';
  }
}

const chosen = () => (element('link') as HTMLFormElement).elements.namedItem('folder') as HTMLSelectElement;
const shown = () => element('shown') as HTMLSelectElement;

async function logOut() {
  unwatch();
  await client.mutation(LogOut, {});
  session.save(null);
  say('You have logged out.');
  await start();
}

// relist shows the first page, and forgets the others.
async function relist() {
  cursor = null;
  links.clear();
  element('links').querySelector('tbody')!.replaceChildren();
  await more();
}

// more shows the next page.
async function more() {
  const filter = shown().value ? { folderIds: [shown().value] } : null;
  const { data, error } = await client.query(Links, { workspace, after: cursor, filter }, { requestPolicy: 'network-only' });
  if (error) complain(error); // and show the rest
  if (!data?.workspace) return error ? undefined : say('This workspace is gone.', true);
  offer(data.workspace);
  const page = data.workspace.links;
  if (!page) return;
  for (const { node } of page.edges) list(node);
  cursor = page.pageInfo.endCursor ?? cursor;
  element('more').hidden = !page.pageInfo.hasNextPage;
  element('none').hidden = links.size > 0;
  element('total').textContent = page.totalCount ? `${links.size} of ${page.totalCount}` : '';
}

function list(link: Link) {
  const row = document.createElement('tr');
  const short = document.createElement('td');
  const notes = [link.title, link.folder && `in ${link.folder.name}`, ...(link.tags ?? []).map(tag => `#${tag}`)];
  short.append(anchor(link.shortUrl), small(notes.filter(Boolean).join(' ')), editButton(link));
  const long = document.createElement('td');
  long.textContent = link.originalUrl;
  const clicks = document.createElement('td');
  clicks.className = 'number';
  clicks.textContent = String(link.clickCount ?? '?');
  row.append(short, long, clicks);
  links.set(link.id, { row, clicks: link.clickCount ?? 0 });
  element('links').querySelector('tbody')!.append(row);
}

function editButton(link: Link) {
  const edit = button('Routing', async () => {
    const problem = await editor.open(link.id);
    if (problem) return say(problem, true);
    say('');
    opener = edit;
    show('routing');
    scrollTo(0, 0);
    element('routing-title').focus();
  });
  edit.ariaLabel = `Routing of ${link.shortUrl}`;
  return edit;
}

function closeEditor() {
  if (!editor.close()) return;
  show('links');
  opener?.focus();
}

// clicked shows a click that has just come, and how many its link has now.
function clicked(click: Click) {
  const { link } = click; // null once the link is purged
  const known = link && links.get(link.id);
  if (known) {
    // What is told of the link is up to a second old, and each click is told once: so this one is counted here.
    known.clicks = Math.max(known.clicks + 1, link.clickCount ?? 0);
    known.row.lastElementChild!.textContent = String(known.clicks);
    refresh(known.row);
  }
  const at = document.createElement('time');
  at.dateTime = click.at;
  at.textContent = new Date(click.at).toLocaleTimeString();
  const item = document.createElement('li');
  item.className = 'fresh';
  const from = [click.browser, click.device, click.bot ? 'a bot' : '', click.referrer && `from ${click.referrer}`];
  item.append(at, ' ', link?.title ?? link?.shortUrl ?? 'A link that is gone', small(` ${from.filter(Boolean).join(', ')}`));
  const all = element('clicks');
  all.prepend(item);
  while (all.children.length > SHOWN_CLICKS) all.lastElementChild!.remove();
  element('quiet').hidden = true;
}

// refresh begins the highlight of an element anew.
function refresh(one: HTMLElement) {
  one.classList.remove('fresh');
  void one.offsetWidth; // the browser forgets an animation only when it has seen the element without
  one.classList.add('fresh');
}

function show(part: 'welcome' | 'begin' | 'links' | 'routing' | 'factors') {
  for (const main of document.querySelectorAll('main')) main.hidden = main.id !== part;
  element('who').hidden = part === 'welcome';
  if (part === 'welcome' || part === 'begin') {
    element('expired').replaceChildren();
    element('clicks').replaceChildren();
    element('quiet').hidden = false;
  }
}
