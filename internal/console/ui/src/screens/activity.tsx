// Activity: who changed what. Those who may read the audit log see all of it, newest first; the others see the events of 30 days.
import { useQuery } from '@urql/preact';

import { ask } from '../api';
import { usePlace } from '../app';
import { AuditLogDocument, EventsDocument, type EventType, type HappeningFragment } from '../gql/graphql';
import { Empty, Time, Wait } from '../ui/kit';
import { Chip, DateField, dayStart, Pick, useAddress, usePages, words } from '../ui/list';
import { shortText } from './first';

// The types of the event log, and those that only the audit log has.
const EVENTS = `LINK_CREATED LINK_UPDATED LINK_DELETED LINK_RESTORED LINK_CLAIMED LINK_STARTED LINK_EXPIRED LINK_EXHAUSTED
  LINK_DISABLED LINK_ENABLED LINK_PURGED DESTINATION_FAILED DESTINATION_RECOVERED DOMAIN_VERIFIED DOMAIN_FAILING DOMAIN_LOST
  TASK_FINISHED WEBHOOK_DISABLED`;
const AUDITED = `WORKSPACE_CREATED WORKSPACE_UPDATED WORKSPACE_DELETED WORKSPACE_RESTORED MEMBER_INVITED INVITATION_REVOKED MEMBER_JOINED
  MEMBER_ROLE_UPDATED MEMBER_REMOVED OWNERSHIP_TRANSFERRED API_KEY_CREATED API_KEY_ROTATED API_KEY_REVOKED DOMAIN_ADDED DOMAIN_MADE_PRIMARY
  DOMAIN_REMOVED DOMAIN_UPDATED LINK_CHANGE_SCHEDULED LINK_CHANGE_CANCELED TASK_STARTED FOLDER_CREATED FOLDER_UPDATED FOLDER_DELETED
  UTM_TEMPLATE_CREATED UTM_TEMPLATE_UPDATED UTM_TEMPLATE_DELETED TAGS_REPLACED WEBHOOK_CREATED WEBHOOK_UPDATED WEBHOOK_DELETED
  WEBHOOK_SECRET_ROTATED`;

const optionsOf = (types: string) => types.split(/\s+/).sort().map(type => [type, words(type)] as const);
const EVENT_OPTIONS = optionsOf(EVENTS), ALL_OPTIONS = optionsOf(`${EVENTS} ${AUDITED}`);

export function Activity() {
  const { workspace, may } = usePlace();
  const { query, change } = useAddress();
  const { type, actor, about, from, to } = query;
  const by = { id: workspace.id }, types = type ? [type as EventType] : undefined, isAudit = may('AUDIT_READ');
  const ofAudit = { by, filter: { types, actorId: actor, subjectId: about, from: from && dayStart(from, 0), to: to && dayStart(to, 1) } };
  const ofEvents = { by, types, linkId: about };
  const [audit, reloadAudit] = useQuery({ query: AuditLogDocument, variables: ofAudit, pause: !isAudit });
  const [events, reloadEvents] = useQuery({ query: EventsDocument, variables: ofEvents, pause: isAudit });
  const { error, fetching } = isAudit ? audit : events;
  const shown = audit.data?.workspace, log = isAudit ? shown?.auditLog : events.data?.workspace?.events;
  const { rows, more } = usePages<Row>(log, async after => isAudit
    ? (await ask(AuditLogDocument, { ...ofAudit, after })).workspace?.auditLog
    : (await ask(EventsDocument, { ...ofEvents, after })).workspace?.events);
  const actors = new Map([
    ...(shown?.members?.nodes ?? []).flatMap(({ user }) => user ? [[user.id, user.name] as const] : []),
    ...(shown?.apiKeys?.nodes ?? []).map(({ id, name }) => [id, `Key “${name}”`] as const),
  ]);
  const link = rows.find(row => row.subjectId === about)?.link;
  return (
    <main>
      <header>
        <h1>Activity</h1>
        {!isAudit && <span class="soft">Last 30 days, oldest first</span>}
        <div class="row wrap end">
          <Pick label="Everything" name="type" options={isAudit ? ALL_OPTIONS : EVENT_OPTIONS} />
          {isAudit && <Pick label="By anyone" name="actor" options={[...actors]} />}
          {isAudit && <><DateField label="From" name="from" /><DateField label="To" name="to" /></>}
        </div>
      </header>
      {about && (
        <div class="row"><Chip remove={() => change({ about: undefined })}>About {link ? shortText(link.shortUrl) : about}</Chip></div>
      )}
      <Wait part={log} error={error} reload={isAudit ? reloadAudit : reloadEvents} />
      {log && rows.length === 0 && !more && (
        <Empty title="Nothing to show" text={`No event of the last ${isAudit ? 400 : 30} days matches.`} />
      )}
      {rows.length > 0 && (
        <ol class={fetching ? 'events stale' : 'events'}>
          {rows.map(row => (
            <Happening key={row.id} row={row} actors={actors} only={(isAudit || row.link) && (() => change({ about: row.subjectId }))} />
          ))}
        </ol>
      )}
      {more}
    </main>
  );
}

type Row = HappeningFragment & { actorId?: string | null; details?: string | null };

function Happening({ row, actors, only }: { row: Row; actors: Map<string, string>; only: (() => void) | false | null | undefined }) {
  const { base } = usePlace();
  const { link, actor, actorId, changes, url } = row;
  const { name, email, kind, fields: _, ...others } = { url, ...(row.details && JSON.parse(row.details)) } as Record<string, unknown>;
  const subject = link ? shortText(link.shortUrl) : plain(name ?? email ?? (kind ? words(String(kind)) : ''));
  const href = link ? `${base}/links/${link.id}` : row.subjectId.startsWith('tsk_') && `${base}/move/${row.subjectId}`;
  const details = Object.entries(others).filter(([field, value]) => !isNothing(value) && !changes.some(change => change.field === field));
  return (
    <li class="event">
      <span>{words(row.type)}</span>
      <span class="subject">
        {href ? <a class="cut" href={href}>{subject}</a> : subject && <span class="cut" dir="auto">{subject}</span>}
        {link?.title && <small class="cut" dir="auto">{link.title}</small>}
        {only && <button class="only" onClick={only}>only this</button>}
      </span>
      <span class="soft cut">{actor?.name ?? (actorId ? actors.get(actorId) ?? 'A former member or key' : '')}</span>
      <small class="when"><Time at={row.at} /></small>
      {changes.length + details.length > 0 && (
        <dl class="values">
          {changes.map(({ field, before, after }) => (
            <div key={field}><dt>{field}</dt><dd><Change before={valueOf(before)} after={valueOf(after)} /></dd></div>
          ))}
          {details.map(([field, value]) => <div key={field}><dt>{field}</dt><dd>{plain(value)}</dd></div>)}
        </dl>
      )}
    </li>
  );
}

// Change is a value before and after. Values that are secret or too long are left out by the API.
function Change({ before, after }: { before: unknown; after: unknown }) {
  if (isNothing(before)) return <ins>{isNothing(after) ? 'changed' : plain(after)}</ins>;
  return <><del>{plain(before)}</del> → <ins>{isNothing(after) ? 'empty' : plain(after)}</ins></>;
}

const valueOf = (json: string | null | undefined): unknown => json == null ? null : JSON.parse(json);
const isNothing = (value: unknown) => value == null || value === '' || JSON.stringify(value) === '[]';

// plain is a value without the marks of JSON.
function plain(value: unknown): string {
  if (Array.isArray(value)) return value.map(plain).join(', ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value).filter(([, part]) => !isNothing(part)).map(([name, part]) => `${name}: ${plain(part)}`).join(', ');
}
