// The routing as it is edited, tried on the clicks that came: bars of the clicks that would go elsewhere.
import type { CombinedError } from '@urql/core';
import { useEffect, useState } from 'preact/hooks';

import { client } from '../api';
import { type LinkRoutingInput, SimulateRoutingDocument, type SimulateRoutingQuery } from '../gql/graphql';
import { formatCount } from '../ui/kit';
import { middleCut } from '../ui/url';
import type { LinkData } from './link';
import { describe } from './link-visit';

type Simulation = NonNullable<SimulateRoutingQuery['simulateRouting']>;
type Flow = NonNullable<Simulation['flows']>[number];
type Answer = { simulation?: Simulation | null; error?: CombinedError };

const MOST_OF_URL = 60;

// TryClicks drops an answer to an earlier state of the routing.
export function TryClicks({ link, routing }: { link: LinkData; routing: LinkRoutingInput }) {
  const [asked, setAsked] = useState('');
  const [answer, setAnswer] = useState<Answer | null>(null);
  const state = JSON.stringify([routing, link.updatedAt]);
  useEffect(() => setAnswer(null), [state]);
  useEffect(() => {
    if (asked !== state) return;
    const answered = client.query(SimulateRoutingDocument, { id: link.id, routing }, { requestPolicy: 'network-only' });
    return answered.subscribe(({ data, error }) => (setAnswer({ simulation: data?.simulateRouting, error }), setAsked(''))).unsubscribe;
  }, [asked, state]);
  return (
    <section class="try bars" aria-label="Try on clicks">
      <button class="button" type="button" disabled={asked === state} onClick={() => setAsked(state)}>Try on the last 30 days</button>
      <div role="status">
        {answer?.error && <p class="soft">{describe(answer.error)}</p>}
        {answer?.simulation && <Flows {...answer.simulation} />}
        {!answer && <p class="soft">{asked === state ? '…' : 'Shows which of the clicks that came would have gone elsewhere.'}</p>}
      </div>
    </section>
  );
}

function Flows({ visits, moved, unknown, unknownBecause, since, flows }: Simulation) {
  const shown = (flows ?? []).filter(({ from, to }) => from.url !== to.url), most = shown[0]?.visits ?? 1;
  return (
    <>
      <p>
        <strong>{formatCount(moved)}</strong> of {formatCount(visits)} clicks would go elsewhere
        {unknown > 0 && `, and of ${formatCount(unknown)} it is not known`}{since && `, of the newest since ${new Date(since).toLocaleDateString()}`}.
      </p>
      <ul>
        {shown.map(({ from, to, visits: n }, i) => (
          <li key={i}>
            <div>
              <span class="bar" style={{ width: `${(n / most) * 100}%` }} />
              <span class="grow broken"><bdi>{nameOf(from)}</bdi> → <bdi>{nameOf(to)}</bdi></span><span>{formatCount(n)}</span>
            </div>
          </li>
        ))}
      </ul>
      {unknownBecause.map(reason => <p class="soft" key={reason}>{reason}</p>)}
    </>
  );
}

const nameOf = ({ ruleName, url }: Flow['from']) => (
  [ruleName, url ? middleCut(url.replace(/^https?:\/\//, ''), MOST_OF_URL) : 'a removed target'].filter(Boolean).join(': ')
);
