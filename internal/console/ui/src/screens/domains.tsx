// Domains: hosts of one's own for short URLs, proven by a DNS record.
import { useEffect, useRef, useState } from 'preact/hooks';

import { client, run, send } from '../api';
import { reloadMe, usePlace } from '../app';
import {
  AddDomainDocument, type CodeSpace, type DomainRowFragment as Domain, DomainFilesDocument, type DomainFilesQuery, DomainsDocument,
  RemoveDomainDocument, UpdateDomainDocument, UpdateWorkspaceDocument, VerifyDomainDocument,
} from '../gql/graphql';
import { FormDialog } from '../ui/dialogs';
import { Check, Choice, Text, useFields } from '../ui/form';
import { attempt, Badge, Copy, Empty, Facts, Menu, say, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { type Adding, Line, Page, Rows, useScreen } from '../ui/page';
import { withScheme } from '../ui/url';

// A workspace has 30 verifications an hour: the checks of an open page become rarer, and stop.
const CHECKS_AFTER_S = [15, 30, 60, 120, 240, 240, 240, 240];

const here = location.host;

export function Domains() {
  const { workspace, may } = usePlace();
  const screen = useScreen(DomainsDocument, { by: { id: workspace.id } });
  const { open, confirm, act } = screen;
  const domains = screen.data?.workspace?.domains, primary = screen.data?.workspace?.primaryHost;
  const canWrite = may('DOMAINS_WRITE');
  const firstPending = domains?.nodes.find(({ status }) => status !== 'VERIFIED');

  const setPrimary = (domain: Domain | undefined, undo?: () => Promise<unknown>) => act(UpdateWorkspaceDocument,
    { input: { id: workspace.id, primaryDomainId: domain?.id ?? null } }, `Short URLs begin with ${domain?.host ?? here}.`, { undo });
  const former = domains?.nodes.find(({ host }) => host === primary);
  const change = (domain: Domain) => attempt(async () => {
    const { data, error } = await client.query(DomainFilesDocument, { id: domain.id }, { requestPolicy: 'network-only' });
    if (!data) throw error;
    open(close => <DomainSettings domain={{ ...domain, ...data.node } as Stored} close={close} />);
  });
  const remove = ({ id, host }: Domain) => confirm({
    title: `Remove ${host}?`, action: 'Remove domain', text: 'Its short URLs stop working at once, also printed ones.',
    confirm: () => act(RemoveDomainDocument, { input: { id } }, `${host} is removed.`, { then: reloadMe }),
  });
  const add = canWrite && screen.add('Add domain', props => <AddDomain {...props} />);
  return (
    <Page title="Domains" screen={screen} actions={!!domains?.nodes.length && add}>
      {() => (
        <Rows label="Domains" of={domains} screen={screen} empty={<Empty title="No domain of your own yet"
          text={`Short URLs begin with ${here}. With your own domain, they show your name.`}>{add}</Empty>}>
          {domain => (
            <>
              <Line name={<Host domain={domain} />} text={codesOf(domain)}>
                {domain.host === primary && <Badge>primary</Badge>}
                <Status domain={domain} />
                {canWrite && <Menu label={`Actions for ${domain.host}`} items={[
                  { label: 'Settings', act: () => change(domain) },
                  domain !== former && domain.status !== 'PENDING'
                    && { label: 'Use for short URLs', act: () => setPrimary(domain, () => setPrimary(former)) },
                  domain === former && { label: `Use ${here} instead`, act: () => setPrimary(undefined, () => setPrimary(domain)) },
                  { label: 'Remove', danger: true, act: () => remove(domain) },
                ]}><Icon name="more" /></Menu>}
              </Line>
              {domain.status !== 'VERIFIED' && <DnsRecord domain={domain} canCheck={canWrite} isOpen={domain === firstPending} />}
            </>
          )}
        </Rows>
      )}
    </Page>
  );
}

const codesOf = ({ codeSpace, caseSensitive }: Domain) => codeSpace === 'SHARED' ? 'All links of the workspace'
  : `Only its own links${caseSensitive ? '' : ', upper and lower case alike'}`;

const Host = ({ domain: { host, status } }: { domain: Domain }) => status === 'PENDING' ? <strong>{host}</strong>
  : <a href={`https://${host}`} target="_blank" rel="noopener noreferrer"><strong>{host}</strong></a>;

const Status = ({ domain: { status, failedAt } }: { domain: Domain }) => status === 'VERIFIED' ? <Badge kind="good">verified</Badge>
  : failedAt ? <Badge kind="bad">record missing since <Time at={failedAt} /></Badge> : <Badge kind="warn">not verified</Badge>;

// DnsRecord is the record to set. It is looked up while it can be seen.
function DnsRecord({ domain, canCheck, isOpen }: { domain: Domain; canCheck: boolean; isOpen: boolean }) {
  const details = useRef<HTMLDetailsElement>(null);
  const [result, setResult] = useState('Checked automatically while this page is open.');
  const [checks, setChecks] = useState(0);
  async function check() {
    const payload = await attempt(() => run(VerifyDomainDocument, { input: { id: domain.id } }));
    if (payload?.domain) return say(`${domain.host} is verified.`);
    setResult(payload?.errors[0]?.message ?? '');
    setChecks(checks + 1);
  }
  useEffect(() => {
    const wait = canCheck && CHECKS_AFTER_S[checks];
    if (!wait) return;
    const timer = setTimeout(() => document.hidden || !details.current?.open ? setChecks(checks + 1) : check(), wait * 1000);
    return () => clearTimeout(timer);
  }, [checks]);
  return (
    <details class="more" ref={details} open={isOpen}>
      <summary>{domain.status === 'FAILING' ? 'Restore this' : 'Set this'} DNS record, and keep it</summary>
      <Facts facts={[
        ['Type', <code>TXT</code>], ['Name', <><code>{domain.recordName}</code><Copy text={domain.recordName} /></>],
        ['Value', <><code>{domain.recordValue}</code><Copy text={domain.recordValue} /></>],
      ]} />
      <p class="soft">Direct the host to this server, too: with a CNAME record of {domain.host} with the value {location.hostname}.</p>
      {canCheck && <div class="row"><button class="button" onClick={check}>Check now</button><small role="status">{result}</small></div>}
    </details>
  );
}

function AddDomain({ close, done }: Adding) {
  const { workspace } = usePlace();
  const { values, at } = useFields({ host: '', codeSpace: 'SHARED' as CodeSpace, ignoresCase: false });
  const host = values.host.trim().replace(/^https?:\/\//, '').replace(/\/$/, '');
  const caseSensitive = values.codeSpace === 'OWN' ? !values.ignoresCase : undefined;
  const input = { workspaceId: workspace.id, host, codeSpace: values.codeSpace, caseSensitive };
  const submit = () => send(AddDomainDocument, { input }, () => (done(), close()));
  return (
    <FormDialog title="Add domain" action="Add domain" submit={submit} close={close}>
      <Text label="Host" {...at('host')} placeholder="links.example.com" inputMode="url" autofocus />
      <Choice label="Codes" {...at('codeSpace')} hint="This cannot be changed later."
        options={[['SHARED', 'All links of the workspace work there'], ['OWN', 'Only links that are created for it']]} />
      {values.codeSpace === 'OWN' && <Check label="Upper and lower case are alike" {...at('ignoresCase', 'caseSensitive')} />}
    </FormDialog>
  );
}

// URLs and documents that a domain answers with.
const FIELDS = [
  ['rootUrl', 'The domain itself leads to'], ['notFoundUrl', 'Unknown links lead to', '{code} and {host} are replaced.'],
  ['endedUrl', 'Ended links lead to'], ['faviconUrl', 'Icon in the tabs of browsers'],
  ['appleAppSiteAssociation', 'Links that open an app on iOS', 'The JSON of /.well-known/apple-app-site-association.'],
  ['assetLinks', 'Links that open an app on Android', 'The JSON of /.well-known/assetlinks.json.'],
] as const;
type FieldName = (typeof FIELDS)[number][0];

type Stored = Domain & Extract<DomainFilesQuery['node'], { assetLinks?: unknown }>;

function DomainSettings({ domain, close }: { domain: Stored; close: () => void }) {
  const { values, at } = useFields(Object.fromEntries(FIELDS.map(([name]) => [name, domain[name] ?? ''])) as Record<FieldName, string>);
  const { values: { indexable }, at: checkAt } = useFields({ indexable: domain.indexable });
  const isUrl = (name: FieldName) => name.endsWith('Url');
  const texts = FIELDS.map(([name]) => [name, (isUrl(name) ? withScheme(values[name]) : values[name].trim()) || null]);
  const input = { id: domain.id, indexable, ...Object.fromEntries(texts) };
  const done = () => (close(), say(`${domain.host} is changed.`));
  return (
    <FormDialog title={domain.host} action="Save" submit={() => send(UpdateDomainDocument, { input }, done)} close={close}>
      {FIELDS.map(([name, label, hint]) => (
        <Text label={label} hint={hint} {...at(name)} placeholder={isUrl(name) ? 'https://' : ''} lines={isUrl(name) ? 0 : 3} key={name} />
      ))}
      <Check label="Search engines may list its short URLs" {...checkAt('indexable')} />
    </FormDialog>
  );
}
