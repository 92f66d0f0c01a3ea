// The editor of a link's routing: its rules and settings, a live explanation of the unsaved state, and saving.
import type { Client, CombinedError } from '@urql/core';

import { create, element } from './dom';
import { type Draft, emptyDraft, toDraft } from './draft';
import { explainer, readVisit, setUpVisit, showAnswer } from './explain';
import { checkbox, clearErrors, clearErrorsAround, describePath, selectField, showErrors, splitList, textField } from './fields';
import type { UserError } from './fields';
import type { EditedLinkFragment, QueryForwardingMode } from './gql/graphql';
import { RoutingOfLink, UpdateRouting } from './operations';
import { renderRules, showDecision } from './rules';

// Editor opens with a link, and returns why it cannot. It closes unless the user retains unsaved changes.
export type Editor = { open: (id: string) => Promise<string | null>; close: () => boolean; stop: () => void };

const MODES: Record<QueryForwardingMode, string> = {
  OFF: 'Not forwarded',
  ADD: 'Add parameters that the destination does not have',
  REPLACE: 'Replace parameters of the destination',
};

// setUpEditor connects the editor of the page. Only one link is edited at a time.
export function setUpEditor(client: Client): Editor {
  const form = element('routing-form') as HTMLFormElement;
  const rules = element('rules');
  let link: EditedLinkFragment | null = null; // as it was read
  let draft = emptyDraft();

  const live = explainer(client, (explanation, error) => {
    showAnswer(explanation, error ? describeFieldError(error) : 'You may not read this link.');
    showDecision(rules, explanation);
  });
  const explain = () => {
    if (link) live.request({ id: link.id, visit: readVisit(), routing: structuredClone(draft) });
  };
  const edited = () => {
    report(isChanged() ? 'Unsaved changes.' : '');
    explain();
  };
  const isChanged = () => link !== null && JSON.stringify(draft) !== JSON.stringify(toDraft(link.routing));

  const show = (read: EditedLinkFragment) => {
    link = read;
    draft = toDraft(read.routing);
    element('routing-title').textContent = `Routing of ${read.shortUrl.replace(/^https?:\/\//, '')}`;
    element('routing-url').textContent = read.originalUrl;
    clearErrors(form);
    renderRules(rules, draft, edited);
    renderSettings(draft, edited);
    showWarnings(read.routing.warnings ?? []);
    element('routing-reload').hidden = true;
    report('');
    explain();
  };

  const open = async (id: string) => {
    const { data, error } = await client.query(RoutingOfLink, { id }, { requestPolicy: 'network-only' });
    if (!data?.link) return error ? describeError(error) : 'The link does not exist any more.';
    showAnswer(null, ''); // that of another link
    show(data.link);
    return null;
  };

  const save = async () => {
    if (!link) return;
    report('Saving …');
    const input = { id: link.id, updatedAt: link.updatedAt, routing: draft };
    const { data, error } = await client.mutation(UpdateRouting, { input });
    if (error) return report(describeError(error), true);
    const { link: saved, errors } = data!.updateLink!;
    if (!saved) return showUserErrors(form, errors);
    show(saved);
    report('Saved.');
  };

  const stop = () => {
    live.stop();
    link = null;
  };
  const reload = async () => {
    if (!link || !mayDiscard()) return;
    const problem = await open(link.id);
    if (problem) report(problem, true);
  };
  const mayDiscard = () => !isChanged() || confirm('Discard the unsaved changes?');

  setUpVisit(explain);
  setUpTimeZones();
  form.addEventListener('submit', event => {
    event.preventDefault();
    void oneAtATime(element('routing-save') as HTMLButtonElement, save);
  });
  form.addEventListener('input', event => clearErrorsAround(event.target as Element));
  element('routing-reload').addEventListener('click', () => void reload());
  addEventListener('beforeunload', event => isChanged() && event.preventDefault());
  return { open, stop, close: () => mayDiscard() && (stop(), true) };
}

async function oneAtATime(pressed: HTMLButtonElement, handle: () => Promise<void>) {
  if (pressed.ariaDisabled === 'true') return;
  pressed.ariaDisabled = 'true'; // a disabled button would lose the focus
  await handle().finally(() => (pressed.ariaDisabled = 'false'));
}

// showUserErrors shows errors at their fields. After a conflict, the current state can be loaded.
function showUserErrors(form: HTMLFormElement, errors: (UserError & { code: string })[]) {
  const elsewhere = showErrors(form, errors);
  const conflict = errors.some(error => error.code === 'CONFLICT');
  element('routing-reload').hidden = !conflict;
  const advice = conflict ? ' Your changes are not saved.' : '';
  report(elsewhere.length > 0 ? elsewhere.join(' ') + advice : 'Not saved: see the marked fields.', true);
}

function renderSettings(draft: Draft, edited: () => void) {
  const { query } = draft;
  const names = (name: 'only' | 'except', label: string) => {
    const options = { label, path: ['query', name], value: query[name].join(', '), placeholder: 'separated by commas' };
    return textField(options, typed => ((query[name] = splitList(typed)), edited()));
  };
  const fallback = (name: 'pendingUrl' | 'endedUrl', label: string, placeholder: string) => {
    const options = { label, path: [name], type: 'url', value: draft[name] ?? '', placeholder };
    return textField(options, typed => ((draft[name] = typed.trim() || null), edited()));
  };
  const mode = { label: 'Query of the short URL', path: ['query', 'mode'], value: query.mode, choices: MODES };
  const setPath = (checked: boolean) => ((draft.forwardPath = checked), edited());
  element('settings').replaceChildren(
    selectField(mode, chosen => ((query.mode = chosen), edited())),
    create('div', { className: 'fields' }, names('only', 'Only these parameters'), names('except', 'All but these')),
    checkbox('Append the path after the code', draft.forwardPath, setPath, ['forwardPath']),
    fallback('pendingUrl', 'Before the link starts, redirect to', '404 page'),
    fallback('endedUrl', 'After the link has ended, redirect to', 'https://example.com/ended?code={code}'),
  );
}

function showWarnings(warnings: NonNullable<EditedLinkFragment['routing']['warnings']>) {
  const items = warnings.map(({ message, field }) => {
    const place = create('b', { textContent: `${describePath(field)}: ` });
    return create('li', {}, place, message);
  });
  element('warning-list').replaceChildren(...items);
  element('warnings').hidden = warnings.length === 0;
}

function setUpTimeZones() {
  element('time-zones').append(...Intl.supportedValuesOf('timeZone').map(zone => new Option(zone, zone)));
}

function describeError(error: CombinedError): string {
  return error.networkError ? 'The server does not respond.' : error.graphQLErrors.map(e => e.message).join(' ');
}

// describeFieldError names the field of the unsaved routing or of the visit that the server refuses.
function describeFieldError(error: CombinedError): string {
  const field = error.graphQLErrors[0]?.extensions['field'] as string[] | undefined;
  const path = describePath(field?.slice(1) ?? []);
  return path ? `${path}: ${describeError(error)}` : describeError(error);
}

function report(sentence: string, wrong = false) {
  element('routing-status').textContent = sentence;
  element('routing-status').classList.toggle('wrong', wrong);
}
