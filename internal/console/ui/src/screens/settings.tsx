// Settings: what holds for the whole workspace. Each section is saved by itself.
import { useLocation } from 'preact-iso';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';

import { send, settle } from '../api';
import { reloadMe, usePlace } from '../app';
import {
  type BotPolicy, type CodeStrategy, DeleteWorkspaceDocument, type QrLevel, type QueryForwardingMode, RestoreWorkspaceDocument,
  SettingsDocument, UpdateWorkspaceDocument, type UpdateWorkspaceInput, type WorkspaceSettingsFragment as Workspace,
} from '../gql/graphql';
import { Check, Choice, Form, wordsOf, Text, useFields } from '../ui/form';
import { Missing, say } from '../ui/kit';
import { Page, Section, useScreen } from '../ui/page';
import { withScheme } from '../ui/url';

type Options<T> = readonly (readonly [T, string])[];
const STRATEGIES: Options<CodeStrategy> = [
  ['DETERMINISTIC', 'The same for the same URL'], ['RANDOM', 'Random'], ['COUNTER', 'As short as possible'],
];
const STATUSES: Options<string> = [
  ['302', 'Temporary (302)'], ['307', 'Temporary, with the same method (307)'], ['301', 'Permanent (301): browsers remember it'],
  ['308', 'Permanent, with the same method (308)'],
];
const QUERIES: Options<QueryForwardingMode> = [
  ['OFF', 'Are ignored'], ['ADD', 'Are added to the destination'], ['REPLACE', 'Replace those of the destination'],
];
const BOTS: Options<BotPolicy> = [['REDIRECT', 'Like other visitors'], ['CONFIRM', 'Get a page with a button'], ['BLOCK', 'Are refused']];
const LEVELS: Options<QrLevel> = [['LOW', '7 %'], ['MEDIUM', '15 %'], ['QUARTILE', '25 %'], ['HIGH', '30 %']];
const UTM = ['source', 'medium', 'campaign', 'term', 'content'] as const;

export function Settings() {
  const { user, workspace, may } = usePlace();
  const { route } = useLocation();
  const screen = useScreen(SettingsDocument, { by: { id: workspace.id } });
  const input = { id: workspace.id };
  const restore = () => settle(RestoreWorkspaceDocument, { input }, () => reloadMe().then(() => route(`/app/${workspace.slug}/links`)));
  const remove = () => screen.confirm({
    title: `Delete ${workspace.name}?`, action: 'Delete workspace', text: 'Its short URLs stop working at once. Members lose access.',
    confirm: () => settle(DeleteWorkspaceDocument, { input }, async () => {
      say(`${workspace.name} is deleted. It can be restored for 30 days.`, restore);
      await reloadMe();
      route('/app', true);
    }),
  });
  return (
    <Page title="Settings" screen={screen}>
      {({ workspace: now }) => !now ? <Missing what="The settings" /> : (
        <>
          <Saved title="Workspace" initial={{ name: now.name, slug: now.slug }} input={values => values}>
            {({ at, values: { slug } }) => <><Text label="Name" {...at('name')} /><Text label="Workspace address" {...at('slug')}
              hint={`${location.host}/${slug}/… Short URLs with a former one keep working.`} /></>}
          </Saved>
          <NewLinks now={now} />
          <Visitors now={now} />
          <QrCodes style={now.qrStyle} />
          <Saved title="Security" initial={{ requireSecondFactor: now.requireSecondFactor }} input={values => values}>
            {({ at }) => <Check label="Members need a second factor or single sign-on" {...at('requireSecondFactor')}
              hint={<>Takes effect immediately; API keys are not affected. {!user.secondFactors?.totp && <a href="/app/account#factor">Set up
                your own first.</a>}</>} />}
          </Saved>
          {may('WORKSPACE_DELETE') && (
            <Section title="Deletion" text="Owners can restore a deleted workspace for 30 days, where they create new ones.">
              <p><button class="button danger" onClick={remove}>Delete workspace</button></p>
            </Section>
          )}
        </>
      )}
    </Page>
  );
}

type SavedProps<T> = {
  title: string; text?: string; initial: T; input: (values: T) => Omit<UpdateWorkspaceInput, 'id'>;
  children: (fields: ReturnType<typeof useFields<T & object>>) => ComponentChildren;
};

// Saved is a section with a form, which can be sent once something is changed.
function Saved<T extends object>({ title, text, initial, input, children }: SavedProps<T>) {
  const { workspace } = usePlace();
  const { route } = useLocation();
  const fields = useFields<T>(initial);
  const change = () => ({ id: workspace.id, ...input(fields.values) });
  const submit = () => send(UpdateWorkspaceDocument, { input: change() }, async ({ workspace: changed }) => {
    await reloadMe();
    if (changed!.slug !== workspace.slug) route(`/app/${changed!.slug}/settings`, true);
    say('Saved.');
  });
  const saved = JSON.stringify(initial), isSame = JSON.stringify(fields.values) === saved;
  useEffect(fields.reset, [saved]); // the server may have changed a value, such as a URL
  return <Section title={title} text={text}><Form action="Save" submit={submit} disabled={isSame}>{children(fields)}</Form></Section>;
}

function NewLinks({ now: { defaultStrategy, defaultRedirectStatus, routingDefaults } }: { now: Workspace }) {
  const { forwardPath, bots, query, utm } = routingDefaults;
  const initial = {
    strategy: defaultStrategy, status: `${defaultRedirectStatus}`, forwardPath, bots, mode: query.mode, only: query.only.join(', '),
    except: query.except.join(', '), source: utm?.source ?? '', medium: utm?.medium ?? '', campaign: utm?.campaign ?? '',
    term: utm?.term ?? '', content: utm?.content ?? '',
  };
  const input = (values: typeof initial) => ({
    defaultStrategy: values.strategy, defaultRedirectStatus: Number(values.status),
    routingDefaults: {
      forwardPath: values.forwardPath, bots: values.bots,
      query: { mode: values.mode, ...(values.mode !== 'OFF' && { only: wordsOf(values.only), except: wordsOf(values.except) }) },
      utm: UTM.some(name => values[name]) ? Object.fromEntries(UTM.map(name => [name, values[name] || null])) : null,
    },
  });
  return (
    <Saved title="New links" text="What new links begin with. Existing ones stay as they are." initial={initial} input={input}>
      {({ at, values }) => (
        <>
          <Choice label="Codes" {...at('strategy', 'defaultStrategy')} options={STRATEGIES} />
          <Choice label="Redirect" {...at('status', 'defaultRedirectStatus')} options={STATUSES} />
          <Choice label="Parameters of the short URL" {...at('mode', 'routingDefaults.query.mode')} options={QUERIES} />
          {values.mode !== 'OFF' && (
            <div class="two">
              <Text label="Only these" {...at('only', 'routingDefaults.query.only')} />
              <Text label="Without these" {...at('except', 'routingDefaults.query.except')} />
            </div>
          )}
          <Check label="The path behind the code is passed on" {...at('forwardPath', 'routingDefaults.forwardPath')} />
          <Choice label="Bots" {...at('bots', 'routingDefaults.bots')} options={BOTS} />
          <details class="more">
            <summary>UTM values{values.source && `: ${values.source}`}</summary>
            <div class="two">{UTM.map(name => <Text label={`utm_${name}`} {...at(name, `routingDefaults.utm.${name}`)} key={name} />)}</div>
          </details>
        </>
      )}
    </Saved>
  );
}

function Visitors({ now: { notFoundUrl, endedUrl, inspectable, caseSensitiveCodes } }: { now: Workspace }) {
  const initial = { notFoundUrl: notFoundUrl ?? '', endedUrl: endedUrl ?? '', inspectable, isCaseIgnored: !caseSensitiveCodes };
  const input = (values: typeof initial) => ({
    notFoundUrl: withScheme(values.notFoundUrl) || null, endedUrl: withScheme(values.endedUrl) || null, inspectable: values.inspectable,
    caseSensitiveCodes: values.isCaseIgnored === initial.isCaseIgnored ? undefined : !values.isCaseIgnored,
  });
  return (
    <Saved title="Visitors" text="Where visitors of unknown or ended links are redirected. {code} and {host} are replaced." initial={initial} input={input}>
      {({ at }) => (
        <>
          <Text label="Unknown links lead to" {...at('notFoundUrl')} placeholder="A page that says so" inputMode="url" />
          <Text label="Ended links lead to" {...at('endedUrl')} placeholder="A page that says so" inputMode="url" />
          <Check label="A short URL with + behind it shows where it leads" {...at('inspectable')} />
          {caseSensitiveCodes ? <Check label="Upper and lower case are alike in custom codes" {...at('isCaseIgnored', 'caseSensitiveCodes')}
            hint="This cannot be undone." /> : <small>Upper and lower case are alike in custom codes.</small>}
        </>
      )}
    </Saved>
  );
}

function QrCodes({ style: { size, margin, level, foreground, background, hasLogo } }: { style: Workspace['qrStyle'] }) {
  // logo is undefined for the present one, and null for none.
  const initial = { size: `${size}`, margin: `${margin}`, level, foreground, background, logo: undefined as string | null | undefined };
  const input = ({ size, margin, ...others }: typeof initial) => ({ qrStyle: { size: Number(size), margin: Number(margin), ...others } });
  return (
    <Saved title="QR codes" text="How the QR codes of all links look." initial={initial} input={input}>
      {({ at, set, values }) => (
        <>
          <div class="two">
            <Text label="Foreground" {...at('foreground', 'qrStyle.foreground')} type="color" />
            <Text label="Background" {...at('background', 'qrStyle.background')} type="color" />
            <Text label="Width in pixels" {...at('size', 'qrStyle.size')} type="number" min="128" />
            <Text label="Margin in modules" {...at('margin', 'qrStyle.margin')} type="number" min="4" />
          </div>
          <Choice label="Error correction" {...at('level', 'qrStyle.level')} options={LEVELS} hint="30 % with a logo." />
          <label class="field"><span class="legend">Logo</span>
            <input class="input" type="file" accept="image/png,image/jpeg" onChange={async event => {
              const bytes = new Uint8Array(await event.currentTarget.files?.[0]?.arrayBuffer() ?? []);
              set('logo')(bytes.length ? btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join('')) : undefined);
            }} />
          </label>
          {hasLogo && <Check label="Without the present logo" path="qrStyle.logo" value={values.logo === null}
            change={isRemoved => set('logo')(isRemoved ? null : undefined)} />}
        </>
      )}
    </Saved>
  );
}
