// Links: find, select, change many at once, and create one.
import { useQuery } from '@urql/preact';
import { useRoute } from 'preact-iso';
import { useEffect, useRef, useState } from 'preact/hooks';

import { ask, run, type UserError } from '../api';
import { usePlace } from '../app';
import { timezone } from '../chart/range';
import { Sparkline } from '../chart/sparkline';
import {
  DeleteLinksDocument, type LinkFilter, type LinkOrderField, type LinkStatus, LinksDocument, type LinksQuery, type RowFragment,
  UpdateLinksDocument, type UpdateLinkInput,
} from '../gql/graphql';
import { FormDialog } from '../ui/dialogs';
import { Text, useFields } from '../ui/form';
import { attempt, Badge, Bones, Copy, Count, Empty, Menu, Problem, say, Time, useDialog } from '../ui/kit';
import { Icon } from '../ui/icon';
import { Chip, Pick, useAddress, usePages } from '../ui/list';
import { middleCut, withQuery } from '../ui/url';
import { undoOf } from '../undo';
import { CreateLink } from './create';
import { shortText } from './first';
import { LinkPanel } from './link';

const PAGE = 25;
const ORDERS: readonly (readonly [LinkOrderField, string])[] = [
  ['CLICKS', 'Most clicked'], ['LAST_CLICKED_AT', 'Last clicked'], ['UPDATED_AT', 'Last changed'], ['TITLE', 'Title'],
];
const STATES: readonly (readonly [LinkStatus, string])[] = [
  ['ACTIVE', 'Active'], ['SCHEDULED', 'Scheduled'], ['EXPIRED', 'Expired'], ['EXHAUSTED', 'Used up'], ['DISABLED', 'Disabled'], ['DELETED', 'Deleted'],
];

const FILTERS = ['search', 'tag', 'folder', 'domain', 'status', 'archived'];

// Links is the list, with the link that is open beside it, or over it where there is no room for both.
export function Links() {
  const { workspace, may, base } = usePlace();
  const { query, change, route, path } = useAddress();
  const open = useRoute().params['rest'];
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const filter = filterOf(query);
  const variables = {
    by: { id: workspace.id }, filter, order: { field: (query['order'] ?? 'CREATED_AT') as LinkOrderField },
    timezone, first: PAGE,
  };
  const [{ data, error, stale }, reload] = useQuery({ query: LinksDocument, variables });
  const links = data?.workspace?.links;
  const { rows, more } = usePages(links, async after => (await ask(LinksDocument, { ...variables, after })).workspace?.links);
  const refresh = () => (setSelected(new Set()), reload({ requestPolicy: 'network-only' }));
  useEffect(() => setSelected(new Set()), [JSON.stringify(filter)]); // what is not shown is not changed
  const wasOpen = useRef<string>(undefined);
  useEffect(() => { // back in the list, the focus is where one left it
    if (!open && wasOpen.current) document.querySelector<HTMLElement>(`.links a[href*="${wasOpen.current}"]`)?.focus();
    wasOpen.current = open;
  }, [open]);
  const isFiltered = FILTERS.some(name => query[name]);
  const ofList = Object.fromEntries(['order', ...FILTERS].map(name => [name, query[name]]));

  return (
    <main class={open ? 'with-link' : undefined}>
      <div class="list stack">
        <header>
          <h1>Links</h1>
          {links && <span class="soft"><Count n={links.totalCount} /></span>}
          <Filters offers={data?.workspace} />
        </header>
        {error && !links && <Problem error={error} retry={refresh} />}
        {!links && !error && <Bones rows={12} />}
        {selected.size > 0 && <Selection links={rows.filter(({ id }) => selected.has(id))} done={refresh} offers={data?.workspace} />}
        {links && rows.length === 0 && (isFiltered
          ? <Empty title="No links match" text="Remove a part of the filter, or search for something else."><button class="button" onClick={() => route(path)}>Show all links</button></Empty>
          : <Empty title="No links yet" text="Paste a long URL, and share the short one.">
            {may('LINKS_CREATE') && <a class="button next" href={`${path}?new`}>New link</a>}
          </Empty>)}
        {rows.length > 0 && (
          <ul class={stale ? 'links stale' : 'links'} aria-label="Links">
            {rows.map(link => (
              <Row key={link.id} link={link} isSelected={selected.has(link.id)} isOpen={link.id === open}
                href={withQuery(`${base}/links/${link.id}`, ofList)}
                select={may('LINKS_WRITE') && link.status !== 'DELETED' ? () => setSelected(toggled(selected, link.id)) : undefined} />
            ))}
          </ul>
        )}
        {more}
      </div>
      {open && <LinkPanel key={open} id={open} offers={data?.workspace} clicked={() => reload({ requestPolicy: 'network-only' })}
        back={withQuery(`${base}/links`, ofList)} />}
      {query['new'] !== undefined && may('LINKS_CREATE') && (
        <CreateLink offers={data?.workspace} close={() => change({ new: undefined })} done={refresh} />
      )}
    </main>
  );
}

export type Offers = LinksQuery['workspace'] | undefined;

function filterOf(query: Record<string, string>): LinkFilter {
  return {
    search: query['search'] || undefined,
    tags: query['tag'] ? [query['tag']] : undefined,
    folderIds: query['folder'] ? [query['folder']] : undefined,
    domainIds: query['domain'] ? [query['domain']] : undefined,
    status: query['status'] ? [query['status'] as LinkStatus] : undefined,
    archived: query['archived'] === 'yes' ? true : undefined,
  };
}

function toggled(set: ReadonlySet<string>, value: string): ReadonlySet<string> {
  const next = new Set(set);
  if (!next.delete(value)) next.add(value);
  return next;
}

function Filters({ offers }: { offers: Offers }) {
  const { query, change } = useAddress();
  return (
    <div class="row wrap end">
      {query['search'] && <Chip remove={() => change({ search: undefined })}>“{query['search']}”</Chip>}
      <Pick label="All tags" name="tag" options={offers?.tags?.nodes.map(({ name }) => [name, name])} />
      <Pick label="All folders" name="folder" options={offers?.folders?.nodes.map(({ id, name }) => [id, name])} />
      <Pick label="All domains" name="domain" options={offers?.domains?.nodes.map(({ id, host }) => [id, host])} />
      <Pick label="All states" name="status" options={STATES} />
      <Pick label="Not archived" name="archived" options={[['yes', 'Archived']]} />
      <Pick label="Newest first" name="order" options={ORDERS} />
    </div>
  );
}

type RowProps = { link: RowFragment; isSelected: boolean; isOpen: boolean; select?: () => void; href: string };

// Row is a link in one line of 48 px.
function Row({ link, isSelected, isOpen, select, href }: RowProps) {
  const { gate, rules } = link.routing;
  return (
    <li class={isSelected ? 'link selected' : 'link'}>
      {select ? <input type="checkbox" checked={isSelected} onChange={select} aria-label={`Select ${link.code}`} /> : <span />}
      <span class="short row">
        <a class="cut row" href={href} aria-label={shortText(link.shortUrl)} aria-current={isOpen || undefined}>
          <ShortUrl url={link.shortUrl} />
        </a>
        <Copy text={link.shortUrl} />
      </span>
      <span class="about">
        {link.title && <span class="cut" dir="auto">{link.title}</span>}
        <span class="cut soft" title={link.originalUrl}>{middleCut(link.originalUrl)}</span>
      </span>
      <span class="marks row">
        {link.tags?.slice(0, 3).map(tag => <Badge key={tag}>{tag}</Badge>)}
        {link.tags && link.tags.length > 3 && <small>+{link.tags.length - 3}</small>}
        {gate && <span title="Asks visitors first"><Icon name="lock" /></span>}
        {rules.some(rule => rule.enabled) && <span title="Has rules"><Icon name="branch" /></span>}
        {!!link.scheduledChanges?.length && <span title="A change is planned"><Icon name="clock" /></span>}
        <State link={link} />
      </span>
      {link.stats?.counts ? <Sparkline counts={link.stats.counts} /> : <span class="sparkline" />}
      <span class="number"><Count n={link.clickCount} /></span>
      <small class="when"><Time at={link.createdAt} /></small>
    </li>
  );
}

// ShortUrl shows the code whole, also where its host has no room.
export function ShortUrl({ url }: { url: string }) {
  const text = shortText(url), end = text.lastIndexOf('/') + 1;
  return <><span class="cut soft">{text.slice(0, end)}</span><span class="cut code">{text.slice(end)}</span></>;
}

type Stateful = Pick<RowFragment, 'status' | 'archived' | 'startsAt' | 'expiresAt'>;

export function State({ link: { status, archived, startsAt, expiresAt } }: { link: Stateful }) {
  if (status === 'SCHEDULED' && startsAt) return <Badge>starts <Time at={startsAt} /></Badge>;
  if (status !== 'ACTIVE') return <Badge kind={status === 'DISABLED' ? 'bad' : 'warn'}>{STATES.find(([state]) => state === status)?.[1].toLowerCase()}</Badge>;
  if (archived) return <Badge>archived</Badge>;
  return expiresAt ? <small>ends <Time at={expiresAt} /></small> : null;
}

// Selection changes many links at once; each change can be taken back as a whole.
function Selection({ links, done, offers }: { links: RowFragment[]; done: () => void; offers: Offers }) {
  const ids = links.map(({ id }) => id), isArchived = links.every(({ archived }) => archived);
  const { dialog, open } = useDialog();
  const { workspace } = usePlace();
  const tell = (what: string, answer: { operationId?: string | null; errors: UserError[]; results: { errors: UserError[] }[] }) => {
    const failed = [...answer.errors, ...answer.results.flatMap(result => result.errors)];
    const changed = answer.results.filter(result => result.errors.length === 0).length;
    say(`${changed} ${what}${failed[0] ? `. ${failed.length} not: ${failed[0].message}` : ''}`, answer.operationId ? undoOf(workspace.id, answer.operationId, done) : undefined);
    done();
  };
  const change = async (what: string, fieldsOf: (link: RowFragment) => Omit<UpdateLinkInput, 'id'>) => (
    tell(what, await run(UpdateLinksDocument, { input: { workspaceId: workspace.id, links: links.map(link => ({ id: link.id, ...fieldsOf(link) })) } })));
  const update = (what: string, fields: Omit<UpdateLinkInput, 'id'>) => attempt(() => change(what, () => fields));
  const tag = () => open(close => <AddTag known={offers?.tags?.nodes.map(({ name }) => name) ?? []} close={close}
    add={async tag => (await change('tagged', ({ tags }) => ({ tags: [...tags ?? [], tag] })), close())} />);
  const remove = () => attempt(async () => tell('deleted', await run(DeleteLinksDocument, { input: { workspaceId: workspace.id, ids } })));
  return (
    <div class="notice selection" role="toolbar" aria-label="Selected links">
      <span class="grow">{ids.length} selected</span>
      <Menu label="Move to a folder" items={[
        { label: 'No folder', act: () => update('moved', { folderId: null }) },
        ...(offers?.folders?.nodes ?? []).map(({ id, name }) => ({ label: name, act: () => update('moved', { folderId: id }) })),
      ]}>Move<Icon name="down" /></Menu>
      {links.every(({ tags }) => tags) && <button class="button" onClick={tag}>Tag</button>}
      <button class="button" onClick={() => isArchived ? update('taken out of the archive', { archived: false }) : update('archived', { archived: true })}>
        {isArchived ? 'Take out of the archive' : 'Archive'}
      </button>
      <button class="button danger" onClick={remove}>Delete</button>
      {dialog}
    </div>
  );
}

function AddTag({ known, add, close }: { known: string[]; add: (tag: string) => Promise<void>; close: () => void }) {
  const { values, at } = useFields({ tag: '' });
  const submit = async () => values.tag.trim() ? (await add(values.tag.trim()), []) : [{ code: 'INVALID_INPUT', message: 'Enter a tag.', field: ['tag'] }];
  return (
    <FormDialog title="Tag the selected links" action="Tag" submit={submit} close={close}>
      <Text label="Tag" {...at('tag')} list="tags-of-selection" autofocus />
      <datalist id="tags-of-selection">{known.map(name => <option value={name} key={name} />)}</datalist>
    </FormDialog>
  );
}
