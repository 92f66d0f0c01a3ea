// Dashboard: the clicks of a workspace over time and by what is known of them, each filtering all others.
import { useQuery } from '@urql/preact';
import { useMemo } from 'preact/hooks';

import { usePlace } from '../app';
import { Area } from '../chart/area';
import { Bars } from '../chart/bars';
import { CountrySource } from '../chart/countries';
import { BOTS, clickFilterOf, DIMENSIONS, labelOf, slicesOf } from '../chart/dimensions';
import { Figure } from '../chart/figure';
import { formatOf, RangeChoice, rangeOf, timezone } from '../chart/range';
import { DashboardDocument, type DashboardQuery } from '../gql/graphql';
import { Count, Empty, formatCount, Missing, Time, Wait } from '../ui/kit';
import { Chip, Pick, useAddress } from '../ui/list';
import { shortText } from './first';

type Shown = NonNullable<DashboardQuery['workspace']>;

const BREAKDOWNS = ['referrer', 'country', 'device', 'browser', 'os', 'utmCampaign'] as const;

export function Dashboard() {
  const { workspace, base } = usePlace();
  const { query, change, route } = useAddress();
  const { tag, folder, bots } = query;
  const { range, interval, days } = rangeOf(query);
  const [{ data, error, fetching }, reload] = useQuery({ query: DashboardDocument, variables: {
    by: { id: workspace.id }, range, interval, timezone, filter: clickFilterOf(query), tag, folderId: folder,
  } });
  const format = useMemo(() => formatOf(interval), [interval]);
  const shown = data?.workspace, period = `${days} days before`, stats = shown?.stats;
  const filters = BREAKDOWNS.filter(of => query[of] !== undefined);
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
          {filters.map(of => (
            <Chip key={of} remove={() => change({ [of]: undefined })}>{DIMENSIONS[of].one}: {labelOf(of, query[of]!)}</Chip>
          ))}
        </div>
      )}
      <Wait part={stats} error={error} reload={reload} />
      {stats && (
        <div class={fetching ? 'stack stale' : 'stack'}>
          <dl class="figures">
            <Figure name="Clicks" now={stats.clicks} before={stats.previous?.clicks} period={period} />
            <Figure name="Visitors" now={stats.visitors} before={stats.previous?.visitors} period={period} />
            <Figure name="Clicks of bots" now={stats.bots} before={stats.previous?.bots} period={period} />
          </dl>
          {stats.series && (stats.clicks || stats.previous?.clicks
            ? <Area points={stats.series} before={stats.previous?.series ?? undefined} format={format} />
            : <Empty {...empty} />)}
          {stats.clicks > 0 && <>
            <div class="boards">
              <Bars title="Links" choose={id => route(`${base}/links/${id}`)} slices={(stats.links ?? []).map(({ link, ...slice }) => ({
                ...slice, label: slice.isOther ? 'All others' : link ? link.title || shortText(link.shortUrl) : 'A deleted link',
              }))} />
              {BREAKDOWNS.map(of => (
                <Bars key={of} title={DIMENSIONS[of].title} slices={slicesOf(of, stats[of] ?? [])} choose={value => change({ [of]: value })} />
              ))}
            </div>
            <CountrySource />
          </>}
        </div>
      )}
      {shown && <div class="two"><Unmatched requests={shown.unmatchedRequests} /><Month shown={shown} /></div>}
    </main>
  );
}

const ANSWERS: Record<number, string> = { 404: 'not found', 410: 'has ended', 429: 'over its limit' };

// Unmatched are short URLs that are requested in vain.
function Unmatched({ requests }: { requests: Shown['unmatchedRequests'] }) {
  return (
    <section class="section">
      <h2>Not found</h2>
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
