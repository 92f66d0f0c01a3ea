// The dimensions that screens break clicks down by, each with the field of ClickFilter that a choice of a value sets.
import type { ClickFilter } from '../gql/graphql';
import type { Slice } from './bars';

export type FilterField = 'referrer' | 'country' | 'device' | 'browser' | 'os' | 'utmCampaign';

// unknown is the text of the empty value.
export const DIMENSIONS = {
  referrers: { field: 'referrer', title: 'Referrers', one: 'Referrer', unknown: 'Direct or unknown' },
  countries: { field: 'country', title: 'Countries', one: 'Country', unknown: 'Unknown' },
  devices: { field: 'device', title: 'Devices', one: 'Device', unknown: 'Unknown' },
  browsers: { field: 'browser', title: 'Browsers', one: 'Browser', unknown: 'Unknown' },
  systems: { field: 'os', title: 'Systems', one: 'System', unknown: 'Unknown' },
  campaigns: { field: 'utmCampaign', title: 'Campaigns', one: 'Campaign', unknown: 'No campaign' },
} as const satisfies Record<string, { field: FilterField; title: string; one: string; unknown: string }>;

export type Breakdown = keyof typeof DIMENSIONS;

const countryNames = new Intl.DisplayNames(undefined, { type: 'region' });

// labelOf is a value as people know it.
export function labelOf(of: Breakdown, value: string): string {
  if (value === '') return DIMENSIONS[of].unknown;
  if (of === 'countries' && /^[A-Z]{2}$/i.test(value)) return countryNames.of(value.toUpperCase()) ?? value;
  return of === 'devices' ? value[0]!.toUpperCase() + value.slice(1) : value;
}

export function slicesOf(of: Breakdown, slices: { value: string; isOther: boolean; clicks: number }[]): Slice[] {
  return slices.map(slice => ({ ...slice, label: slice.isOther ? 'All others' : labelOf(of, slice.value) }));
}

// clickFilterOf is what the query of an address selects; an empty text selects unknown values.
export function clickFilterOf(query: Record<string, string>): ClickFilter {
  const chosen = Object.values(DIMENSIONS).filter(({ field }) => query[field] !== undefined);
  return {
    ...Object.fromEntries(chosen.map(({ field }) => [field, query[field]])),
    ...(query['bots'] !== undefined && { bots: query['bots'] === 'yes' }),
  };
}
