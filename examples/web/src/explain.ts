// The panel that tries a visit: the fields of the visit, and the answer of the routing that is being edited.
import type { Client, CombinedError } from '@urql/core';

import { create, element, values } from './dom';
import { instant } from './fields';
import type {
  ExplainRedirectQueryVariables,
  RedirectOutcome,
  RedirectReason,
  RedirectStepKind,
  VisitSampleInput,
} from './gql/graphql';
import { ExplainRedirect } from './operations';
import type { Explanation } from './rules';

const DEBOUNCE_MS = 300;

const WEBKIT = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const BLINK = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0';

// AGENTS are the presets of the User-Agent header.
const AGENTS: Record<string, string> = {
  'Not known': '',
  iPhone: `Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${WEBKIT}`,
  iPad: `Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) ${WEBKIT}`,
  Android: `Mozilla/5.0 (Linux; Android 14; Pixel 8) ${BLINK} Mobile Safari/537.36`,
  'Windows desktop': `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${BLINK} Safari/537.36`,
  'Linux desktop': 'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0',
  'Search bot': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
};

const REASONS: Record<RedirectReason, string> = {
  URL: "No rule decides: the link's URL.",
  RULE: 'A rule decides.',
  PENDING: 'The link has not started.',
  EXPIRED: 'The link has expired.',
  EXHAUSTED: 'The link has reached its maximum number of clicks.',
  OVER_QUOTA: 'The monthly hit quota is used up.',
  CARD: 'A preview crawler is shown the card.',
  GATE: 'The gate is not passed.',
  BOT: 'A bot, preview or prefetch is held back.',
  PATH: 'The path after the code is not accepted.',
  DELETED: 'The link is deleted.',
  DISABLED: 'The operator has disabled the link.',
  WORKSPACE_DELETED: 'The workspace is deleted.',
};

const STEPS: Record<RedirectStepKind, string> = {
  ADDRESS: 'Address',
  WORKSPACE: 'Workspace',
  MODERATION: 'Moderation',
  DELETION: 'Deletion',
  PENDING: 'Start',
  ENDED: 'End',
  AUTOMATION: 'Automation',
  GATE: 'Gate',
  LIMITS: 'Limits',
  RULE: 'Rule',
  TARGET: 'Target',
  LOCATION: 'Location',
};

const OUTCOMES: Record<RedirectOutcome, string> = { PASSED: 'passed', APPLIED: 'applies', SKIPPED: 'skipped' };

// setUpVisit fills the presets of the panel, and calls changed after each edit of the visit.
export function setUpVisit(changed: () => void): void {
  const form = element('visit') as HTMLFormElement;
  const preset = form.elements.namedItem('preset') as HTMLSelectElement;
  const agent = form.elements.namedItem('userAgent') as HTMLInputElement;
  for (const [name, value] of Object.entries(AGENTS)) preset.append(new Option(name, value));
  preset.append(new Option('Other', 'other'));
  preset.addEventListener('change', () => {
    if (preset.value === 'other') agent.focus();
    else agent.value = preset.value;
  });
  agent.addEventListener('input', () => {
    preset.value = Object.values(AGENTS).includes(agent.value) ? agent.value : 'other';
  });
  form.addEventListener('input', changed);
  form.addEventListener('change', changed);
  form.addEventListener('submit', event => (event.preventDefault(), changed()));
}

// readVisit returns the visit of the panel. An empty field is not known.
export function readVisit(): VisitSampleInput {
  const typed = values(element('visit') as HTMLFormElement);
  const known = (name: string) => typed[name]?.trim() || null;
  const path = known('path');
  return {
    at: instant(typed['at'] ?? ''),
    country: known('country')?.toUpperCase() ?? null,
    userAgent: known('userAgent'),
    acceptLanguage: known('acceptLanguage'),
    referrer: known('referrer'),
    query: known('query')?.replace(/^\?/, '') ?? null,
    path: path && !path.startsWith('/') ? `/${path}` : path,
    address: known('address'),
    private: typed['private'] === 'on',
  };
}

export type Explainer = { request: (variables: ExplainRedirectQueryVariables) => void; stop: () => void };

// explainer sends the latest request once edits have paused. A new request aborts the one before, so that an outdated
// answer is never shown.
export function explainer(
  client: Client,
  answered: (explanation: Explanation | null, error?: CombinedError) => void,
): Explainer {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort = () => {};
  const stop = () => {
    clearTimeout(timer);
    abort();
    abort = () => {};
  };
  const send = (variables: ExplainRedirectQueryVariables) => {
    const query = client.query(ExplainRedirect, variables, { requestPolicy: 'network-only' });
    abort = query.subscribe(({ data, error }) => answered(data?.explainRedirect ?? null, error)).unsubscribe;
  };
  return {
    request: variables => {
      stop();
      timer = setTimeout(() => send(variables), DEBOUNCE_MS);
    },
    stop,
  };
}

// showAnswer shows an explanation in the panel, or why there is none.
export function showAnswer(explanation: Explanation | null, problem: string): void {
  const answer = element('answer');
  answer.classList.toggle('wrong', explanation === null);
  element('answer-status').textContent = explanation ? String(explanation.status) : '';
  element('answer-location').textContent = explanation?.location ?? (explanation ? 'No Location.' : problem);
  element('answer-reason').textContent = explanation ? describe(explanation) : '';
  element('reading').textContent = explanation ? describeVisit(explanation.visit) : '';
  element('steps').replaceChildren(...(explanation?.steps ?? []).map(stepItem));
}

function describe({ reason, ruleIndex, targetIndex, candidates }: Explanation): string {
  if (ruleIndex === null || targetIndex === null) return REASONS[reason];
  const choice = candidates.length > 1 ? `one of ${candidates.length} candidates` : 'certain for this visit';
  return `Rule ${ruleIndex + 1} decides. Target ${targetIndex + 1}, ${choice}.`;
}

function describeVisit({ country, device, os, browser, language, referrer, bot }: Explanation['visit']): string {
  const seen = { country, device, system: os, browser, language, referrer };
  const parts = Object.entries(seen).map(([name, value]) => `${name} ${value || 'unknown'}`);
  return `Conditions see: ${parts.join(', ')}, ${bot ? 'a bot' : 'not a bot'}.`;
}

function stepItem({ step, outcome, ruleIndex, detail }: Explanation['steps'][number]): HTMLElement {
  const title = create('b', { textContent: STEPS[step] });
  if (ruleIndex !== null) title.append(step === 'RULE' ? ` ${ruleIndex + 1}` : ` of rule ${ruleIndex + 1}`);
  const kind = create('span', { className: 'outcome-kind', textContent: OUTCOMES[outcome] });
  const text = create('p', { textContent: detail });
  return create('li', { className: outcome.toLowerCase() }, title, ' ', kind, text);
}
