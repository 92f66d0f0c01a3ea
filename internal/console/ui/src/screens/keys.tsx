// Keys: API keys with the permissions and limits that a program needs.
import { send } from '../api';
import { usePlace } from '../app';
import {
  CreateApiKeyDocument, KeysDocument, type KeysQuery, type Permission, RevokeApiKeyDocument, RotateApiKeyDocument,
} from '../gql/graphql';
import { FormDialog, Once, ReplaceSecret } from '../ui/dialogs';
import { Checks, Choice, wordsOf, Text, useFields } from '../ui/form';
import { Badge, Copy, Empty, formatCount, Menu, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { type Adding, Line, Page, Rows, useScreen } from '../ui/page';

type Answer = NonNullable<KeysQuery['workspace']>;
type Key = NonNullable<Answer['apiKeys']>['nodes'][number];
type Folders = NonNullable<Answer['folders']>['nodes'];

// SCOPES are the permissions that a key can have; the first five also if it is restricted to folders.
const SCOPES: readonly (readonly [Permission, string])[] = [
  ['LINKS_READ', 'Read links'], ['LINKS_CREATE', 'Create links'], ['LINKS_WRITE', 'Change links'], ['STATS_READ', 'Read statistics'],
  ['DOMAINS_READ', 'Read domains'], ['DOMAINS_WRITE', 'Change domains'], ['MEMBERS_READ', 'Read members'],
  ['AUDIT_READ', 'Read the audit log'], ['WEBHOOKS_WRITE', 'Change webhooks'],
];
const HOUR_MS = 3_600_000;

const isPublishable = ({ scopes }: Key) => scopes.length === 1 && scopes[0] === 'LINKS_CREATE';
const isPast = (at: string) => Date.parse(at) < Date.now();
const hasEnded = ({ expiresAt }: Key) => !!expiresAt && isPast(expiresAt);

export function Keys() {
  const { workspace } = usePlace();
  const screen = useScreen(KeysDocument, { by: { id: workspace.id } });
  const { open, confirm, act, refresh } = screen;
  const keys = screen.data?.workspace?.apiKeys, folders = screen.data?.workspace?.folders?.nodes ?? [];

  const rotate = ({ id, name }: Key) => open(close => <ReplaceSecret name={name} open={open} close={close} replace={(hours, show) => {
    const oldSecretEndsAt = hours ? new Date(Date.now() + hours * HOUR_MS).toISOString() : undefined;
    return send(RotateApiKeyDocument, { input: { id, oldSecretEndsAt } }, ({ secret }) => (refresh(), show(secret!)));
  }} />);
  const revoke = ({ id, name }: Key) => confirm({
    title: `Revoke ${name}?`, action: 'Revoke key', text: 'Programs that use it are refused at once. This cannot be undone.',
    confirm: () => act(RevokeApiKeyDocument, { input: { id } }, `${name} is revoked.`),
  });
  const create = screen.add('Create key', props => <CreateKey folders={folders} {...props} />);
  return (
    <Page title="Keys" screen={screen} actions={!!keys?.nodes.length && create}>
      {() => (
        <Rows label="Keys" of={keys} screen={screen} empty={<Empty title="No keys yet"
          text="A key lets a program, a script or a web page work with the links of this workspace.">{create}</Empty>}>
          {key => (
            <Line name={<><strong dir="auto">{key.name}</strong> <code class="soft">{key.prefix}…</code></>} text={termsOf(key)}>
              <small class="wide">{key.lastUsedAt ? <>used <Time at={key.lastUsedAt} /></> : 'never used'}</small>
              {isPublishable(key) && <Badge>publishable</Badge>}
              {key.expiresAt && <Badge>{hasEnded(key) ? 'ended' : 'ends'} <Time at={key.expiresAt} /></Badge>}
              <Menu label={`Actions for ${key.name}`} items={[
                !hasEnded(key) && { label: 'Replace the secret', act: () => rotate(key) },
                { label: 'Revoke', danger: true, act: () => revoke(key) },
              ]}><Icon name="more" /></Menu>
            </Line>
          )}
        </Rows>
      )}
    </Page>
  );
}

// termsOf are what a key may do and where, and who created it.
function termsOf(key: Key): string {
  const all = (what: string, entries: readonly string[] = []) => entries.length > 0 && `${what} ${entries.join(', ')}`;
  return [
    SCOPES.filter(([scope]) => key.scopes.includes(scope)).map(([, name]) => name).join(', '),
    all('in', key.folders?.map(({ name }) => name)), all('to', key.destinationHosts), all('on', key.origins), all('from', key.networks),
    key.requestsPerMinute && `${formatCount(key.requestsPerMinute)} requests a minute`,
    key.linksPerDay && `${formatCount(key.linksPerDay)} links a day`, key.createdBy && `by ${key.createdBy.name}`,
    key.oldSecretEndsAt && !isPast(key.oldSecretEndsAt) && 'its former secret is still valid',
  ].filter(Boolean).join(' · ');
}

function CreateKey({ folders, close, done, open }: Adding & { folders: Folders }) {
  const { workspace } = usePlace();
  const { values, at } = useFields({
    name: '', kind: 'program' as 'program' | 'page', scopes: ['LINKS_READ', 'LINKS_WRITE'] as Permission[], folderIds: [] as string[],
    destinationHosts: '', origins: '', networks: '', requestsPerMinute: '', linksPerDay: '', expiresAt: '',
  });
  const isPage = values.kind === 'page', folderIds = isPage ? [] : values.folderIds;
  const offered = folderIds.length > 0 ? SCOPES.slice(0, 5) : SCOPES;
  const scopes = isPage ? ['LINKS_CREATE' as const] : offered.map(([scope]) => scope).filter(scope => values.scopes.includes(scope));
  const input = {
    workspaceId: workspace.id, name: values.name, scopes, folderIds, destinationHosts: wordsOf(values.destinationHosts),
    origins: wordsOf(values.origins), networks: wordsOf(values.networks), requestsPerMinute: Number(values.requestsPerMinute) || undefined,
    linksPerDay: isPage && Number(values.linksPerDay) || undefined,
    expiresAt: values.expiresAt ? new Date(values.expiresAt).toISOString() : undefined,
  };
  const submit = () => send(CreateApiKeyDocument, { input }, ({ secret }) => {
    const snippet = secret!.startsWith('lfp_') && snippetOf(secret!, workspace.id);
    done();
    open(close => (
      <Once title={`API key ${values.name} created`} secret={secret!} close={close} text={snippet
        ? 'Anyone may read this key: it creates links to the hosts that you named, and nothing else.'
        : 'Programs send this secret as “Authorization: Bearer …”.'}>
        {snippet && <div class="row"><h3 class="grow">A form that shortens URLs</h3><Copy text={snippet} name="Copy the form" /></div>}
        {snippet && <pre class="call mono">{snippet}</pre>}
      </Once>
    ));
  });
  const where = (
    <>
      <Text label="Links may lead to" {...at('destinationHosts')} lines={2} placeholder="example.com, .example.org"
        hint={`Hosts, one per line. With a leading dot, also all hosts below it.${isPage ? '' : ' Empty: any.'}`} />
      <Text label="Web pages that use it" {...at('origins')} lines={2} placeholder="https://www.example.com"
        hint="Origins, one per line. Empty: only this server. Programs need none." />
    </>
  );
  return (
    <FormDialog title="Create key" action="Create key" submit={submit} close={close}>
      <Text label="Name" {...at('name')} autofocus />
      <Choice label="Used by" {...at('kind')} options={[['program', 'A program that keeps it secret'], ['page', 'A web page or an app']]}
        hint={isPage && 'Anyone can read it there: it can only create links.'} />
      {isPage ? where : <Checks label="It may" {...at('scopes')} value={scopes} options={offered} />}
      {!isPage && folders.length > 0 && <Checks label="Only in these folders" {...at('folderIds')} hint="None selected: all folders."
        options={folders.map(({ id, name }) => [id, name] as const)} />}
      <details class="more">
        <summary>{isPage ? 'Networks, limits, end' : 'Hosts, pages, networks, limits, end'}</summary>
        <div class="stack">
          {!isPage && where}
          <Text label="Networks that use it" {...at('networks')} lines={2} placeholder="192.0.2.0/24" hint="Empty: any." />
          <div class="two">
            <Text label="Requests a minute" {...at('requestsPerMinute')} type="number" min="1" />
            {isPage && <Text label="Links a day" {...at('linksPerDay')} type="number" min="1" />}
            <Text label="Ends" {...at('expiresAt')} type="datetime-local" />
          </div>
        </div>
      </details>
    </FormDialog>
  );
}

const snippetOf = (secret: string, workspaceId: string) => `<form id="shorten">
  <input name="url" type="url" placeholder="https://" required> <button>Shorten</button> <output></output>
</form>
<script type="module">
  const form = document.getElementById('shorten');
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const query = 'mutation ($input: CreateLinkInput!) { createLink(input: $input) { shortUrl errors { message } } }';
    const input = { workspaceId: '${workspaceId}', url: form.elements.url.value };
    const response = await fetch('${location.origin}/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ${secret}' },
      body: JSON.stringify({ query, variables: { input } }),
    });
    const { data, errors = [] } = await response.json();
    const link = data?.createLink;
    form.querySelector('output').value = link?.shortUrl ?? [...link?.errors ?? [], ...errors][0]?.message;
  });
</script>`;
