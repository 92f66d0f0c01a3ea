// The clicks of a link: over time, by what is known of them, and as they come. Each bar filters everything else.
import { useEffect, useRef, useState } from 'preact/hooks';

import { client, codesOf } from '../api';
import { usePlace } from '../app';
import { Area } from '../chart/area';
import { Bars } from '../chart/bars';
import { CountrySource } from '../chart/countries';
import { ALL_DIMENSIONS, BOTS, type Dimension, DIMENSIONS, labelOf, slicesOf } from '../chart/dimensions';
import { Figure } from '../chart/figure';
import { formatOf, RangeChoice, rangeOf } from '../chart/range';
import { LinkClickedDocument, type LiveClickFragment } from '../gql/graphql';
import { Badge, Bones, Missing, Time } from '../ui/kit';
import { Chip, Pick, useAddress } from '../ui/list';
import type { LinkData } from './link';

// RARE are left out where they say nothing.
const RARE: Dimension[] = ['language', 'target', 'qrSource', 'utmSource', 'utmCampaign'];

export function Clicks({ link, refresh }: { link: LinkData; refresh: () => void }) {
  const { stats } = link;
  const { query, change } = useAddress();
  if (stats === undefined) return <Bones />;
  const { interval, days } = rangeOf(query), period = `${days} days before`;
  const chips = ALL_DIMENSIONS.filter(of => query[of] !== undefined);
  return (
    <>
      <div class="row wrap">
        <RangeChoice query={query} change={change} />
        <Pick label="People and bots" name="bots" options={BOTS} />
        {chips.map(of => (
          <Chip key={of} remove={() => change({ [of]: undefined })}>
            {stats?.[of]?.find(({ value }) => value === query[of])?.label ?? labelOf(of, query[of]!)}
          </Chip>
        ))}
      </div>
      {!stats ? <Missing what="The statistics" /> : (
        <>
          <dl class="figures">
            <Figure name="Clicks" now={stats.clicks} before={stats.previous?.clicks} period={period} />
            <Figure name="Visitors" now={stats.visitors} before={stats.previous?.visitors} period={period} />
            <Figure name="Clicks of bots" now={stats.bots} before={stats.previous?.bots} period={period} />
          </dl>
          {stats.series && (stats.clicks || stats.previous?.clicks
            ? <Area points={stats.series} before={stats.previous?.series ?? undefined} format={formatOf(interval)} />
            : <p class="quiet">No clicks yet in this period.</p>)}
          <div class="cells bars-of-all">
            {ALL_DIMENSIONS.map(of => {
              const slices = slicesOf(of, stats[of]?.filter(slice => slice.clicks > 0) ?? []);
              if (slices.length === 0 || RARE.includes(of) && !slices.some(({ value, isOther }) => value || isOther)) return null;
              return <Bars key={of} title={DIMENSIONS[of].title} slices={slices}
                choose={value => change({ [of]: query[of] === value ? undefined : value })} />;
            })}
          </div>
          {stats.clicks > 0 && <CountrySource />}
        </>
      )}
      <Live link={link} isFiltered={chips.length > 0 || !!query['bots']} refresh={refresh} />
    </>
  );
}

// ---- live

const SHOWN = 10, SETTLED_MS = 1500, REFRESH_MS = 10_000;

// Live lists the clicks as they come, and has the statistics loaded again some time after one.
function Live({ link, isFiltered, refresh }: { link: LinkData; isFiltered: boolean; refresh: () => void }) {
  const [heard, setHeard] = useState<LiveClickFragment[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined), last = useRef(0);
  const latest = useRef(refresh); // of the query as it is now
  latest.current = refresh;
  const { workspace } = usePlace();
  useEffect(() => {
    const refreshSoon = () => {
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        last.current = Date.now();
        latest.current();
      }, Math.max(SETTLED_MS, last.current + REFRESH_MS - Date.now()));
    };
    const end = watch(workspace.id, link.id, click => {
      setHeard(all => [click, ...all].slice(0, SHOWN));
      refreshSoon();
    }, refreshSoon);
    return () => (clearTimeout(timer.current), end());
  }, [link.id]);
  const stored = link.clicks?.nodes ?? [];
  const known = new Set(stored.map(click => click.id));
  const shown = isFiltered ? stored : [...heard.filter(click => !known.has(click.id)), ...stored].slice(0, SHOWN);
  return (
    <section class="section">
      <h2 class="row">Last clicks {!isFiltered && <Badge kind="good">live</Badge>}</h2>
      {shown.length === 0 && <p class="soft">{isFiltered ? 'None match.' : 'Open the short URL: its click appears here.'}</p>}
      <ul class="rows">
        {shown.map(({ id, at, country, device, browser, os, referrer, bot, qrSource }) => (
          <li class="row" key={id}>
            <span class="cut grow">
              {[country && labelOf('country', country), [browser, os].filter(Boolean).join(' on ') || device || 'Unknown visitor']
                .filter(Boolean).join(', ')}
              <span class="soft">{referrer && ` from ${referrer}`}{qrSource && ` by QR code ${qrSource}`}</span>
            </span>
            {bot && <Badge>bot</Badge>}
            <small><Time at={at} /></small>
          </li>
        ))}
      </ul>
    </section>
  );
}

// watch calls heard with each click of a link once, across lost connections: it resumes after the last one. When none has come
// yet, or the server does not know it any more, clicks may be missing, and missed is called. What watch returns ends it.
function watch(workspaceId: string, linkId: string, heard: (click: LiveClickFragment) => void, missed: () => void): () => void {
  let after: string | undefined, pause = 1000, isOver = false;
  let waiting: ReturnType<typeof setTimeout>, leave = () => {};
  const subscribe = () => {
    leave = client.subscription(LinkClickedDocument, { workspaceId, linkId, after }).subscribe(({ data, error }) => {
      if (data) {
        after = data.linkClicked.id;
        pause = 1000;
        heard(data.linkClicked);
      }
      if (error && !isOver) again(codesOf(error));
    }).unsubscribe;
  };
  const again = (codes: string[]) => {
    leave();
    if (codes.includes('FORBIDDEN') || codes.includes('NOT_FOUND')) return;
    if (codes.includes('EXPIRED')) after = undefined;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const hasGap = after === undefined;
      subscribe();
      if (hasGap) missed();
    }, pause);
    pause = Math.min(2 * pause, 30_000);
  };
  subscribe();
  return () => ((isOver = true), clearTimeout(waiting), leave());
}
