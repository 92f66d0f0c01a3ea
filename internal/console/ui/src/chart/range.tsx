// The range of time of a dashboard, in whole days of the viewer's zone, as the address has it.
import type { Interval, TimeRange } from '../gql/graphql';
import { DateField, dateOf, dayStart, Segments, type useAddress } from '../ui/list';

const DEFAULT_DAYS = 30, MOST_DAYS = 3650, MAX_DAYS_OF_HOURS = 2, MAX_DAYS_OF_DAYS = 180;

export const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export type Chosen = { range: TimeRange; interval: Interval; days: number };

export function rangeOf({ days: length, from: first, to: last }: Record<string, string>): Chosen {
  const today = dateOf(new Date());
  const to = dayStart(first && last || today, 1);
  const from = first ? dayStart(first, 0) : dayStart(today, 1 - Math.min(Math.max(Number(length) || DEFAULT_DAYS, 1), MOST_DAYS));
  const days = Math.round((Date.parse(to) - Date.parse(from)) / 86_400_000);
  return { range: { from, to }, days, interval: days <= MAX_DAYS_OF_HOURS ? 'HOUR' : days <= MAX_DAYS_OF_DAYS ? 'DAY' : 'WEEK' };
}

// formatOf says how the begin of an interval reads.
export function formatOf(interval: Interval): (start: string) => string {
  const format = new Intl.DateTimeFormat(undefined, interval === 'HOUR'
    ? { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }
    : { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' });
  return start => format.format(Date.parse(start));
}

export function RangeChoice({ query, change }: Pick<ReturnType<typeof useAddress>, 'query' | 'change'>) {
  const { days, from } = query;
  const choose = (next: string) => change(next === 'custom'
    ? { days: undefined, from: dateOf(new Date(rangeOf(query).range.from)), to: dateOf(new Date()) }
    : { days: next, from: undefined, to: undefined });
  return (
    <>
      <Segments label="Range" value={from ? 'custom' : days ?? String(DEFAULT_DAYS)} change={choose}
        options={[['1', 'Today'], ['7', '7 days'], ['30', '30 days'], ['90', '90 days'], ['365', 'Year'], ['custom', 'Custom']]} />
      {from && <span class="row wrap"><DateField label="From" name="from" /><DateField label="To" name="to" /></span>}
    </>
  );
}
