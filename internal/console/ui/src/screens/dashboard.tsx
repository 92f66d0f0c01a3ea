// Dashboard: the clicks of a workspace over time and by what is known of them, each filtering all others.
import { useQuery } from '@urql/preact';
import { useMemo } from 'preact/hooks';

import { usePlace } from '../app';
import { Area } from '../chart/area';
import { Bars } from '../chart/bars';
import { type Breakdown, clickFilterOf, DIMENSIONS, labelOf, slicesOf } from '../chart/dimensions';
import { formatOf, RangeChoice, rangeOf, timezone } from '../chart/range';
import { DashboardDocument, type DashboardQuery } from '../gql/graphql';
import { Count, Empty, formatCount, Missing, Time, Wait } from '../ui/kit';
import { Chip, Pick, useAddress } from '../ui/list';
import { shortText } from './first';

type Shown = NonNullable<DashboardQuery['workspace']>;

const BREAKDOWNS = Object.keys(DIMENSIONS) as Breakdown[];
const BOTS = [['no', 'Without bots'], ['yes', 'Bots only']] as const;

export function Dashboard() {
  const { workspace, base } = usePlace();
  const { query, change, route } = useAddress();
  const { tag, folder, bots } = query;
  const { range, interval, days } = rangeOf(query);
  const [{ data, error, fetching }, reload] = useQuery({ query: DashboardDocument, variables: {
    by: { id: workspace.id }, range, interval, timezone, filter: clickFilterOf(query), tag, folderId: folder,
  } });
  const format = useMemo(() => formatOf(interval), [interval]);
  const shown = data?.workspace, stats = shown?.stats;
  const filters = BREAKDOWNS.filter(of => query[DIMENSIONS[of].field] !== undefined);
  const empty = filters.length > 0 || (tag ?? folder ?? bots) !== undefined
    ? { title: 'No clicks match', text: 'Remove a part of the filter, or choose a longer range.' }
    : { title: 'No clicks yet', text: 'Share a short URL: its clicks show here within seconds.' };
  return (
    <main>
      <header>
        <h1>Dashboard</h1>
        <div class="row wrap end">
          <Pick label="All tags" name="tag" options={shown?.tags?.nodes.map(({ name }) => [name, name])} />
          <Pick label="All folders" name="folder" options={shown?.folders?.nodes.map(({ id, name }) => [id, name])} />
          <Pick label="People and bots" name="bots" options={BOTS} />
          <RangeChoice query={query} change={change} />
        </div>
      </header>
      {filters.length > 0 && (
        <div class="row wrap">
          {filters.map(of => {
            const { field, one } = DIMENSIONS[of];
            return <Chip key={of} remove={() => change({ [field]: undefined })}>{one}: {labelOf(of, query[field]!)}</Chip>;
          })}
        </div>
      )}
      <Wait part={stats} error={error} reload={reload} />
      {stats && (
        <div class={fetching ? 'stack stale' : 'stack'}>
          <dl class="figures">
            <Figure name="Clicks" now={stats.clicks} before={stats.previous?.clicks} days={days} />
            <Figure name="Visitors" now={stats.visitors} before={stats.previous?.visitors} days={days} />
            <Figure name="Clicks of bots" now={stats.bots} before={stats.previous?.bots} days={days} />
          </dl>
          {stats.series && (stats.clicks || stats.previous?.clicks
            ? <Area points={stats.series} before={stats.previous?.series ?? undefined} format={format} />
            : <Empty {...empty} />)}
          {stats.clicks > 0 && (
            <div class="boards">
              <Bars title="Links" choose={id => route(`${base}/links/${id}`)} slices={(stats.links ?? []).map(({ link, ...slice }) => ({
                ...slice, label: slice.isOther ? 'All others' : link ? link.title || shortText(link.shortUrl) : 'A deleted link',
              }))} />
              {BREAKDOWNS.map(of => {
                const { title, field } = DIMENSIONS[of];
                return <Bars key={of} title={title} slices={slicesOf(of, stats[of] ?? [])} choose={value => change({ [field]: value })} />;
              })}
            </div>
          )}
        </div>
      )}
      {shown && <div class="two"><Unmatched requests={shown.unmatchedRequests} /><Month shown={shown} /></div>}
    </main>
  );
}

const percents = new Intl.NumberFormat(undefined, { style: 'percent', signDisplay: 'exceptZero', maximumFractionDigits: 0 });

function Figure({ name, now, before, days }: { name: string; now: number; before?: number; days: number }) {
  const difference = !!before && (
    <small title={`${formatCount(before)} in the ${days} days before`}>{percents.format(now / before - 1)}</small>
  );
  return <div><dt>{name}</dt><dd><Count n={now} /> {difference}</dd></div>;
}

const ANSWERS: Record<number, string> = { 404: 'not found', 410: 'has ended', 429: 'over its limit' };

// Unmatched are short URLs that are requested in vain.
function Unmatched({ requests }: { requests: Shown['unmatchedRequests'] }) {
  return (
    <section class="section">
      <h2>Requests without a link</h2>
      {!requests && <Missing what="They" />}
      {requests?.length === 0 && <p class="soft">Every short URL that was requested in the last 90 days has led somewhere.</p>}
      <ul class="items">
        {requests?.map(({ status, code, requests: n, lastAt }) => (
          <li class="item" key={`${status} ${code}`}>
            <span class="mono cut grow">{code ?? 'other codes'}</span>
            <small>{ANSWERS[status] ?? status}</small><small><Time at={lastAt} /></small><span class="number"><Count n={n} /></span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'long', timeZone: 'UTC' });

// Month is how much of the quota of new links is used.
function Month({ shown: { linkQuota, hitLimit } }: { shown: Shown }) {
  if (!linkQuota) return <section class="section"><h2>This month</h2><Missing what="The quota" /></section>;
  const { limit, used, resetsAt } = linkQuota;
  return (
    <section class="section">
      <h2>This month</h2>
      <p class="row"><span class="grow">New links</span>{formatCount(used)} of {formatCount(limit)}</p>
      <meter class="meter" aria-label="Quota of new links" max={limit} value={used} high={limit * 0.9} />
      <small>Starts again on {day.format(Date.parse(resetsAt))}. Each link may redirect {formatCount(hitLimit)} times a month.</small>
    </section>
  );
}
