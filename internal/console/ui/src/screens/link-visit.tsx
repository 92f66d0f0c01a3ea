// A visit to try: what a link would answer to it, with the routing as it is edited.
import type { CombinedError } from '@urql/core';
import { useEffect, useState } from 'preact/hooks';

import { client } from '../api';
import { ExplainRedirectDocument, type ExplainRedirectQuery, type LinkRoutingInput, type RedirectReason } from '../gql/graphql';
import { bind, Choice, instantOf, messageOf, Text } from '../ui/form';
import { middleCut } from '../ui/url';
import type { LinkData } from './link';

export type Explanation = NonNullable<ExplainRedirectQuery['explainRedirect']>;

const PAUSE_MS = 300;
const BLINK = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0';

// AGENTS are values of the User-Agent header and the names that people know.
const AGENTS: readonly (readonly [string, string])[] = [
  ['', 'Some browser'],
  ['Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/604.1', 'iPhone'],
  [`Mozilla/5.0 (Linux; Android 14; Pixel 8) ${BLINK} Mobile Safari/537.36`, 'Android phone'],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${BLINK} Safari/537.36`, 'Windows'],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0', 'Linux'],
  ['Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)', 'Search engine'],
  ['Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)', 'Preview in a chat'],
];

const REASONS: Record<RedirectReason, string> = {
  URL: 'No rule matches: the link’s destination.', RULE: 'A rule matches.', PENDING: 'The link has not started.',
  EXPIRED: 'The link has ended.', EXHAUSTED: 'All of its clicks are used up.', OVER_QUOTA: 'The quota of the month is used up.',
  CARD: 'A preview is shown the card.', GATE: 'The visitor is asked first.', BOT: 'A bot is held back.', DELETED: 'The link is deleted.',
  PATH: 'This path is not accepted.', DISABLED: 'The operator has disabled it.', WORKSPACE_DELETED: 'The workspace is deleted.',
};

const NOTHING = { userAgent: '', country: '', acceptLanguage: '', referrer: '', query: '', path: '', address: '', at: '' };

// isAsked tells that visitors pass a gate first.
type TryVisitProps = { link: LinkData; routing?: LinkRoutingInput; isAsked: boolean; tell: (explanation: Explanation | null) => void };

export function TryVisit({ link, routing, isAsked, tell }: TryVisitProps) {
  const [visit, setVisit] = useState(NOTHING);
  const { explanation, error } = useExplanation(link, visit, routing);
  const field = bind(visit, setVisit);
  useEffect(() => tell(explanation), [explanation]);
  return (
    <section class="try" aria-label="Try a visit">
      <div class="cells small">
        <Choice label="Try a visit with" options={AGENTS} {...field('userAgent')} />
        <Text label="Country" placeholder="unknown" {...field('country')} />
        <Text label="Language" placeholder="unknown" {...field('acceptLanguage')} />
        <Text label="Referrer" placeholder="https://" {...field('referrer')} />
      </div>
      <details>
        <summary>Time, parameters, path, address</summary>
        <div class="cells small">
          <Text label="Time" type="datetime-local" {...field('at')} />
          <Text label="Parameters" placeholder="ref=mail" {...field('query')} />
          <Text label="Path" placeholder="/more" {...field('path')} />
          <Text label="Address" placeholder="192.0.2.1" {...field('address')} />
        </div>
      </details>
      <div role="status">{explanation ? <>{isAsked && explanation.location && <p>After the password, notice or button:</p>}<Answer explanation={explanation} /></> : <p class="soft">{error ? describe(error) : '…'}</p>}</div>
    </section>
  );
}

function Answer({ explanation }: { explanation: Explanation }) {
  const { status, location, reason, ruleIndex, targetIndex, candidates, steps, visit } = explanation;
  const { country, device, os, browser, language, referrer, bot } = visit;
  const drawn = candidates.length > 1 ? `, one of ${candidates.length} that are drawn` : '';
  return (
    <>
      <p class="row">
        <strong class="cut" title={location ?? ''}>{location ? `→ ${middleCut(location, 80)}` : 'A page of this server'}</strong>
        <small>{status}</small>
      </p>
      <p>{ruleIndex === null ? REASONS[reason] : `Rule ${ruleIndex! + 1} matches, target ${(targetIndex ?? 0) + 1}${drawn}.`}</p>
      <details>
        <summary>Why</summary>
        <p class="soft">
          Rules see: {Object.entries({ country, device, system: os, browser, language, referrer }).map(([name, value]) =>
            `${name} ${value || 'unknown'}`).join(', ')}{bot && ', a bot'}.
        </p>
        <ol>
          {steps.map(({ step, outcome, ruleIndex: i, detail }, n) => (
            <li class={outcome === 'SKIPPED' ? 'soft' : undefined} key={n}>
              <strong>{step.charAt(0) + step.slice(1).toLowerCase()}{typeof i === 'number' && ` ${i + 1}`}</strong> {detail}
            </li>
          ))}
        </ol>
      </details>
    </>
  );
}

// useExplanation is the answer to a visit, once edits pause. An answer to an earlier state is dropped.
function useExplanation(link: LinkData, { at, country, path, query, ...others }: typeof NOTHING, routing: LinkRoutingInput | undefined) {
  const [answer, setAnswer] = useState<{ explanation: Explanation | null; error?: CombinedError }>({ explanation: null });
  const visit = Object.fromEntries(Object.entries({
    ...others, at: instantOf(at), country: country.toUpperCase(), query: query.replace(/^\?/, ''), path: path.replace(/^(?=[^/])/, '/'),
  }).filter(([, value]) => value));
  useEffect(() => {
    let end = () => {};
    const timer = setTimeout(() => {
      const asked = client.query(ExplainRedirectDocument, { id: link.id, visit, routing }, { requestPolicy: 'network-only' });
      end = asked.subscribe(({ data, error }) => setAnswer({ explanation: data?.explainRedirect ?? null, error })).unsubscribe;
    }, PAUSE_MS);
    return () => (clearTimeout(timer), end());
  }, [JSON.stringify([visit, routing, link.updatedAt])]);
  return answer;
}

// describe names the part of the routing or of the visit that the server refuses.
export function describe(error: CombinedError): string {
  const field = error.graphQLErrors[0]?.extensions['field'] as string[] | undefined;
  return [describePath(field?.slice(1) ?? []), messageOf(error)].filter(Boolean).join(': ');
}

// describePath is a path of the routing as people count: rule 2, target 1, url.
export function describePath(path: string[]): string {
  return path.map(part => (/^\d+$/.test(part) ? ` ${Number(part) + 1}` : `, ${part.replace(/^(rule|target)s$/, '$1')}`)).join('').slice(2);
}
