// Webhooks: where events are sent, and how each delivery went.
import { useLocation, useRoute } from 'preact-iso';
import { useState } from 'preact/hooks';

import { send } from '../api';
import { usePlace } from '../app';
import {
  type AttemptError, CreateWebhookDocument, DeleteWebhookDocument, DeliveriesDocument, type DeliveriesQuery, type DeliveryStatus,
  type EventType, RedeliverWebhookDocument, RotateWebhookSecretDocument, TestWebhookDocument, UpdateWebhookDocument,
  type WebhookRowFragment as Webhook, WebhooksDocument,
} from '../gql/graphql';
import { FormDialog, Once, ReplaceSecret } from '../ui/dialogs';
import { Checks, Choice, Text, useFields } from '../ui/form';
import { Badge, Empty, Facts, formatCount, Menu, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { type Adding, Line, Page, Rows, useScreen } from '../ui/page';
import { withScheme } from '../ui/url';

// TYPES are what a webhook can receive.
const TYPES = ([
  'LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED', 'LINK_RESTORED', 'LINK_CLAIMED', 'LINK_STARTED', 'LINK_EXPIRED', 'LINK_EXHAUSTED',
  'LINK_DISABLED', 'LINK_ENABLED', 'LINK_PURGED', 'LINK_CLICKED', 'DESTINATION_FAILED', 'DESTINATION_RECOVERED', 'DOMAIN_VERIFIED',
  'DOMAIN_FAILING', 'DOMAIN_LOST', 'TASK_FINISHED', 'WEBHOOK_DISABLED',
] as const satisfies readonly EventType[]).map(type => [type, sentenceOf(type)] as const);

const STATES: readonly (readonly [DeliveryStatus, string, 'good' | 'bad' | 'warn' | ''])[] = [
  ['WAITING', 'Waiting', 'warn'], ['DELIVERED', 'Delivered', 'good'], ['FAILED', 'Failed', 'bad'], ['SKIPPED', 'Skipped', ''],
];
const FAILURES: Record<AttemptError, string> = {
  STATUS: 'refused', TIMEOUT: 'no answer in 15 seconds', DNS: 'unknown host', REFUSED: 'not a public address', CONNECTION: 'no connection',
  TLS: 'wrong certificate',
};

function sentenceOf(type: EventType): string {
  const text = type.toLowerCase().replaceAll('_', ' ');
  return text[0]!.toUpperCase() + text.slice(1);
}

export function Webhooks() {
  const { params } = useRoute();
  return params['rest'] ? <OneWebhook id={params['rest']} key={params['rest']} /> : <AllWebhooks />;
}

function AllWebhooks() {
  const { workspace, base } = usePlace();
  const screen = useScreen(WebhooksDocument, { by: { id: workspace.id } });
  const webhooks = screen.data?.workspace?.webhooks;
  const create = screen.add('Create webhook', props => <Edit {...props} />);
  return (
    <Page title="Webhooks" screen={screen} actions={!!webhooks?.nodes.length && create}>
      {() => (
        <Rows label="Webhooks" of={webhooks} empty={<Empty title="No webhooks yet"
          text="A webhook tells your program when links are created, changed or clicked, or end.">{create}</Empty>}>
          {webhook => (
            <Line name={<a href={`${base}/webhooks/${webhook.id}`} dir="auto"><strong>{webhook.name}</strong></a>} text={webhook.url}>
              <small class="wide">{typesOf(webhook)}</small><Status webhook={webhook} />
            </Line>
          )}
        </Rows>
      )}
    </Page>
  );
}

const typesOf = ({ types, tags }: Webhook) =>
  `${types.length === 1 ? sentenceOf(types[0]!) : `${types.length} events`}${tags.length ? ` of links with ${tags.join(', ')}` : ''}`;

function Status({ webhook: { status, failingSince, waiting } }: { webhook: Webhook }) {
  return (
    <>
      {!!waiting && <small>{formatCount(waiting)} waiting</small>}
      {status === 'DISABLED' ? <Badge kind="bad">disabled</Badge> : status === 'PAUSED' ? <Badge>paused</Badge>
        : failingSince ? <Badge kind="warn">failing since <Time at={failingSince} /></Badge> : <Badge kind="good">active</Badge>}
    </>
  );
}

type Loaded = Extract<NonNullable<DeliveriesQuery['node']>, { deliveries: unknown }>;
type Delivery = NonNullable<Loaded['deliveries']>['nodes'][number];

function OneWebhook({ id }: { id: string }) {
  const { base } = usePlace();
  const { route } = useLocation();
  const [state, setState] = useState<DeliveryStatus | ''>('');
  const screen = useScreen(DeliveriesDocument, { id, status: state ? [state] : undefined });
  const { open, confirm, act, refresh } = screen;
  const webhook = screen.data?.node as Loaded | null | undefined;

  const activate = (skipBacklog: boolean) => act(UpdateWebhookDocument, { input: { id, status: 'ACTIVE', skipBacklog } }, 'Active again.');
  const pause = () => act(UpdateWebhookDocument, { input: { id, status: 'PAUSED' } }, 'Paused. Events wait for 30 days.',
    { undo: () => activate(false) });
  const redeliver = (choice: { failed: true } | { deliveryIds: string[] }) =>
    act(RedeliverWebhookDocument, { input: { id, ...choice } }, 'Sent again.');
  const remove = ({ name }: Webhook) => confirm({
    title: `Delete ${name}?`, action: 'Delete webhook', text: 'Its deliveries are deleted, too. This cannot be undone.',
    confirm: () => act(DeleteWebhookDocument, { input: { id } }, `${name} is deleted.`, { then: () => route(`${base}/webhooks`, true) }),
  });
  const rotate = ({ name }: Webhook) => open(close => <ReplaceSecret name={name} open={open} close={close} replace={(hours, show) =>
    send(RotateWebhookSecretDocument, { input: { id, overlapSeconds: hours * 3600 } }, ({ secret }) => show(secret!))} />);
  const actions = webhook && (
    <>
      <button class="button" onClick={() => open(close => <Test webhook={webhook} close={close} done={refresh} />)}>Send a test</button>
      <Menu label="Actions" items={[
        { label: 'Change', act: () => open(close => <Edit webhook={webhook} close={close} done={refresh} open={open} />) },
        webhook.status === 'ACTIVE' ? { label: 'Pause', act: pause } : { label: 'Activate with what waits', act: () => activate(false) },
        webhook.status !== 'ACTIVE' && { label: 'Activate for new events', act: () => activate(true) },
        { label: 'Send failed ones again', act: () => redeliver({ failed: true }) },
        { label: 'Replace the secret', act: () => rotate(webhook) },
        { label: 'Delete', danger: true, act: () => remove(webhook) },
      ]}><Icon name="more" /></Menu>
    </>
  );
  const all = <a href={`${base}/webhooks`}>All webhooks</a>;
  return (
    <Page title={webhook?.name ?? 'Webhook'} screen={screen} actions={actions}>
      {() => !webhook ? <Empty title="No such webhook" text="It has been deleted.">{all}</Empty> : (
        <>
          <div class="row wrap">
            {all}<small class="cut">{webhook.url}</small><small>{typesOf(webhook)}</small><Status webhook={webhook} />
            {webhook.skippedClicks > 0 && <small>{formatCount(webhook.skippedClicks)} clicks left out</small>}
            <select class="input pick end" aria-label="State of deliveries" value={state}
              onChange={event => (screen.setAfter(undefined), setState(event.currentTarget.value as DeliveryStatus))}>
              <option value="">All deliveries</option>
              {STATES.map(([value, name]) => <option value={value} key={value}>{name}</option>)}
            </select>
          </div>
          <Rows label="Deliveries" of={webhook.deliveries} screen={screen}
            empty={<Empty title={state ? 'No such deliveries' : 'No deliveries yet'} text="What is sent stays here for 30 days." />}>
            {delivery => <DeliveryRow delivery={delivery} redeliver={() => redeliver({ deliveryIds: [delivery.id] })} />}
          </Rows>
        </>
      )}
    </Page>
  );
}

function DeliveryRow({ delivery, redeliver }: { delivery: Delivery; redeliver: () => void }) {
  const { type, clickCount, status, createdAt, nextAttemptAt, attempts, event, webhookMessageId } = delivery;
  const [, state, kind] = STATES.find(([one]) => one === status)!;
  return (
    <details class="more">
      <summary class="row">
        <span class="grow cut">
          {clickCount ? `${formatCount(clickCount)} clicks` : sentenceOf(type)} <small>{event?.link?.shortUrl}</small>
        </span>
        {attempts && attempts.length > 1 && <small class="wide">{attempts.length} attempts</small>}
        <small><Time at={createdAt} /></small><Badge kind={kind}>{state.toLowerCase()}</Badge>
      </summary>
      <Facts facts={[
        ...attempts?.map(attempt => [<Time at={attempt.at} />, resultOf(attempt)] as const) ?? [],
        !!nextAttemptAt && [<Time at={nextAttemptAt} />, 'next attempt'],
        ...event?.changes.map(({ field, before, after }) => [field, <code>{before ?? '…'} → {after ?? '…'}</code>] as const) ?? [],
        ['webhook-id', <code>{webhookMessageId}</code>],
      ]} />
      <p><button class="button" onClick={redeliver}>Send again</button></p>
    </details>
  );
}

type Attempt = { status?: number | null; error?: AttemptError | null; durationMs: number };

const resultOf = ({ status, error, durationMs }: Attempt) =>
  `${error ? `Failed: ${FAILURES[error]}` : 'Accepted'}${status ? ` with status ${status}` : ''}, after ${formatCount(durationMs)} ms`;

// Edit creates a webhook or changes one.
function Edit({ webhook, close, done, open }: Adding & { webhook?: Webhook }) {
  const { workspace } = usePlace();
  const { values, at } = useFields({
    name: webhook?.name ?? '', url: webhook?.url ?? '', tags: webhook?.tags.join(', ') ?? '',
    types: webhook?.types ?? ['LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED'] as EventType[],
  });
  const tags = values.tags.split(',').map(tag => tag.trim()).filter(Boolean);
  const input = { ...values, url: withScheme(values.url), tags: tags.length > 0 ? tags : null };
  const submit = () => webhook ? send(UpdateWebhookDocument, { input: { id: webhook.id, ...input } }, () => (done(), close()))
    : send(CreateWebhookDocument, { input: { workspaceId: workspace.id, ...input } }, ({ secret }) => {
      done();
      open(close => <Once title={`Webhook ${values.name} created`} secret={secret!} close={close}
        text="Your program verifies with this secret who has sent a request." />);
    });
  return (
    <FormDialog title={webhook?.name ?? 'Create webhook'} action={webhook ? 'Save' : 'Create webhook'} submit={submit} close={close}>
      <Text label="Name" {...at('name')} autofocus />
      <Text label="Endpoint URL" {...at('url')} inputMode="url" placeholder="https://" />
      <Checks label="Events" {...at('types')} options={TYPES} />
      <Text label="Only of links with one of the tags" {...at('tags')} hint="Separated by commas. Empty: all links." />
    </FormDialog>
  );
}

function Test({ webhook, close, done }: { webhook: Webhook; close: () => void; done: () => void }) {
  const { values, at } = useFields<{ type: EventType }>({ type: webhook.types[0]! });
  const [result, setResult] = useState('');
  const submit = () => send(TestWebhookDocument, { input: { id: webhook.id, ...values } },
    ({ attempt }) => (setResult(resultOf(attempt!)), done()));
  return (
    <FormDialog title={`Test ${webhook.name}`} action="Send" submit={submit} close={close}>
      <Choice label="Event" {...at('type')} options={TYPES} hint="Sends sample data that is marked as a test." />
      <p role="status">{result}</p>
    </FormDialog>
  );
}
