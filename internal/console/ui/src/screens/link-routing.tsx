// The parts of a routing beside its rules. Creating a link uses some of them.
import type { BotPolicy, QueryForwardingMode } from '../gql/graphql';
import { bind, Check, Choice, Text } from '../ui/form';
import type { LinkData } from './link';
import type { Offers } from './links';
import { type Draft, type noGate, type noUtm, utmOf } from './rule-draft';

const MODES: readonly (readonly [QueryForwardingMode, string])[] = [
  ['OFF', 'Are ignored'], ['ADD', 'Are added to the destination'], ['REPLACE', 'Replace those of the destination'],
];
const BOTS: readonly (readonly [BotPolicy, string])[] = [
  ['REDIRECT', 'Like people'], ['CONFIRM', 'With a page that has a button'], ['BLOCK', 'They are refused'],
];
const NAMES = [['all', 'All'], ['only', 'Only these'], ['except', 'All but these']] as const;

type SettingsProps = { values: Draft; set: <K extends keyof Draft>(name: K) => (value: Draft[K]) => void; offers: Offers; link: LinkData };

// Settings are closed as long as they are not used.
export function Settings({ values, set, offers, link }: SettingsProps) {
  const { gate, utm, query } = values;
  const field = <K extends keyof Draft>(name: K) => ({ path: `routing.${name}`, value: values[name], change: set(name) });
  const ofQuery = bind(query, set('query'), 'routing.query.'), ofCard = bind(values.card, set('card'), 'routing.card.');
  return (
    <div class="folds">
      <details open={gate.hasPassword || !!gate.notice || gate.confirm}>
        <summary>Before the redirect <small>password, notice</small></summary>
        <GateFields gate={gate} set={set('gate')} />
      </details>
      <details open={Object.values(utm).some(Boolean)}>
        <summary>UTM values <small>are added to the destination</small></summary>
        <UtmFields utm={utm} set={set('utm')} offers={offers} />
      </details>
      <details open={query.mode !== 'OFF' || values.forwardPath}>
        <summary>Parameters and path <small>of the short URL</small></summary>
        <Choice label="Parameters of the short URL" options={MODES} {...ofQuery('mode')} />
        {query.mode !== 'OFF' && <Choice label="Which" options={NAMES} {...ofQuery('names')} />}
        {query.mode !== 'OFF' && query.names !== 'all' && <Text label="Their names" placeholder="ref, lang" hint="Separated by commas."
          {...ofQuery('text')} path={`routing.query.${query.names}`} />}
        <Check label="Append the path after the code" hint={`So that ${link.code}/more leads to …/more`} {...field('forwardPath')} />
      </details>
      <details open={!!values.card.title}>
        <summary>Link preview <small>what chats and social networks show</small></summary>
        <Text label="Title" {...ofCard('title')} />
        <Text label="Description" {...ofCard('description')} />
        <Text label="Image" placeholder="https://" {...ofCard('imageUrl')} />
        {values.card.imageUrl && <Text label="What the image shows" {...ofCard('imageAlt')} />}
      </details>
      <details open={!!values.pendingUrl || !!values.endedUrl}>
        <summary>Before the start and after the end</summary>
        <Text label="Until it starts, go to" inputMode="url" placeholder="A page of this server" {...field('pendingUrl')} />
        <Text label="Once it has ended, go to" inputMode="url" placeholder="A page of this server" {...field('endedUrl')}
          hint="{code} and {host} stand for those of the link." />
      </details>
      <details open={values.bots !== 'REDIRECT' || !!values.qrSources}>
        <summary>Bots and QR codes</summary>
        <Choice label="Bots are redirected" options={BOTS} {...field('bots')} />
        <Text label="QR codes that are counted apart" placeholder="poster, flyer" hint="Separated by commas." {...field('qrSources')} />
      </details>
    </div>
  );
}

export function GateFields({ gate, set }: { gate: typeof noGate; set: (gate: typeof noGate) => void }) {
  const field = bind(gate, set, 'routing.gate.');
  return (
    <>
      {!gate.isOpened && <Text label="Password" type="password" autocomplete="new-password" {...field('password')}
        placeholder={gate.hasPassword ? 'One is set. Type another to replace it.' : 'None'} />}
      {gate.hasPassword && <Check label="Remove the password" {...field('isOpened')} />}
      <Text label="Notice" lines={2} hint="Is shown above a button." {...field('notice')} />
      <Check label="Confirmation page" hint="A button before the redirect, which keeps scanners from using up clicks." {...field('confirm')} />
    </>
  );
}

export function UtmFields({ utm, set, offers }: { utm: typeof noUtm; set: (utm: typeof noUtm) => void; offers: Offers }) {
  const field = bind(utm, set, 'routing.utm.'), templates = offers?.utmTemplates?.nodes ?? [];
  return (
    <div class="cells small">
      {templates.length > 0 && <Choice label="From a template" path="routing.utm.templateId" value=""
        options={[['', 'Choose…'], ...templates.map(({ id, name }) => [id, name] as const)]}
        change={id => set(utmOf(templates.find(template => template.id === id)?.utm))} />}
      <Text label="Source" placeholder="newsletter" {...field('source')} />
      <Text label="Medium" placeholder="email" {...field('medium')} />
      <Text label="Campaign" placeholder="spring" {...field('campaign')} />
      <Text label="Term" {...field('term')} />
      <Text label="Content" {...field('content')} />
    </div>
  );
}
