// A link: what it is and what one can do with it, above its clicks, details, rules and history.
import { useQuery } from '@urql/preact';
import { useLocation } from 'preact-iso';
import { useEffect, useRef, useState } from 'preact/hooks';

import { accepted, run } from '../api';
import { usePlace } from '../app';
import { clickFilterOf } from '../chart/dimensions';
import { rangeOf, timezone } from '../chart/range';
import {
  CheckLinkDocument, DeleteLinkDocument, type HeadFragment, LinkDocument, type LinkQuery, RestoreLinkDocument, UpdateLinkDocument,
  type UpdateLinkInput,
} from '../gql/graphql';
import { Check, Choice, Form, instantOf, listOf, localTime, Text } from '../ui/form';
import { attempt, Badge, Bones, Copy, Count, Empty, Facts, Menu, Missing, Problem, say, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { middleCut, withQuery, withScheme } from '../ui/url';
import { shortText } from './first';
import { Clicks } from './link-clicks';
import { discard, pick, useLinkDraft } from './link-draft';
import { History } from './link-history';
import { Qr } from './link-qr';
import { Rules } from './link-rules';
import { type Offers, ShortUrl, State } from './links';

export type LinkData = NonNullable<LinkQuery['link']>;

const TABS = { clicks: 'Clicks', details: 'Details', rules: 'Rules', history: 'History' };
type Tab = keyof typeof TABS;

const OWN_ESCAPE = 'input, textarea, select, dialog, details';

type LinkPanelProps = { id: string; offers: Offers; back: string; clicked: () => void };

export function LinkPanel({ id, offers, back, clicked }: LinkPanelProps) {
  const { workspace, may } = usePlace();
  const { query, path, route } = useLocation();
  const article = useRef<HTMLElement>(null);
  const [versions, setVersions] = useState(10);
  const tabs = (Object.keys(TABS) as Tab[]).filter(name => name !== 'clicks' || may('STATS_READ'));
  const tab = tabs.find(name => name === query['tab']) ?? tabs[0]!;
  const filter = clickFilterOf(query), { range, interval } = rangeOf(query);
  const [{ data, error }, reload] = useQuery({ query: LinkDocument, variables: {
    id, versions, filter, range, interval, timezone,
    withClicks: tab === 'clicks', withDetails: tab === 'details', withRules: tab === 'rules', withHistory: tab === 'history',
  } });
  const link = data?.link;
  const retry = () => reload({ requestPolicy: 'network-only' });
  const hrefOf = (changes: Record<string, string | undefined>) => withQuery(path, { ...query, ...changes });

  useEffect(() => { // a link over the list begins at its top
    if (article.current!.offsetTop < innerHeight) scrollTo(0, 0);
    article.current!.focus({ preventScroll: true });
    document.querySelector('.link:has([aria-current])')?.scrollIntoView({ block: 'nearest' });
  }, []);

  return (
    <article class="panel" aria-label="Link" tabIndex={-1} ref={article}
      onKeyDown={event => event.key === 'Escape' && !(event.target as Element).closest(OWN_ESCAPE) && route(back)}>
      {link && link.workspace?.id === workspace.id ? (
        <>
          <Head link={link} back={back} />
          <nav class="tabs" aria-label="Parts of the link">
            {tabs.map(name => <a href={hrefOf({ tab: name })} aria-current={name === tab ? 'page' : undefined} key={name}>{TABS[name]}</a>)}
          </nav>
          {tab === 'clicks' && <Clicks link={link} refresh={() => (retry(), clicked())} />}
          {tab === 'details' && <Details link={link} offers={offers} reload={retry} />}
          {tab === 'rules' && (link.routing ? <Rules link={link} routing={link.routing} offers={offers} reload={retry} /> : <Bones />)}
          {tab === 'history' && <History link={link} more={() => setVersions(100)} />}
        </>
      ) : error ? <Problem error={error} retry={retry} />
        : data ? <Empty title="No such link" text="It does not exist in this workspace."><a class="button" href={back}>All links</a></Empty>
          : <Bones />}
    </article>
  );
}

function Head({ link, back }: { link: HeadFragment; back: string }) {
  const { may } = usePlace();
  const [hasQr, setQr] = useState(false);
  const { id, shortUrl, originalUrl, status, archived, title } = link;
  const isDeleted = status === 'DELETED', isWriter = may('LINKS_WRITE') && !isDeleted;
  const update = (fields: Omit<UpdateLinkInput, 'id'>) => run(UpdateLinkDocument, { input: { id, ...fields } }).then(accepted);
  const archive = () => attempt(async () => {
    await update({ archived: !archived });
    say(archived ? 'Taken out of the archive' : 'Archived', () => update({ archived }));
  });
  const restore = () => run(RestoreLinkDocument, { input: { id } }).then(accepted);
  const remove = () => attempt(async () => {
    accepted(await run(DeleteLinkDocument, { input: { id } }));
    discard(id);
    say(`${shortText(shortUrl)} is deleted`, restore);
  });
  return (
    <header class="stack">
      <div class="row">
        <a class="button plain icon back" href={back} aria-label="Back to the list" title="Back to the list"><Icon name="close" /></a>
        <h1 aria-label={shortText(shortUrl)}>
          <a class="short row" href={shortUrl} target="_blank" rel="noopener noreferrer" title="Open"><ShortUrl url={shortUrl} /></a>
        </h1>
        <Copy text={shortUrl} />
        <State link={link} />
        <span class="row end">
          <button class="button" onClick={() => setQr(true)}><Icon name="qr" />QR code</button>
          {isWriter && (
            <Menu label="More actions" items={[
              { label: archived ? 'Take out of the archive' : 'Archive', act: archive },
              { label: 'Delete', act: remove, danger: true },
            ]}><Icon name="more" /></Menu>
          )}
        </span>
      </div>
      <div class="about">
        {title && <strong class="cut" dir="auto" title={title}>{title}</strong>}
        <Out url={originalUrl} most={90} />
      </div>
      {isDeleted && (
        <p class="notice">
          <span class="grow">This link is deleted. Its short URL leads nowhere.</span>
          {may('LINKS_WRITE') && <button class="button" onClick={() => attempt(restore)}>Restore</button>}
        </p>
      )}
      {status === 'DISABLED' && <p class="notice bad">The operator of this server has disabled this link.</p>}
      {hasQr && <Qr link={link} close={() => setQr(false)} />}
    </header>
  );
}

// Out leads to a destination, which learns nothing of the console.
const Out = ({ url, most }: { url: string; most: number }) => (
  <a class="cut soft" href={url} target="_blank" rel="noopener noreferrer" title={url}>{middleCut(url, most)}</a>
);

// ---- details

const REDIRECTS = [
  ['302', 'Temporary (302)'], ['307', 'Temporary, with the same method (307)'], ['301', 'Permanent (301): browsers remember it'],
  ['308', 'Permanent, with the same method (308)'],
] as const;

const detailsOf = (link: LinkData) => ({
  url: link.originalUrl, title: link.title ?? '', note: link.note ?? '', tags: link.tags?.join(', ') ?? '', folderId: link.folder?.id ?? '',
  startsAt: localTime(link.startsAt), expiresAt: localTime(link.expiresAt), maxClicks: link.maxClicks?.toString() ?? '',
  redirectStatus: String(link.redirectStatus) as (typeof REDIRECTS)[number][0], statsPublic: link.statsPublic,
});

const toInput = (edited: ReturnType<typeof detailsOf>): Omit<UpdateLinkInput, 'id'> => ({
  url: withScheme(edited.url), title: edited.title || null, note: edited.note || null, tags: listOf(edited.tags),
  folderId: edited.folderId || null, startsAt: instantOf(edited.startsAt), expiresAt: instantOf(edited.expiresAt),
  maxClicks: edited.maxClicks ? Number(edited.maxClicks) : null, redirectStatus: Number(edited.redirectStatus),
  statsPublic: edited.statsPublic,
});

type DetailsProps = { link: LinkData; offers: Offers; reload: () => void };

function Details({ link, offers, reload }: DetailsProps) {
  const { may } = usePlace();
  if (link.note === undefined) return <Bones />;
  const isWriter = may('LINKS_WRITE') && link.status !== 'DELETED';
  return (
    <>
      {isWriter && <Edit link={link} offers={offers} reload={reload} />}
      <section class="section">
        {!isWriter && <Facts facts={[
          ['Destination', link.originalUrl], ['Note', link.note], ['Tags', link.tags?.join(', ')], ['Folder', link.folder?.name],
          ['Starts', link.startsAt && <Time at={link.startsAt} />], ['Ends', link.expiresAt && <Time at={link.expiresAt} />],
          ['Ends after clicks', link.maxClicks],
        ]} />}
        <Facts facts={[
          ['Created', <><Time at={link.createdAt} />{link.createdBy && ` by ${link.createdBy.name}`}</>],
          ['Last changed', <Time at={link.updatedAt} />],
          ['Last clicked', link.lastClickedAt ? <Time at={link.lastClickedAt} /> : 'never'],
          ['Clicks in all', typeof link.clickCount === 'number' && <Count n={link.clickCount} />],
        ]} />
      </section>
      <Destinations link={link} />
    </>
  );
}

function Edit({ link, offers, reload }: DetailsProps) {
  const { values, set, changed, save, footer } = useLinkDraft('details', link, detailsOf(link), reload);
  const folders: [string, string][] = offers?.folders?.nodes.map(({ id, name }) => [id, name]) ?? [];
  const field = <K extends keyof typeof values>(path: K) => ({ path, value: values[path], change: set(path) });
  return (
    <Form action="Save" submit={() => save(pick(toInput(values), changed))} {...footer}>
      {link.strategy === 'DETERMINISTIC'
        ? <p class="soft">The code is computed from the destination, which therefore cannot change. Create a new link for another destination.</p>
        : <Text label="Destination" inputMode="url" {...field('url')} />}
      <div class="cells">
        <Text label="Title" {...field('title')} />
        <Text label="Tags" hint="Separated by commas." list="known-tags" {...field('tags')} />
      </div>
      <datalist id="known-tags">{offers?.tags?.nodes.map(({ name }) => <option value={name} key={name} />)}</datalist>
      <Text label="Note" lines={2} hint="Visible to members only." {...field('note')} />
      <div class="cells">
        {folders.length > 0 && <Choice label="Folder" {...field('folderId')} options={[['', 'None'], ...folders]} />}
        <Choice label="Redirect" options={REDIRECTS} {...field('redirectStatus')} />
        <Text label="Starts" type="datetime-local" {...field('startsAt')} />
        <Text label="Ends" type="datetime-local" {...field('expiresAt')} />
        <Text label="Ends after clicks" type="number" min="1" {...field('maxClicks')} />
      </div>
      <Check label="Public statistics" {...field('statsPublic')} hint={`Everybody sees them at ${shortText(link.shortUrl)}+`} />
    </Form>
  );
}

const STATES = {
  OK: ['good', 'works'], BROKEN: ['bad', 'broken'], UNREACHABLE: ['bad', 'no answer'], UNCHECKED: ['', 'not checked yet'],
} as const;

function Destinations({ link }: { link: LinkData }) {
  const { may } = usePlace();
  const [isChecking, setChecking] = useState(false);
  const check = async () => {
    setChecking(true);
    await attempt(async () => {
      accepted(await run(CheckLinkDocument, { input: { id: link.id } }));
      say('Checked');
    });
    setChecking(false);
  };
  return (
    <section class="section">
      <div class="row">
        <h2 class="grow">Destination check</h2>
        {may('LINKS_WRITE') && (
          <button class="button" onClick={check} disabled={isChecking}>{isChecking ? 'Checking…' : 'Check now'}</button>
        )}
      </div>
      {!link.destinationChecks && <Missing what="The checks" />}
      <ul class="rows">
        {link.destinationChecks?.map(({ url, field, state, status, checkedAt }) => (
          <li class="row" key={field.join()}>
            <span class="cut grow"><Out url={url} most={72} /></span>
            <small>{checkedAt && <Time at={checkedAt} />}</small>
            <Badge kind={STATES[state][0]}>{STATES[state][1]}{state === 'BROKEN' && status ? ` (${status})` : ''}</Badge>
          </li>
        ))}
      </ul>
    </section>
  );
}

