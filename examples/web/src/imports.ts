// An import of a file: a dry run with its report, then the import, and a comparison with the old short URLs. Each is a task of
// the server, whose progress the page shows, and which goes on without the page.
import type { Client, CombinedError } from '@urql/core';

import { button, create, element, values } from './dom';
import type { ImportSource, TaskProgressFragment } from './gql/graphql';
import { ApplyImport, CancelTask, CheckParity, CreateImport, TaskProgress } from './operations';

type Errors = { message: string }[];
type Started = { task?: TaskProgressFragment | null; errors: Errors };

const PAUSE = 500; // milliseconds between two looks at a task
const ENDED = ['SUCCEEDED', 'FAILED', 'CANCELED'];

// setUpImports shows the form for a workspace. changed is called when links were imported, failed when a request failed.
export function setUpImports(client: Client, workspace: () => string, changed: () => void, failed: (e: CombinedError) => void) {
  const status = element('import-status');
  const report = element('import-report');

  element('import').addEventListener('submit', event => {
    event.preventDefault();
    void start(event.target as HTMLFormElement);
  });

  async function start(form: HTMLFormElement) {
    const { source, label } = values(form);
    const file = (form.elements.namedItem('file') as HTMLInputElement).files![0]!;
    const input = { workspaceId: workspace(), source: source as ImportSource, label: label || null };
    const { data, error } = await client.mutation(CreateImport, { input });
    if (error) return failed(error);
    const created = data!.createImport!;
    if (!created.task || !created.uploadUrl) return refuse(created.errors);
    say('Sending the file …');
    // fetch sends the size of a File. The URL is the credential: there is no token in a header.
    const response = await fetch(created.uploadUrl, { method: 'PUT', body: file });
    if (!response.ok) return refuse((await response.json()).errors);
    await follow(created.task, 'Dry run', task => [button('Import these links', () => apply(task))]);
  }

  async function apply(dryRun: TaskProgressFragment) {
    const { data, error } = await client.mutation(ApplyImport, { input: { taskId: dryRun.id } });
    if (error) return failed(error);
    const task = await begun(data!.applyImport!, 'Import', done => [button('Compare with the old links', () => compare(done))]);
    if (task) changed();
  }

  async function compare(imported: TaskProgressFragment) {
    const { data, error } = await client.mutation(CheckParity, { input: { workspaceId: workspace(), importId: imported.id } });
    if (error) return failed(error);
    await begun(data!.checkParity!, 'Comparison', () => []);
  }

  async function begun({ task, errors }: Started, name: string, next: (task: TaskProgressFragment) => HTMLElement[]) {
    if (!task) return refuse(errors);
    return follow(task, name, next);
  }

  // follow shows the progress of a task until it ends, then its report and what can be done next.
  async function follow(task: TaskProgressFragment, name: string, next: (task: TaskProgressFragment) => HTMLElement[]) {
    const bar = create('progress');
    const text = create('span');
    const cancel = button('Cancel', async () => {
      const { error } = await client.mutation(CancelTask, { input: { id: task.id } });
      if (error) failed(error);
    });
    report.replaceChildren(bar, ' ', text, ' ', cancel);
    say(`${name} …`);
    while (!ENDED.includes(task.status)) {
      await new Promise(resolve => setTimeout(resolve, PAUSE));
      const { data, error } = await client.query(TaskProgress, { id: task.id }, { requestPolicy: 'network-only' });
      if (error) return void failed(error);
      if (data?.node?.__typename !== 'Task') return void say('The task is gone.');
      task = data.node;
      if (task.total) [bar.max, bar.value] = [task.total, task.done];
      text.textContent = task.total === null ? '' : `${task.done} of ${task.total}`;
    }
    say(task.failure ? `${name}: ${task.failure.message}` : `${name}: ${task.status.toLowerCase()}, ${task.done} of ${task.total ?? task.done}.`);
    report.replaceChildren(...results(task), ...(task.status === 'SUCCEEDED' ? next(task) : []));
    return task;
  }

  function refuse(errors: Errors) {
    say(errors.map(e => e.message).join(' '));
  }

  function say(text: string) {
    status.textContent = text;
  }
}

// results are the parts of the report of a task.
function results({ report }: TaskProgressFragment): HTMLElement[] {
  if (!report || report.__typename === 'WorkspaceArchive') return []; // this page exports nothing
  if (report.__typename === 'ParityReport') {
    const differences = (report.differences?.nodes ?? []).map(d => `${d.sourceUrl}: ${words(d.verdict)}, ${d.sourceLocation ?? d.sourceStatus ?? 'no answer'}`);
    return [list('Verdicts', report.verdicts.map(c => `${c.links} ${words(c.verdict)}`)), list('Differences', differences)];
  }
  const losses = report.losses.map(loss => `${loss.field} of ${loss.rows}: ${words(loss.reason)}`);
  const rows = (report.rows?.nodes ?? []).map(row => `Line ${row.line}, ${row.sourceId}: ${row.errors.map(e => e.message).join(' ') || words(row.outcome)}`);
  return [list('Rows', report.counts.map(c => `${c.rows} ${words(c.outcome)}`)), list('Losses', losses), list('Not imported', rows)];
}

function list(title: string, lines: string[]): HTMLElement {
  const items = lines.map(line => create('li', {}, line));
  return create('div', { hidden: lines.length === 0 }, create('h3', {}, title), create('ul', {}, ...items));
}

function words(value: string): string {
  return value.toLowerCase().replaceAll('_', ' ');
}
