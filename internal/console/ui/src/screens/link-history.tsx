// What a link was, and what it will be: its versions with their differences, a look at an instant, and planned changes.
import { useQuery } from '@urql/preact';
import { useState } from 'preact/hooks';

import { accepted, run } from '../api';
import { usePlace } from '../app';
import {
  CancelLinkChangeDocument, type ChangeCause, type HeadFragment, LinkAsOfDocument, type LinkChangeInput, ScheduleLinkChangeDocument,
} from '../gql/graphql';
import { bind, Form, instantOf, listOf, localTime, Text } from '../ui/form';
import { attempt, Bones, Confirm, Dialog, Facts, formatTime, Problem, say, Time } from '../ui/kit';
import { middleCut, withScheme } from '../ui/url';
import type { LinkData } from './link';
import { revert } from './link-draft';

const CAUSES: Record<ChangeCause, string> = {
  CREATED: 'Created', UPDATED: 'Changed', DELETED: 'Deleted', RESTORED: 'Restored', REVIVED: 'Created once more', CLAIMED: 'Claimed',
  REVERTED: 'Restored to an earlier version', SCHEDULED: 'Changed as planned', IMPORTED: 'Imported', OPERATOR: 'By the operator',
};

const FIELDS: Record<string, string> = {
  url: 'Destination', title: 'Title', note: 'Note', tags: 'Tags', folderId: 'Folder', externalId: 'External id', metadata: 'Own data',
  archived: 'Archived', statsPublic: 'Public statistics', startsAt: 'Starts', expiresAt: 'Ends', maxClicks: 'Ends after clicks',
  redirectStatus: 'Redirect', deleted: 'Deleted', disabled: 'Disabled', rules: 'Rules', query: 'Parameters', forwardPath: 'Path',
  utm: 'UTM values', card: 'Link preview', gate: 'Gate', bots: 'Bots', qrSources: 'QR codes', tests: 'Tests', routing: 'Rules',
  pendingUrl: 'Until it starts', endedUrl: 'Once it has ended',
};

export function History({ link, more }: { link: LinkData; more: () => void }) {
  const { may } = usePlace();
  const [asked, setAsked] = useState<'plan' | 'asOf' | null>(null);
  const close = () => setAsked(null);
  if (link.versions === undefined) return <Bones />;
  const isWriter = may('LINKS_WRITE'), isAlive = link.status !== 'DELETED';
  const back = (version: number) => attempt(async () => {
    await revert(link.id, version);
    say(`The link is as in version ${version} again`, () => revert(link.id, link.version));
  });
  return (
    <>
      <Planned link={link} plan={isWriter && isAlive ? () => setAsked('plan') : undefined} />
      <section class="section">
        <div class="row">
          <h2 class="grow">History</h2>
          <button class="button" onClick={() => setAsked('asOf')}>View at date…</button>
        </div>
        <ol class="rows">
          {link.versions?.nodes.map(({ number, from, cause, actor, changes }) => (
            <li class="version" key={number}>
              <div class="row">
                <span class="grow">{CAUSES[cause]}{actor && ` by ${actor.name}`} <small>· <Time at={from} /></small></span>
                <small>Version {number}</small>
                {isWriter && number < link.version && <button class="button plain" onClick={() => back(number)}>Restore this version</button>}
              </div>
              {cause !== 'CREATED' && <Differences changes={changes} />}
            </li>
          ))}
        </ol>
        {link.versions?.pageInfo.hasNextPage && <button class="button" onClick={more}>Show more</button>}
      </section>
      {asked === 'plan' && <Plan link={link} close={close} />}
      {asked === 'asOf' && <AsOf link={link} close={close} />}
    </>
  );
}

// ---- differences

type Change = { field: string; before?: string | null; after?: string | null; omitted: boolean };

function Differences({ changes }: { changes?: Change[] | null }) {
  return (
    <dl class="differences">
      {changes?.flatMap(partsOf).map(({ field, before, after, omitted }) => (
        <div key={field}>
          <dt class="soft">{FIELDS[field] ?? field}</dt>
          <dd>{omitted ? 'changed' : <><Value json={before} /> <span class="soft">→</span> <Value json={after} /></>}</dd>
        </div>
      ))}
    </dl>
  );
}

// partsOf are the changed parts of a routing, and any other change as it is.
function partsOf(change: Change): Change[] {
  if (change.field !== 'routing' || change.omitted) return [change];
  const [before, after] = [change.before, change.after].map(json => (JSON.parse(json ?? 'null') ?? {}) as Record<string, unknown>);
  const names = Object.keys({ ...before, ...after }).map(field => (
    { field, before: JSON.stringify(before![field] ?? null), after: JSON.stringify(after![field] ?? null), omitted: false }
  ));
  return names.filter(part => part.before !== part.after);
}

// Value is a value of the history, which comes as JSON.
function Value({ json }: { json?: string | null }) {
  const value: unknown = json ? JSON.parse(json) : null;
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return <span class="soft">nothing</span>;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return <Time at={value} />;
  if (typeof value === 'string') return <span dir="auto" title={value}>{/^https?:/.test(value) ? middleCut(value, 60) : value}</span>;
  if (Array.isArray(value) && value.every(one => typeof one === 'string')) return value.join(', ');
  if (typeof value !== 'object') return String(value);
  const summary = Array.isArray(value) ? value.map((one: { name?: string }, i) => one.name ?? i + 1) : Object.keys(value);
  return <details><summary>{summary.join(', ')}</summary><pre class="call mono">{JSON.stringify(value, null, 2)}</pre></details>;
}

// ---- at an instant

function AsOf({ link, close }: { link: HeadFragment; close: () => void }) {
  const [at, setAt] = useState(localTime(new Date().toISOString()));
  const variables = { id: link.id, at: instantOf(at) ?? '' };
  const [{ data, error, fetching }, retry] = useQuery({ query: LinkAsOfDocument, variables, pause: at === '' });
  const then = data?.link?.asOf;
  return (
    <Dialog title="The link as of" close={close}>
      <Text label="When" path="at" type="datetime-local" value={at} change={setAt} hint="In your time zone." />
      {error ? <Problem error={error} retry={() => retry({ requestPolicy: 'network-only' })} /> : fetching ? <Bones rows={3} />
        : !then ? <p class="soft">The link did not exist then.</p> : <Facts facts={[
          ['Version', <>{then.number}, since <Time at={then.from} /></>], ['Destination', then.originalUrl], ['Title', then.title],
          ['Note', then.note], ['Tags', then.tags?.join(', ')], ['Starts', then.startsAt && <Time at={then.startsAt} />],
          ['Ends', then.expiresAt && <Time at={then.expiresAt} />], ['Ends after clicks', then.maxClicks],
          ['Rules', then.routing.rules.map(({ name }, i) => name ?? `Rule ${i + 1}`).join(', ')],
          ['State', [then.deleted && 'deleted', then.disabled && 'disabled', then.archived && 'archived'].filter(Boolean).join(', ')],
        ]} />}
    </Dialog>
  );
}

// ---- planned changes

function Planned({ link, plan }: { link: LinkData; plan?: () => void }) {
  const [canceled, setCanceled] = useState<string | null>(null);
  const cancel = async (id: string) => {
    accepted(await run(CancelLinkChangeDocument, { input: { id } }));
    say('The change is not planned any more');
  };
  if (!plan && !link.scheduledChanges?.length) return null;
  return (
    <section class="section">
      <div class="row">
        <h2 class="grow">Planned changes</h2>
        {plan && <button class="button" onClick={plan}>Plan a change</button>}
      </div>
      {!link.scheduledChanges?.length && <p class="soft">Such as another destination once a sale begins.</p>}
      <ul class="rows">
        {link.scheduledChanges?.map(({ id, at, changes, createdBy }) => (
          <li class="version" key={id}>
            <div class="row">
              <span class="grow">{formatTime(at)} <small>· <Time at={at} />{createdBy && ` · by ${createdBy.name}`}</small></span>
              {plan && <button class="button plain" onClick={() => setCanceled(id)}>Cancel</button>}
            </div>
            <Differences changes={changes} />
          </li>
        ))}
      </ul>
      {canceled && <Confirm title="Cancel this change?" text="It will not take effect. You can plan it again." action="Cancel the change"
        confirm={() => cancel(canceled)} close={() => setCanceled(null)} />}
    </section>
  );
}

type PlanProps = { link: HeadFragment; routing?: LinkChangeInput['routing']; done?: () => void; close: () => void };

// Plan schedules a change of what is filled in, or of the given routing.
export function Plan({ link, routing, done, close }: PlanProps) {
  const [values, setValues] = useState({ at: '', url: '', title: '', tags: '' });
  const ofChange = bind(values, setValues, 'change.');
  async function submit() {
    const change: LinkChangeInput = {
      routing, url: values.url ? withScheme(values.url) : undefined, title: values.title || undefined,
      tags: values.tags ? listOf(values.tags) : undefined,
    };
    const at = instantOf(values.at);
    if (!at) return [{ code: 'INVALID_INPUT', message: 'Enter a date and time.', field: ['at'] }];
    const { errors } = await run(ScheduleLinkChangeDocument, { input: { linkId: link.id, at, change } });
    if (errors.length === 0) {
      say('The change is planned');
      done?.();
      close();
    }
    return errors;
  }
  return (
    <Dialog title={routing ? 'Change the rules later' : 'Plan a change'} close={close}>
      <Form action="Plan the change" submit={submit} cancel={close}>
        <Text label="When" type="datetime-local" hint="In your time zone." autofocus {...ofChange('at')} path="at" />
        {!routing && (
          <>
            <p class="soft">Empty fields stay unchanged.</p>
            {link.strategy !== 'DETERMINISTIC' && <Text label="Destination" placeholder={link.originalUrl} {...ofChange('url')} />}
            <Text label="Title" placeholder={link.title ?? ''} {...ofChange('title')} />
            <Text label="Tags" placeholder={link.tags?.join(', ')} hint="All of them, separated by commas." {...ofChange('tags')} />
          </>
        )}
      </Form>
    </Dialog>
  );
}
