// The routing of a link while it is edited: texts as they are typed, and what they mean to the API.
import type {
  ConditionFragment, LinkRoutingInput, QueryForwardingMode, RoutingFragment, Stickiness, UtmInput, UtmValuesFragment,
  VisitConditionInput, Weekday,
} from '../gql/graphql';
import { instantOf, listOf, localTime } from '../ui/form';
import { withScheme } from '../ui/url';

export type Kind = keyof VisitConditionInput;

// A condition has the fields that its kind needs: text and isUnknown for lists, picked for devices and days, and so on.
export type Condition = {
  key: number; kind: Kind; text: string; isUnknown: boolean; picked: string[]; value: string; from: string; to: string;
};
export type Target = { key: number; targetId?: string; name: string; url: string; share: string; maxClicks: string };
export type Rule = {
  key: number; ruleId?: string; name: string; enabled: boolean; when: Condition[]; unless: Condition[]; targets: Target[];
  stickiness: Stickiness;
};

export const noGate = { hasPassword: false, password: '', isOpened: false, notice: '', confirm: false };
export const noUtm = { source: '', medium: '', campaign: '', term: '', content: '' };
const noCard = { title: '', description: '', imageUrl: '', imageAlt: '' };

let lastKey = 0;
const newKey = () => ++lastKey; // of an element of a list, wherever it moves

export function newCondition(kind: Kind = 'country', key = newKey()): Condition {
  const empty = { key, kind, text: '', isUnknown: false, picked: [], value: kind === 'bot' ? 'yes' : '', from: '', to: '' };
  if (kind !== 'weekly') return empty;
  const workdays: Weekday[] = ['MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY'];
  return { ...empty, text: Intl.DateTimeFormat().resolvedOptions().timeZone, picked: workdays, from: '09:00', to: '17:00' };
}

export const newTarget = (): Target => ({ key: newKey(), name: '', url: '', share: '1', maxClicks: '' });
export const newRule = (): Rule => (
  { key: newKey(), name: '', enabled: true, when: [newCondition()], unless: [], targets: [newTarget()], stickiness: 'NONE' }
);

// ---- from the API

export type Draft = ReturnType<typeof draftOf>;
type Query = { mode: QueryForwardingMode; names: 'all' | 'only' | 'except'; text: string };

export function draftOf({ rules, query, forwardPath, utm, pendingUrl, endedUrl, card, gate, bots, qrSources }: RoutingFragment) {
  return {
    rules: rules.map((rule): Rule => ({
      key: newKey(), ruleId: rule.ruleId, name: rule.name ?? '', enabled: rule.enabled, stickiness: rule.stickiness,
      when: rule.when.map(conditionOf), unless: rule.unless.map(conditionOf),
      targets: rule.targets.map(({ targetId, name, url, share, maxClicks }) => ({
        key: newKey(), targetId, name: name ?? '', url: url ?? '', share: String(share), maxClicks: maxClicks?.toString() ?? '',
      })),
    })),
    query: {
      mode: query.mode, text: [...query.only, ...query.except].join(', '),
      names: query.only.length ? 'only' : query.except.length ? 'except' : 'all',
    } as Query,
    gate: { ...noGate, hasPassword: !!gate?.hasPassword, notice: gate?.notice ?? '', confirm: !!gate?.confirm },
    utm: textsOf(noUtm, utm), card: textsOf(noCard, card), pendingUrl: pendingUrl ?? '', endedUrl: endedUrl ?? '',
    forwardPath, bots, qrSources: qrSources.join(', '),
  };
}

// textsOf are the values of an object that a form edits.
function textsOf<T extends Record<string, string>>(empty: T, values: { [K in keyof T]?: string | null } | null | undefined): T {
  return Object.fromEntries(Object.keys(empty).map(name => [name, values?.[name] ?? ''])) as T;
}

export const utmOf = (utm: UtmValuesFragment | undefined) => textsOf(noUtm, utm);

function conditionOf({ query, during, weekly, bot, device, ...lists }: ConditionFragment): Condition {
  if (query) return { ...newCondition('query'), text: query.name, value: query.value ?? '' };
  if (during) return { ...newCondition('during'), from: localTime(during.from), to: localTime(during.to) };
  if (weekly) return { ...newCondition('weekly'), text: weekly.timezone, picked: weekly.days, from: weekly.from, to: weekly.to };
  if (typeof bot === 'boolean') return { ...newCondition('bot'), value: bot ? 'yes' : 'no' };
  if (device) return { ...newCondition('device'), picked: device };
  const [kind, list] = Object.entries(lists).find(([, value]) => Array.isArray(value)) as [Kind, string[]];
  return { ...newCondition(kind), text: list.filter(Boolean).join(', '), isUnknown: list.includes('') };
}

// ---- to the API

// inputOf are all parts of a routing. The API leaves the parts that are not sent as they are.
export function inputOf({ rules, query, utm, card, gate, pendingUrl, endedUrl, forwardPath, bots, qrSources }: Draft) {
  return {
    rules: rules.map(({ ruleId, name, enabled, stickiness, when, unless, targets }) => ({
      ruleId, name: name || null, enabled, stickiness, when: when.map(toCondition), unless: unless.map(toCondition),
      targets: targets.map(target => ({
        targetId: target.targetId, name: target.name || null, url: withScheme(target.url) || null,
        share: target.share ? Number(target.share) : 1, maxClicks: target.maxClicks ? Number(target.maxClicks) : null,
      })),
    })),
    query: { mode: query.mode, ...(query.mode !== 'OFF' && query.names !== 'all' && { [query.names]: listOf(query.text) }) },
    gate: toGate(gate), utm: toUtm(utm), forwardPath, bots, qrSources: listOf(qrSources),
    card: Object.values(card).some(Boolean) ? { ...given(card), title: card.title } : null,
    pendingUrl: withScheme(pendingUrl) || null, endedUrl: withScheme(endedUrl) || null,
  } satisfies LinkRoutingInput;
}

const given = (texts: Record<string, string>) => Object.fromEntries(Object.entries(texts).filter(([, text]) => text));

// toGate leaves out a password that stays.
export const toGate = ({ password, isOpened, notice, confirm }: typeof noGate) => (
  { ...(password ? { password } : isOpened ? { password: null } : {}), notice: notice || null, confirm }
);

export const toUtm = (utm: typeof noUtm): UtmInput | null => (Object.values(utm).some(Boolean) ? given(utm) : null);

function toCondition({ kind, text, isUnknown, picked, value, from, to }: Condition): VisitConditionInput {
  switch (kind) {
    case 'device': return { device: picked };
    case 'query': return { query: { name: text, value: value || null } };
    case 'during': return { during: { from: instantOf(from), to: instantOf(to) } };
    case 'weekly': return { weekly: { timezone: text, days: picked as Weekday[], from, to } };
    case 'bot': return { bot: value === 'yes' };
  }
  const list = [...listOf(kind === 'country' ? text.toUpperCase() : text), ...(isUnknown ? [''] : [])];
  return { [kind]: list } as unknown as VisitConditionInput; // TypeScript does not select a member of the union by a computed key
}
