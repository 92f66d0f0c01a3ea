// Move: links from another service or a file, archives and clicks to take away, and the tasks that do it.
import { useQuery } from '@urql/preact';
import { useRoute } from 'preact-iso';
import { useState } from 'preact/hooks';

import { ask, run, type UserError } from '../api';
import { usePlace } from '../app';
import {
  type ArchiveSectionKind, CreateImportDocument, ExportClicksDocument, type ExportFormat, ExportLinksDocument, type ExportLinksQuery, ExportWorkspaceDocument,
  type ImportConflictPolicy, type ImportSource, MoveDocument, type MoveQuery, type Permission,
} from '../gql/graphql';
import { Check, Choice, Field, Form, Text, useFields } from '../ui/form';
import { formatCount, Missing, save, Time, Wait } from '../ui/kit';
import { dateOf, dayStart, useAddress, usePages } from '../ui/list';
import { withScheme } from '../ui/url';
import { SOURCES, TaskReport, TaskState, titleOf } from './task';

type Shown = NonNullable<MoveQuery['workspace']>;

export function Move() {
  const id = useRoute().params['rest'];
  return id ? <TaskReport id={id} key={id} /> : <Tasks />;
}

function Tasks() {
  const { workspace, may, base } = usePlace();
  const variables = { by: { id: workspace.id } };
  const [{ data, error }, reload] = useQuery({ query: MoveDocument, variables });
  const shown = data?.workspace, tasks = shown?.tasks;
  const { rows, more } = usePages(tasks, async after => (await ask(MoveDocument, { ...variables, after })).workspace?.tasks);
  return (
    <main>
      <header><h1>Move</h1></header>
      <Wait part={shown} error={error} reload={reload} />
      {shown && (
        <div class="two">
          {may('LINKS_WRITE') && <section class="section"><h2>Import links</h2><Import shown={shown} /></section>}
          <div class="stack">
            <section class="section"><h2>Export links</h2><ExportLinks shown={shown} /></section>
            <section class="section"><h2>Export the workspace</h2><ExportWorkspace /></section>
            {may('STATS_READ') && <section class="section"><h2>Export clicks</h2><ExportClicks shown={shown} /></section>}
          </div>
        </div>
      )}
      {shown && !tasks && <Missing what="The tasks" />}
      {rows.length > 0 && (
        <section class="section">
          <h2>Tasks of the last 30 days</h2>
          <ul class="items">
            {rows.map(task => (
              <li class="item" key={task.id}>
                <a class="cut grow" href={`${base}/move/${task.id}`}>{titleOf(task)}</a>
                <small class="cut wide">{task.createdBy?.name}</small><TaskState task={task} /><small><Time at={task.createdAt} /></small>
              </li>
            ))}
          </ul>
          {more}
        </section>
      )}
    </main>
  );
}

const SOURCE_OPTIONS = Object.entries(SOURCES).map(([source, { name }]) => [source as ImportSource, name] as const);
const CONFLICTS: readonly (readonly [ImportConflictPolicy, string])[] = [
  ['SKIP', 'Leave the row out'], ['RENAME', 'Take another code'], ['REPLACE', 'Change the existing link'],
];

function Import({ shown }: { shown: Shown }) {
  const { workspace, base } = usePlace();
  const { route } = useAddress();
  const { values, set } = useFields({
    source: 'CSV' as ImportSource, way: 'file' as 'file' | 'api', baseUrl: '', token: '', account: '', label: '',
    onConflict: 'SKIP' as ImportConflictPolicy, folderId: '', tags: '', host: '', domainId: '',
  });
  const [file, setFile] = useState<File | null>(null);
  const [hasMore, setMore] = useState(false);
  const { needs } = SOURCES[values.source];
  const isApi = !!needs && values.way === 'api';
  const domains = shown.domains?.nodes.filter(({ status }) => status === 'VERIFIED') ?? [];

  async function submit(): Promise<UserError[]> {
    if (!isApi && !file) return [{ code: 'INVALID_INPUT', message: 'Choose a file.', field: ['file'] }];
    const tags = values.tags.split(',').map(tag => tag.trim()).filter(Boolean);
    const { task, uploadUrl, errors } = await run(CreateImportDocument, { input: {
      workspaceId: workspace.id, source: values.source, onConflict: values.onConflict, label: values.label || undefined,
      folderId: values.folderId || undefined, tags: tags.length ? tags : undefined,
      hosts: values.host ? [{ host: values.host, domainId: values.domainId || undefined }] : undefined,
      api: isApi ? { token: values.token, account: values.account || undefined,
        baseUrl: needs === 'server' && values.baseUrl ? withScheme(values.baseUrl) : undefined } : undefined,
    } });
    if (!task) return errors;
    const refused = uploadUrl && file ? await upload(uploadUrl, file) : [];
    if (refused.length === 0) route(`${base}/move/${task.id}`);
    return refused;
  }

  return (
    <Form action="Preview import" submit={submit}>
      <p class="soft">The preview reports what would become of each link, and changes nothing.</p>
      <Choice label="From" path="source" value={values.source} change={set('source')} options={SOURCE_OPTIONS} />
      {needs && <Choice label="By" path="way" value={values.way} change={set('way')} options={[['file', 'A file'], ['api', 'Its API']]} />}
      {!isApi && (
        <Field label="File" path="file">
          {control => <input {...control} class="input" type="file" onChange={event => setFile(event.currentTarget.files?.[0] ?? null)} />}
        </Field>
      )}
      {isApi && needs === 'server' && (
        <Text label="URL of its server" path="api.baseUrl" value={values.baseUrl} change={set('baseUrl')} placeholder="https://" />
      )}
      {isApi && (
        <Text label="Key or token of its API" path="api.token" type="password" autocomplete="off" value={values.token}
          change={set('token')} hint="It is stored encrypted, and erased when the import ends." />
      )}
      {isApi && needs === 'account' && (
        <Text label="Account, group or domain" path="api.account" value={values.account} change={set('account')}
          hint="Leave it empty to import all of them." />
      )}
      {hasMore ? (
        <>
          <Choice label="If a code is taken" path="onConflict" value={values.onConflict} change={set('onConflict')} options={CONFLICTS} />
          <Text label="Tags for all links" path="tags" value={values.tags} change={set('tags')} hint="Separated by commas." />
          <Choice label="Folder for all links" path="folderId" value={values.folderId} change={set('folderId')}
            options={[['', 'As at the source'], ...(shown.folders?.nodes ?? []).map(({ id, name }) => [id, name] as const)]} />
          <Text label="Name of the account or server" path="label" value={values.label} change={set('label')}
            hint="Tells apart the links of several accounts of one service." />
          <div class="two">
            <Text label="Links of this host" path="hosts.0.host" value={values.host} change={set('host')} placeholder="go.example.com" />
            <Choice label="Go to" path="hosts.0.domainId" value={values.domainId} change={set('domainId')}
              options={[['', location.host], ...domains.map(({ id, host }) => [id, host] as const)]} />
          </div>
        </>
      ) : <button class="button plain" type="button" onClick={() => setMore(true)}>More choices…</button>}
    </Form>
  );
}

// upload sends a file to the URL that is its credential, and returns why it was refused.
async function upload(url: string, file: File): Promise<UserError[]> {
  const response = await fetch(url, { method: 'PUT', body: file });
  if (response.ok) return [];
  const answer = await response.json().catch(() => null) as { errors?: UserError[] } | null;
  const message = answer?.errors?.[0]?.message ?? 'The file did not arrive. Send it again.';
  return [{ code: 'INVALID_INPUT', message, field: ['file'] }];
}

const SECTIONS: readonly (readonly [ArchiveSectionKind, string, Permission])[] = [
  ['LINKS', 'Links', 'LINKS_READ'], ['VERSIONS', 'History of links', 'LINKS_READ'], ['FOLDERS', 'Folders', 'LINKS_READ'],
  ['DOMAINS', 'Domains', 'DOMAINS_READ'], ['MEMBERS', 'Members', 'MEMBERS_READ'], ['CLICKS', 'Clicks', 'STATS_READ'],
  ['AUDIT', 'Audit log', 'AUDIT_READ'],
];

function ExportWorkspace() {
  const { workspace, may, base } = usePlace();
  const { route } = useAddress();
  const [chosen, setChosen] = useState<ArchiveSectionKind[]>(['LINKS', 'VERSIONS', 'FOLDERS']);
  async function submit() {
    const { task, errors } = await run(ExportWorkspaceDocument, { input: { workspaceId: workspace.id, sections: chosen } });
    if (task) route(`${base}/move/${task.id}`);
    return errors;
  }
  return (
    <Form isQuiet action="Export" submit={submit} disabled={chosen.length === 0}>
      <p class="soft">One file of JSON lines that any program reads, and that another workspace imports.</p>
      <div class="checks">
        {SECTIONS.filter(([, , needed]) => may(needed)).map(([kind, text]) => (
          <Check key={kind} label={text} path="sections" value={chosen.includes(kind)}
            change={on => setChosen(on ? [...chosen, kind] : chosen.filter(one => one !== kind))} />
        ))}
      </div>
    </Form>
  );
}

// ExportLinks writes a file here, page by page. Its columns are those that imports read.
function ExportLinks({ shown }: { shown: Shown }) {
  const { workspace } = usePlace();
  const { values, at } = useFields({ format: 'CSV' as ExportFormat, folderId: '' });
  const [count, setCount] = useState<number | null>(null);
  async function submit() {
    const rows: Record<string, unknown>[] = [], filter = values.folderId ? { folderIds: [values.folderId] } : undefined;
    for (let after: string | null | undefined; after !== null;) {
      const links: LinkPage = (await ask(ExportLinksDocument, { by: { id: workspace.id }, filter, after })).workspace!.links!;
      rows.push(...links.nodes.map(({ __typename, folder, originalUrl, clickCount, ...link }) => (
        { url: originalUrl, ...link, clicks: clickCount, folder: folder?.name ?? null })));
      setCount(rows.length);
      after = links.pageInfo.hasNextPage ? links.pageInfo.endCursor! : null;
    }
    setCount(null);
    save(values.format === 'CSV' ? csvOf(rows) : rows.map(row => JSON.stringify(row) + '\n').join(''),
      `links.${values.format === 'CSV' ? 'csv' : 'ndjson'}`);
    return [];
  }
  return (
    <Form isQuiet action={count === null ? 'Download' : `${formatCount(count)} links…`} submit={submit}>
      <p class="soft">Each link with its fields, which an import reads again. Rules and passwords are in the export of the workspace.</p>
      <Choice label="As" {...at('format')} options={FORMATS} />
      <Choice label="Of links in" {...at('folderId')} options={foldersOf(shown)} />
    </Form>
  );
}

type LinkPage = NonNullable<NonNullable<ExportLinksQuery['workspace']>['links']>;

// csvOf has the names of the columns in its first line. A cell that a spreadsheet could read as a formula begins with an apostrophe.
function csvOf(rows: Record<string, unknown>[]): string {
  const textOf = (value: unknown) => String(Array.isArray(value) ? value.join(', ') : value ?? '');
  const cell = (value: unknown) => `"${textOf(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  return '\ufeff' + [Object.keys(rows[0] ?? {}), ...rows.map(row => Object.values(row))].map(cells => cells.map(cell).join() + '\r\n').join('');
}

const FORMATS: readonly (readonly [ExportFormat, string])[] = [['CSV', 'CSV, for spreadsheets'], ['JSON_LINES', 'JSON lines']];
const foldersOf = (shown: Shown) => [['', 'All folders'], ...(shown.folders?.nodes ?? []).map(({ id, name }) => [id, name] as const)] as const;

function ExportClicks({ shown }: { shown: Shown }) {
  const { workspace } = usePlace();
  const { values, set } = useFields({ format: 'CSV' as ExportFormat, folderId: '', from: '', to: '' });
  async function submit() {
    const { format, from, to, folderId } = values;
    const { url, errors } = await run(ExportClicksDocument, { input: {
      workspaceId: workspace.id, format, bom: format === 'CSV', folderId: folderId || undefined,
      range: from ? { from: dayStart(from, 0), to: dayStart(to || dateOf(new Date()), 1) } : undefined,
    } });
    if (url) location.assign(url);
    return errors;
  }
  return (
    <Form isQuiet action="Download" submit={submit}>
      <p class="soft">Each click of the last 30 days, or of the days that you choose.</p>
      <Choice label="As" path="format" value={values.format} change={set('format')} options={FORMATS} />
      <Choice label="Of links in" path="folderId" value={values.folderId} change={set('folderId')} options={foldersOf(shown)} />
      <div class="two">
        <Text label="First day" path="range" type="date" value={values.from} change={set('from')} />
        <Text label="Last day" path="to" type="date" value={values.to} change={set('to')} />
      </div>
    </Form>
  );
}
