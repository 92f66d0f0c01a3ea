// The dimensions that screens break clicks down by. Each is named like the field of ClickFilter that a choice of a value sets.
import type { ClickFilter } from '../gql/graphql';
import type { Slice } from './bars';

// unknown is the text of the empty value.
export const DIMENSIONS = {
  referrer: { title: 'Referrers', one: 'Referrer', unknown: 'Direct or unknown' },
  country: { title: 'Countries', one: 'Country', unknown: 'Unknown' },
  device: { title: 'Devices', one: 'Device', unknown: 'Unknown' },
  browser: { title: 'Browsers', one: 'Browser', unknown: 'Unknown' },
  os: { title: 'Systems', one: 'System', unknown: 'Unknown' },
  language: { title: 'Languages', one: 'Language', unknown: 'Unknown' },
  target: { title: 'Targets of the rules', one: 'Target', unknown: 'The destination' },
  qrSource: { title: 'QR codes', one: 'QR code', unknown: 'Not scanned' },
  utmSource: { title: 'UTM sources', one: 'UTM source', unknown: 'None' },
  utmCampaign: { title: 'Campaigns', one: 'Campaign', unknown: 'No campaign' },
} as const;

export type Dimension = keyof typeof DIMENSIONS;

export const ALL_DIMENSIONS = Object.keys(DIMENSIONS) as Dimension[];

export const BOTS = [['no', 'Without bots'], ['yes', 'Bots only']] as const;

const names = (type: 'region' | 'language') => new Intl.DisplayNames(undefined, { type, fallback: 'code' });
const regions = names('region'), languages = names('language');

// labelOf is a value as people know it.
export function labelOf(of: Dimension, value: string): string {
  if (value === '') return DIMENSIONS[of].unknown;
  if (of === 'country' && /^[A-Z]{2}$/i.test(value)) return regions.of(value.toUpperCase()) ?? value;
  if (of === 'language' && /^[a-z]{2,3}$/.test(value)) return languages.of(value) ?? value;
  return of === 'device' ? value[0]!.toUpperCase() + value.slice(1) : value;
}

type Counted = { value: string; isOther: boolean; clicks: number; label?: string | null };

export function slicesOf(of: Dimension, slices: Counted[]): Slice[] {
  return slices.map(slice => ({ ...slice, label: slice.isOther ? 'All others' : slice.label ?? labelOf(of, slice.value) }));
}

// clickFilterOf is what the query of an address selects; an empty text selects unknown values.
export function clickFilterOf(query: Record<string, string>): ClickFilter {
  const chosen = ALL_DIMENSIONS.filter(of => query[of] !== undefined);
  return {
    ...Object.fromEntries(chosen.map(of => [of, query[of]])),
    ...(query['bots'] !== undefined && { bots: query['bots'] === 'yes' }),
  };
}
