// The rules tab: who is redirected where, with a visit to try them on before they are saved.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';

import { usePlace } from '../app';
import type { RoutingFragment, Stickiness } from '../gql/graphql';
import { bind, Choice, Form, Text } from '../ui/form';
import { Badge, Facts } from '../ui/kit';
import { Icon, type IconName } from '../ui/icon';
import type { LinkData } from './link';
import { pick, useLinkDraft } from './link-draft';
import { Plan } from './link-history';
import { Settings } from './link-routing';
import { TryClicks } from './link-simulation';
import { describePath, type Explanation, TryVisit } from './link-visit';
import type { Offers } from './links';
import { type Condition, type Draft, draftOf, inputOf, type Kind, newCondition, newRule, newTarget, type Rule, type Target } from './rule-draft';

const STICKINESS: readonly (readonly [Stickiness, string])[] = [
  ['NONE', 'Each visit draws a target'], ['VISITOR', 'The same visitor gets the same target'], ['COOKIE', 'A cookie remembers the target'],
];

const FIRST_DECIDES = 'The first matching rule applies. Without one, visitors get to the link’s destination.';

type RulesProps = { link: LinkData; routing: RoutingFragment; offers: Offers; reload: () => void };

export function Rules({ link, routing, offers, reload }: RulesProps) {
  const { may } = usePlace();
  const fresh = useMemo(() => draftOf(routing), [link.updatedAt]);
  const { values, set, changed, save, reset, footer } = useLinkDraft('rules', link, fresh, reload);
  const [explanation, setExplanation] = useState<Explanation | null>(null);
  const [isPlanned, setPlanned] = useState(false);
  const unsaved = pick(inputOf(values), changed);
  const isWriter = may('LINKS_WRITE') && link.status !== 'DELETED';
  const list = edits(values.rules, set('rules'));
  const { gate } = values, isAsked = gate.hasPassword && !gate.isOpened || !!gate.password || !!gate.notice || gate.confirm;
  if (!isWriter) return <><TryVisit link={link} isAsked={isAsked} tell={setExplanation} /><RoutingText draft={values} /></>;
  return (
    <>
      {routing.warnings?.map(({ message, field }) => (
        <p class="notice" key={field.join()}><span class="soft">{describePath(field)}</span>{message}</p>
      ))}
      <TryVisit link={link} routing={changed.length > 0 ? unsaved : undefined} isAsked={isAsked} tell={setExplanation} />
      {changed.length > 0 && <TryClicks link={link} routing={unsaved} />}
      <Form action="Save" submit={() => save({ routing: unsaved })} {...footer}>
        <section class="section">
          <div class="row">
            <h2 class="grow">Rules</h2>
            <button class="button" type="button" onClick={() => list.add(newRule())}><Icon name="plus" />Add rule</button>
          </div>
          <p class="soft">{FIRST_DECIDES}</p>
          <ol>
            {values.rules.map((rule, i) => (
              <RuleItem key={rule.key} rule={rule} i={i} url={link.originalUrl} explanation={explanation} set={list.setter(i)}>
                <Small icon="up" label={`Move rule ${i + 1} up`} act={() => list.move(i, i - 1)} disabled={i === 0} />
                <Small icon="down" label={`Move rule ${i + 1} down`} act={() => list.move(i, i + 1)} disabled={!values.rules[i + 1]} />
                <Small icon="close" label={`Remove rule ${i + 1}`} act={() => list.remove(i)} />
              </RuleItem>
            ))}
          </ol>
        </section>
        <Settings values={values} set={set} offers={offers} link={link} />
        {changed.length > 0 && <button class="button" type="button" onClick={() => setPlanned(true)}>Plan this change for later…</button>}
      </Form>
      {isPlanned && <Plan link={link} routing={unsaved} done={reset} close={() => setPlanned(false)} />}
    </>
  );
}

// RoutingText is the routing as those read it who cannot edit it.
function RoutingText({ draft: { rules, gate, utm, card, pendingUrl, endedUrl } }: { draft: Draft }) {
  const listed = (conditions: Condition[], word: string) => conditions.map(textOf).join(` ${word} `);
  return (
    <section class="section">
      <h2>Rules</h2>
      <p class="soft">{FIRST_DECIDES}</p>
      <ol class="rows">
        {rules.map(({ key, name, enabled, when, unless, targets }, i) => (
          <li key={key}>
            <p class="row"><strong class="cut">{name || `Rule ${i + 1}`}</strong>{!enabled && <Badge>off</Badge>}</p>
            <p>{listed(when, 'and') || 'Always'}{unless.length > 0 && `, unless ${listed(unless, 'or')}`}</p>
            {targets.map(target => (
              <p class="soft broken" key={target.key}>→ {target.url || 'the destination'}{targets.length > 1 && ` (share ${target.share})`}</p>
            ))}
          </li>
        ))}
      </ol>
      <Facts facts={[
        ['Before the redirect', [gate.hasPassword && 'a password', gate.notice, gate.confirm && 'a button'].filter(Boolean).join(', ')],
        ['UTM values', Object.values(utm).filter(Boolean).join(', ')], ['Link preview', card.title],
        ['Until it starts', pendingUrl], ['Once it has ended', endedUrl],
      ]} />
    </section>
  );
}

// textOf is a condition in words.
function textOf({ kind, text, isUnknown, picked, value, from, to }: Condition): string {
  const name = KINDS.find(([known]) => known === kind)![1], days = picked.map(day => DAYS[day as keyof typeof DAYS]).join(', ');
  switch (kind) {
    case 'bot': return value === 'yes' ? 'a bot' : 'no bot';
    case 'query': return `${name} ${text}${value && ` = ${value}`}`;
    case 'during': return `${name} ${from} to ${to}`;
    case 'weekly': return `${days} ${from} to ${to} (${text})`;
  }
  const values = kind === 'device' ? picked.map(one => DEVICES[one as keyof typeof DEVICES]).join(', ') : text;
  return `${name} ${[values, isUnknown && 'unknown'].filter(Boolean).join(', ')}`;
}

// edits are those of a list that is not changed in place.
const edits = <T,>(list: T[], set: (list: T[]) => void) => ({
  add: (one: T) => set([...list, one]),
  remove: (at: number) => set(list.toSpliced(at, 1)),
  move: (from: number, to: number) => set(list.toSpliced(from, 1).toSpliced(to, 0, list[from]!)),
  setter: (at: number) => (one: T) => set(list.with(at, one)),
});

// Small is a button of an element of a list. The focus stays on it when the element moves.
function Small({ icon, label, act, disabled }: { icon: IconName; label: string; act: () => void; disabled?: boolean }) {
  const press = ({ currentTarget }: { currentTarget: HTMLButtonElement }) => (act(), void setTimeout(() => currentTarget.focus()));
  return (
    <button class="button plain icon" type="button" aria-label={label} title={label} onClick={press} disabled={disabled}>
      <Icon name={icon} />
    </button>
  );
}

const Tick = ({ label, value, change }: { label: string; value: boolean; change: (value: boolean) => void }) => (
  <label class="check"><input type="checkbox" checked={value} onChange={event => change(event.currentTarget.checked)} />{label}</label>
);

// Part is a list within a rule, with a button for another element.
const Part = ({ title, what, add, children }: { title: string; what: string; add: () => void; children: ComponentChildren }) => (
  <div class="part" role="group" aria-label={title}>
    <div class="row">
      <span class="soft grow">{title}</span>
      <button class="button plain small" type="button" onClick={add}><Icon name="plus" />{what}</button>
    </div>
    {children}
  </div>
);

type RuleProps = {
  rule: Rule; i: number; url: string; set: (rule: Rule) => void; explanation: Explanation | null; children: ComponentChildren;
};

function RuleItem({ rule, i, url, set, explanation, children }: RuleProps) {
  const path = `routing.rules.${i}.`, field = bind(rule, set, path), targets = edits(rule.targets, field('targets').change);
  const decides = explanation?.ruleIndex === i;
  const steps = explanation?.steps.filter(step => step.ruleIndex === i && step.step === 'RULE') ?? [];
  const isOne = rule.targets.length === 1;
  const failing = steps.find(step => step.outcome === 'SKIPPED')?.conditionIndex ?? -1;
  return (
    <li class={decides ? 'rule decides' : rule.enabled ? 'rule' : 'rule off'} aria-label={`Rule ${i + 1}`}>
      <div class="row tight">
        <span class="soft">{i + 1}</span>
        <div class="grow"><Text label={`Name of rule ${i + 1}`} placeholder={`Rule ${i + 1}`} {...field('name')} /></div>
        {decides && <Badge kind="good">matches this visit</Badge>}
        <Tick label="On" {...field('enabled')} />
        {children}
      </div>
      {steps.length > 0 && <small>{steps.map(step => step.detail).join(' ')}</small>}
      <Conditions title="When all of these hold" what="Condition" failing={failing} {...field('when')} />
      <Conditions title="Unless one of these holds" what="Exception" failing={failing - rule.when.length} {...field('unless')} />
      <Part title="Go to" what="Target" add={() => targets.add(newTarget())}>
        {rule.targets.map((target, n) => (
          <TargetItem key={target.key} target={target} path={`${path}targets.${n}.`} url={url} set={targets.setter(n)}
            isCandidate={decides && explanation.candidates.includes(n)} remove={isOne ? undefined : () => targets.remove(n)} />
        ))}
        {!isOne && <Choice label="Choose the target" options={STICKINESS} {...field('stickiness')} />}
      </Part>
    </li>
  );
}

type TargetProps = { target: Target; path: string; url: string; set: (target: Target) => void; isCandidate: boolean; remove?: () => void };

function TargetItem({ target, path, url, set, isCandidate, remove }: TargetProps) {
  const field = bind(target, set, path);
  return (
    <div class={isCandidate ? 'target row tight candidate' : 'target row tight'}>
      <div class="grow"><Text label="URL" inputMode="url" placeholder={url} {...field('url')} /></div>
      {remove && <Text label="Name" placeholder="Name" {...field('name')} />}
      {remove && <Text label="Share" type="number" min="0" placeholder="Share" {...field('share')} />}
      <Text label="Ends after clicks" type="number" min="1" placeholder="Any clicks" {...field('maxClicks')} />
      {remove && <Small icon="close" label="Remove target" act={remove} />}
    </div>
  );
}

// ---- conditions

// EXAMPLES are of the kinds that list values.
const EXAMPLES: Partial<Record<Kind, string>> = {
  country: 'DE, AT, CH', os: 'iOS, Android', browser: 'Firefox, Safari', language: 'de, pt-BR', network: '192.0.2.0/24',
  referrer: 'example.com, .example.org',
};
const KINDS: readonly (readonly [Kind, string])[] = [
  ['country', 'Country'], ['device', 'Device'], ['os', 'System'], ['browser', 'Browser'], ['language', 'Language'],
  ['referrer', 'Referrer'], ['query', 'Parameter'], ['weekly', 'Time of the week'], ['during', 'Date range'], ['network', 'Network'],
  ['bot', 'Bot'],
];
const DEVICES = { desktop: 'Desktop', mobile: 'Mobile', tablet: 'Tablet', tv: 'TV', console: 'Console', other: 'Other', '': 'Unknown' };
const DAYS = { MONDAY: 'Mon', TUESDAY: 'Tue', WEDNESDAY: 'Wed', THURSDAY: 'Thu', FRIDAY: 'Fri', SATURDAY: 'Sat', SUNDAY: 'Sun' };

type ConditionsProps = {
  title: string; what: string; path: string; value: Condition[]; change: (list: Condition[]) => void; failing: number;
};

function Conditions({ title, what, path, value, change, failing }: ConditionsProps) {
  const list = edits(value, change);
  return (
    <Part title={title} what={what} add={() => list.add(newCondition())}>
      {value.map((condition, i) => (
        <div class={failing === i ? 'condition row tight fails' : 'condition row tight'} key={condition.key}>
          <Choice label="Kind" path={`${path}.${i}.kind`} value={condition.kind} options={KINDS}
            change={kind => list.setter(i)(newCondition(kind, condition.key))} />
          <div class="row wrap grow"><Values condition={condition} path={`${path}.${i}.${condition.kind}`} set={list.setter(i)} /></div>
          <Small icon="close" label={`Remove ${what.toLowerCase()} ${i + 1}`} act={() => list.remove(i)} />
        </div>
      ))}
    </Part>
  );
}

function Values({ condition, path, set }: { condition: Condition; path: string; set: (condition: Condition) => void }) {
  const { kind, picked } = condition;
  const field = bind(condition, set), at = (name: 'text' | 'value' | 'from' | 'to', end: string) => ({ ...field(name), path: path + end });
  const ticks = (options: Record<string, string>) => Object.entries(options).map(([one, name]) => (
    <Tick key={one} label={name} value={picked.includes(one)}
      change={isOn => set({ ...condition, picked: isOn ? [...picked, one] : picked.filter(other => other !== one) })} />
  ));
  const span = (type: string) => (
    <>
      <Text label="From" type={type} {...at('from', '.from')} /><span class="soft">to</span>
      <Text label="Until" type={type} {...at('to', '.to')} />
    </>
  );
  switch (kind) {
    case 'device': return <>{ticks(DEVICES)}</>;
    case 'during': return span('datetime-local');
    case 'weekly': return <>{ticks(DAYS)}{span('time')}<Text label="Time zone" {...at('text', '.timezone')} /></>;
    case 'bot': return <Choice label="Visitor" options={[['yes', 'is a bot'], ['no', 'is not a bot']]} {...at('value', '')} />;
    case 'query': return (
      <>
        <Text label="Name of the parameter" placeholder="ref" {...at('text', '.name')} /><span class="soft">=</span>
        <Text label="Value" placeholder="any value" {...at('value', '.value')} />
      </>
    );
  }
  return (
    <>
      <div class="grow"><Text label="One of these" placeholder={EXAMPLES[kind]} {...at('text', '')} /></div>
      {kind !== 'network' && <Tick label="or unknown" {...field('isUnknown')} />}
    </>
  );
}
