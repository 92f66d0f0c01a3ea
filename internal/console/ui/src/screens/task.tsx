// The report of a task: how far it is, what became of each row, and what one does next.
import { useQuery } from '@urql/preact';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { ask, accepted, run, type UserError } from '../api';
import { usePlace } from '../app';
import {
  ApplyImportDocument, CancelTaskDocument, CheckParityDocument, type ImportLossReason, type ImportOutcome, type ImportSource,
  type ParityVerdict, type ProgressFragment, TaskDocument, type TaskQuery,
} from '../gql/graphql';
import { attempt, Badge, Confirm, Copy, Count, Empty, Facts, formatCount, say, Time, useKept, Wait } from '../ui/kit';
import { Segments, useAddress, usePages, words } from '../ui/list';
import { undoOf } from '../undo';
import { shortText } from './first';

// Of each source: its name, and what its API needs beside a token. Those without an API are files only.
export const SOURCES: Record<ImportSource, { name: string; needs?: 'server' | 'account' | 'token' }> = {
  CSV: { name: 'CSV file' }, JSON_LINES: { name: 'JSON Lines file' }, LINKFORGE: { name: 'Archive of Linkforge' },
  BITLY: { name: 'Bitly', needs: 'account' }, DUB: { name: 'Dub', needs: 'token' }, KUTT: { name: 'Kutt', needs: 'server' },
  REBRANDLY: { name: 'Rebrandly', needs: 'account' }, SHLINK: { name: 'Shlink', needs: 'server' },
  SHORT_IO: { name: 'Short.io', needs: 'account' }, SINK: { name: 'Sink', needs: 'server' }, YOURLS: { name: 'YOURLS', needs: 'server' },
};

const POLL_MS = 1500;

type Task = Extract<NonNullable<TaskQuery['node']>, { __typename: 'Task' }>;
type ReportOf<Name extends string> = Extract<NonNullable<Task['report']>, { __typename: Name }>;

const isOver = ({ status }: ProgressFragment) => ['SUCCEEDED', 'FAILED', 'CANCELED'].includes(status);

export function titleOf({ kind, report }: Pick<ProgressFragment, 'kind'> & { report?: object | null }) {
  if (kind !== 'IMPORT') return kind === 'PARITY_CHECK' ? 'Comparison with the old short URLs' : 'Export of the workspace';
  const { source, label, dryRun } = (report ?? {}) as Partial<ReportOf<'ImportReport'>>;
  const from = source ? ` from ${SOURCES[source].name}` : '';
  return `${dryRun ? 'Preview of an import' : 'Import'}${from}${label ? `, ${label}` : ''}`;
}

export function TaskState({ task: { status, done, total } }: { task: ProgressFragment }) {
  if (status === 'RUNNING') return <Badge>{formatCount(done)}{total != null && ` of ${formatCount(total)}`}</Badge>;
  return <Badge kind={status === 'SUCCEEDED' ? 'good' : status === 'FAILED' ? 'bad' : ''}>{words(status)}</Badge>;
}

// TaskReport follows a task until it is over: the address has its id, and so a reload loses nothing.
export function TaskReport({ id }: { id: string }) {
  const { base, user, may } = usePlace();
  const { query } = useAddress();
  const only = query['only'];
  const variables = {
    id, lossesOnly: only === 'LOSSES',
    outcomes: only && only in OUTCOMES ? [only as ImportOutcome] : undefined,
    verdicts: only && only in VERDICTS ? [only as ParityVerdict] : undefined,
  };
  const [{ data: latest, error }, refetch] = useQuery({ query: TaskDocument, variables });
  const data = useKept(latest);
  const reload = () => refetch({ requestPolicy: 'network-only' });
  const task = data?.node?.__typename === 'Task' ? data.node : null;
  useEffect(() => {
    if (!task || isOver(task)) return;
    const timer = setTimeout(reload, POLL_MS);
    return () => clearTimeout(timer);
  }, [data, error]);

  if (!task && (error || !data)) return <main><Wait part={null} error={error} reload={refetch} /></main>;
  if (!task) return <main><Empty title="No such task" text="Tasks are deleted 30 days after their end." /></main>;
  const { report } = task;
  const cancel = () => attempt(async () => {
    accepted(await run(CancelTaskDocument, { input: { id } }));
    reload();
  });
  const load = async (after: string) => {
    const next = (await ask(TaskDocument, { ...variables, after })).node;
    return next?.__typename === 'Task' ? next.report : null;
  };
  return (
    <main>
      <header>
        <div class="grow">
          <small><a href={`${base}/move`}>Move</a></small>
          <h1>{titleOf(task)}</h1>
        </div>
        <TaskState task={task} />
        <small>{task.createdBy?.name} <Time at={task.finishedAt ?? task.createdAt} /></small>
        {!isOver(task) && (may('LINKS_WRITE') || task.createdBy?.id === user.id) && <button class="button" onClick={cancel}>Cancel</button>}
      </header>
      {!isOver(task) && (
        task.status === 'WAITING_FOR_UPLOAD'
          ? <p class="notice">The file has not arrived. If it is not being sent at the moment, cancel this, and begin again.</p>
          : <progress class="meter" aria-label="Progress" {...(task.total ? { max: task.total, value: task.done } : {})} />
      )}
      {task.failure && <p class="notice bad" role="alert">{task.failure.message}</p>}
      {report?.__typename === 'ImportReport' && <ImportReport task={task} report={report} load={load} reload={reload} />}
      {report?.__typename === 'ParityReport' && <ParityReport task={task} report={report} load={load} />}
      {report?.__typename === 'WorkspaceArchive' && task.status === 'SUCCEEDED' && <Archive report={report} />}
    </main>
  );
}

type Load = (after: string) => Promise<Task['report']>;

// useNext starts what follows on a task, and goes there.
function useNext() {
  const { base } = usePlace();
  const { route } = useAddress();
  return (start: () => Promise<{ task?: { id: string } | null; errors: UserError[] }>) => attempt(async () => {
    const { task } = accepted(await start());
    if (task) route(`${base}/move/${task.id}`);
  });
}

// What became of rows; or, in a preview, what would become of them.
const OUTCOMES: Record<ImportOutcome, string> = {
  CREATED: 'New', UPDATED: 'Changed', UNCHANGED: 'As they were', RENAMED: 'With another code', CLOSED: 'Closed', SKIPPED: 'Left out',
  FAILED: 'Failed',
};

const CHANGING: ImportOutcome[] = ['CREATED', 'UPDATED', 'RENAMED', 'CLOSED'];
const KINDS: Partial<Record<ImportOutcome, 'bad' | 'warn'>> = { FAILED: 'bad', SKIPPED: 'warn', CLOSED: 'warn' };

// Only chooses which rows are listed.
function Only({ options }: { options: [string, string, number][] }) {
  const { query, change } = useAddress();
  const offered = options.filter(([, , n]) => n > 0).map(([value, text, n]) => [value, `${text} ${formatCount(n)}`] as const);
  if (offered.length === 0) return null;
  return <Segments label="Which rows" value={query['only'] ?? ''} options={[['', 'All'], ...offered]}
    change={only => change({ only: only || undefined })} />;
}

function ImportReport({ task, report, load, reload }: { task: Task; report: ReportOf<'ImportReport'>; load: Load; reload: () => void }) {
  const { workspace, may, base } = usePlace();
  const next = useNext();
  const [isUndoing, setUndoing] = useState(false);
  const { rows, more } = usePages(report.rows, async after => {
    const page = await load(after);
    return page?.__typename === 'ImportReport' ? page.rows : null;
  });
  const changing = report.counts.reduce((n, { outcome, rows: m }) => n + (CHANGING.includes(outcome) ? m : 0), 0);
  const hasEnded = task.status === 'SUCCEEDED', { operationId } = report;
  const apply = () => next(() => run(ApplyImportDocument, { input: { taskId: task.id } }));
  const compare = () => next(() => run(CheckParityDocument, { input: { workspaceId: workspace.id, importId: task.id } }));
  const undo = async () => {
    await undoOf(workspace.id, operationId!, reload)();
    say('The import is undone. Links that were changed since stay.');
  };
  return (
    <>
      {hasEnded && report.dryRun && (
        <div class="notice">
          <span class="grow">{changing > 0 ? 'Nothing has been changed yet.' : 'No link would be created or changed.'}</span>
          {changing > 0 && may('LINKS_WRITE') && <button class="button next" onClick={apply}>Import {formatCount(changing)} links</button>}
        </div>
      )}
      {!report.dryRun && isOver(task) && may('LINKS_WRITE') && (
        <div class="row wrap">
          <button class="button next" onClick={compare}>Compare with the old short URLs</button>
          {operationId && <button class="button danger" onClick={() => setUndoing(true)}>Undo this import</button>}
        </div>
      )}
      {isUndoing && <Confirm title="Undo this import?" action="Undo import" close={() => setUndoing(false)} confirm={undo}
        text="Links that it has created are deleted, and those that it has changed are as before." />}
      <Facts facts={[
        ['Hosts', report.hosts.map(({ host, rows: n, domain }) => `${host} → ${domain?.host ?? location.host} (${formatCount(n)})`).join(', ')],
        ['Not kept as it was', report.losses.map(loss => `${textOf(loss)} (${formatCount(loss.rows)})`).join(', ')],
        ['Ignored fields', report.ignoredFields.join(', ')],
        ['Ended already', report.ended > 0 && `${formatCount(report.ended)} links are past their end`],
      ]} />
      <Only options={[
        ...report.counts.map(({ outcome, rows: n }): [string, string, number] => [outcome, OUTCOMES[outcome], n]),
        ['LOSSES', 'With losses', report.losses.length && Math.max(...report.losses.map(loss => loss.rows))],
      ]} />
      {rows.length > 0 && (
        <Table heads={['Row', 'At the source', 'Outcome', 'Here']}>
          {rows.map(({ line, sourceUrl, sourceId, outcome, link, code, errors, losses }) => (
            <tr key={line}>
              <td class="soft">{line}</td>
              <td class="broken">
                {sourceUrl ? shortText(sourceUrl) : sourceId}
                {[...errors.map(({ message }) => message), ...losses.map(textOf)].map(text => <p key={text}><small>{text}</small></p>)}
              </td>
              <td><Badge kind={KINDS[outcome]}>{OUTCOMES[outcome]}</Badge></td>
              <td class="broken">{link ? <a href={`${base}/links/${link.id}`}>{code ?? shortText(link.shortUrl)}</a> : code}</td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </>
  );
}

type Loss = { field: string; reason: ImportLossReason; value?: string | null; form?: string | null };

const textOf = ({ field, reason, value, form }: Loss) =>
  `${field}${value ? ` ${value}` : ''}: ${words(reason).toLowerCase()}${form ? `, write ${form}` : ''}`;

const VERDICTS: Record<ParityVerdict, string> = {
  SAME: 'The same', DIFFERENT_STATUS: 'Other status', DIFFERENT_DESTINATION: 'Other destination', MISSING_THERE: 'Missing there',
  MISSING_HERE: 'Missing here', GATED: 'Behind a page', ALREADY_MOVED: 'Moved already', UNREACHABLE: 'No answer',
};

function ParityReport({ task, report, load }: { task: Task; report: ReportOf<'ParityReport'>; load: Load }) {
  const { base } = usePlace();
  const { rows, more } = usePages(report.differences, async after => {
    const page = await load(after);
    return page?.__typename === 'ParityReport' ? page.differences : null;
  });
  if (report.counts.length === 0) {
    return <p class="soft">{isOver(task) ? 'There are no old short URLs to compare.' : 'One old short URL is requested each second.'}</p>;
  }
  return (
    <>
      <Only options={report.counts.map(({ verdict, links }) => [verdict, VERDICTS[verdict], links])} />
      {rows.length === 0 ? <p class="soft">No differences to list.</p> : (
        <Table heads={['Old short URL', 'Verdict', 'Leads there to', 'Leads here to']}>
          {rows.map(row => (
            <tr key={row.sourceUrl}>
              <td class="broken"><a href={row.link ? `${base}/links/${row.link.id}` : undefined}>{shortText(row.sourceUrl)}</a></td>
              <td><Badge kind={row.verdict === 'SAME' ? 'good' : 'warn'}>{VERDICTS[row.verdict]}</Badge></td>
              <td class="broken"><small>{row.sourceStatus} {row.sourceLocation}</small></td>
              <td class="broken"><small>{row.status} {row.location}</small></td>
            </tr>
          ))}
        </Table>
      )}
      {more}
    </>
  );
}

const bytes = new Intl.NumberFormat(undefined, { notation: 'compact', style: 'unit', unit: 'byte', unitDisplay: 'narrow' });

function Archive({ report: { url, bytes: size, sha256, removedAt, sections } }: { report: ReportOf<'WorkspaceArchive'> }) {
  return (
    <>
      {url
        ? <p class="row wrap">
          <a class="button next" href={url} rel="noopener noreferrer" download>Download{size != null && ` (${bytes.format(size)})`}</a>
          {removedAt && <small>The file is removed <Time at={removedAt} />.</small>}
        </p>
        : <p class="soft">The file is not available any more.</p>}
      <ul class="items">
        {sections.map(({ kind, records }) => <li class="item" key={kind}><span class="grow">{words(kind)}</span><Count n={records} /></li>)}
      </ul>
      {sha256 && <p class="row"><small class="cut mono">SHA-256 {sha256}</small><Copy text={sha256} /></p>}
    </>
  );
}

function Table({ heads, children }: { heads: string[]; children: ComponentChildren }) {
  return (
    <div class="scroll">
      <table class="table"><thead><tr>{heads.map(head => <th key={head}>{head}</th>)}</tr></thead><tbody>{children}</tbody></table>
    </div>
  );
}
