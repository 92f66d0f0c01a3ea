// The fields of one condition: its kind, and the values of that kind.
import { create } from './dom';
import { type Condition, type Kind, kindOf, listCondition, type ListKind, newCondition } from './draft';
import { checkbox, group, instant, localTime, type Path, selectField, splitList, textField } from './fields';
import type { QueryConditionInput, Weekday, WeeklyScheduleInput } from './gql/graphql';

const LISTS: Record<Exclude<ListKind, 'device'>, { label: string; placeholder: string }> = {
  country: { label: 'Countries', placeholder: 'DE, AT, CH' },
  os: { label: 'Systems', placeholder: 'iOS, Android' },
  browser: { label: 'Browsers', placeholder: 'Firefox, Safari' },
  language: { label: 'Languages', placeholder: 'de, pt-BR' },
  referrer: { label: 'Referring hosts', placeholder: 'example.com, .example.org' },
  network: { label: 'Networks', placeholder: '192.0.2.0/24, 2001:db8::/32' },
};

const KINDS: Record<Kind, string> = {
  country: 'Country',
  device: 'Device',
  os: 'Operating system',
  browser: 'Browser',
  language: 'Language',
  referrer: 'Referrer',
  query: 'Query parameter',
  weekly: 'Times of the week',
  during: 'Span of time',
  network: 'Network',
  bot: 'Bot',
};

const DEVICES = ['desktop', 'mobile', 'tablet', 'tv', 'console', 'other'];
const DAYS: Record<Weekday, string> = {
  MONDAY: 'Mon',
  TUESDAY: 'Tue',
  WEDNESDAY: 'Wed',
  THURSDAY: 'Thu',
  FRIDAY: 'Fri',
  SATURDAY: 'Sat',
  SUNDAY: 'Sun',
};

// Change replaces the condition. A change of its kind needs other fields.
type Change = (condition: Condition) => void;

export function kindField(condition: Condition, path: Path, set: Change) {
  const options = { label: 'Kind', path: [...path, 'kind'], value: kindOf(condition), choices: KINDS };
  return selectField(options, kind => set(newCondition(kind)));
}

// valueFields returns the fields for the values of a condition.
export function valueFields(condition: Condition, path: Path, set: Change): HTMLElement {
  const kind = kindOf(condition);
  const at = [...path, kind];
  if (condition.device) return deviceFields(condition.device, at, device => set({ device }));
  if (condition.query) return queryFields(condition.query, at, query => set({ query }));
  if (condition.weekly) return weeklyFields(condition.weekly, at, weekly => set({ weekly }));
  if (condition.during) return duringFields(condition.during, at, during => set({ during }));
  if (condition.bot !== undefined) {
    const choices = { true: 'Is a bot', false: 'Is not a bot' };
    const value = condition.bot ? 'true' : 'false';
    return selectField({ label: 'Visitor', path: at, value, choices }, chosen => set({ bot: chosen === 'true' }));
  }
  const list = kind as keyof typeof LISTS;
  return listFields(list, condition[list] ?? [], at, found => set(listCondition(list, found)));
}

// listFields edits values that are separated by commas. The empty value, which matches an unknown one, is a checkbox.
function listFields(kind: keyof typeof LISTS, list: string[], path: Path, set: (list: string[]) => void) {
  let named = list.filter(Boolean);
  let unknown = list.includes('');
  const change = () => set(unknown ? [...named, ''] : named);
  const text = textField({ ...LISTS[kind], path, hint: 'separated by commas', value: named.join(', ') }, typed => {
    named = splitList(kind === 'country' ? typed.toUpperCase() : typed);
    change();
  });
  if (kind === 'network') return text; // an address is compared only if it is known
  const box = checkbox('or unknown', unknown, checked => ((unknown = checked), change()));
  return create('div', { className: 'values' }, text, box);
}

function deviceFields(list: string[], path: Path, set: (list: string[]) => void) {
  const boxes = [...DEVICES, ''].map(device =>
    checkbox(device || 'unknown', list.includes(device), checked => {
      list = checked ? [...list, device] : list.filter(other => other !== device);
      set(list);
    }),
  );
  return group('Devices', path, ...boxes);
}

function queryFields(query: QueryConditionInput, path: Path, set: (query: QueryConditionInput) => void) {
  const change = (part: Partial<QueryConditionInput>) => set((query = { ...query, ...part }));
  const name = { label: 'Name', path: [...path, 'name'], value: query.name, placeholder: 'ref' };
  const value = { label: 'Value', path: [...path, 'value'], value: query.value ?? '', placeholder: 'any' };
  return group(
    'Query parameter',
    path,
    textField(name, typed => change({ name: typed })),
    textField(value, typed => change({ value: typed || null })),
  );
}

function weeklyFields(weekly: WeeklyScheduleInput, path: Path, set: (weekly: WeeklyScheduleInput) => void) {
  const change = (part: Partial<WeeklyScheduleInput>) => set((weekly = { ...weekly, ...part }));
  const days = Object.entries(DAYS).map(([day, label]) =>
    checkbox(label, weekly.days.includes(day as Weekday), checked => {
      const others = weekly.days.filter(other => other !== day);
      change({ days: checked ? [...others, day as Weekday] : others });
    }),
  );
  const from = { label: 'From', path: [...path, 'from'], value: weekly.from, placeholder: '09:00' };
  const to = { label: 'To', path: [...path, 'to'], value: weekly.to, placeholder: '17:00' };
  const zone = { label: 'Time zone', path: [...path, 'timezone'], value: weekly.timezone, list: 'time-zones' };
  return group(
    'Times of the week',
    path,
    textField(from, typed => change({ from: typed })),
    textField(to, typed => change({ to: typed })),
    textField(zone, typed => change({ timezone: typed })),
    group('Days', [...path, 'days'], ...days),
  );
}

type Period = { from?: string | null; to?: string | null };

function duringFields(during: Period, path: Path, set: (during: Period) => void) {
  const change = (part: Period) => set((during = { ...during, ...part }));
  const field = (label: string, name: 'from' | 'to') =>
    textField(
      { label, hint: 'local time', path: [...path, name], value: localTime(during[name]), type: 'datetime-local' },
      typed => change({ [name]: instant(typed) }),
    );
  return group('Span of time', path, field('From', 'from'), field('Until', 'to'));
}
