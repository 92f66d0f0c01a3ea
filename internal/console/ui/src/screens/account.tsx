// Account: the user's own name, address, proofs of identity, sessions and data. It belongs to no workspace.
import { useEffect, useState } from 'preact/hooks';

import { run, send, settle, type UserError } from '../api';
import { logOut, reloadMe } from '../app';
import {
  AccountDocument, type AccountQuery, ChangePasswordDocument, ConfirmTotpDocument, DeleteMyAccountDocument, EnrollTotpDocument,
  ExportMyDataDocument, LogOutDocument, LogOutEverywhereDocument, type ProofInput, RemoveTotpDocument, RenewRecoveryCodesDocument,
  RequestEmailVerificationDocument, UpdateMeDocument,
} from '../gql/graphql';
import * as session from '../session';
import { FormDialog, Once } from '../ui/dialogs';
import { Form, Text, useFields } from '../ui/form';
import { attempt, Badge, Copy, Missing, type Open, save, say, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { Line, Page, Rows, Section, useScreen } from '../ui/page';
import { proofsOf, useProof } from '../ui/proof';

type User = NonNullable<AccountQuery['me']>;
type Of = { user: User; refresh: () => void };

const PARTS = [
  ['profile', 'Profile', 'user'], ['password', 'Password', 'lock'], ['factor', 'Second factor', 'key'], ['sessions', 'Sessions', 'clock'],
  ['data', 'Data', 'move'],
] as const;

export function Account() {
  const screen = useScreen(AccountDocument, {});
  const refresh = () => (screen.refresh(), void reloadMe());
  return (
    <div class="frame">
      <aside class="sidebar">
        <nav aria-label="Account">
          <a href="/app"><Icon name="link" />Links</a>
          {PARTS.map(([id, name, icon]) => <a href={`#${id}`} key={id}><Icon name={icon} />{name}</a>)}
          <a href="/app" onClick={event => (event.preventDefault(), logOut())}><Icon name="close" />Log out</a>
        </nav>
      </aside>
      <Page title="Your account" screen={screen}>
        {({ me: user }) => user ? (
          <>
            <Profile user={user} refresh={refresh} />
            <Password user={user} refresh={refresh} />
            <Factor user={user} refresh={refresh} open={screen.open} />
            <Sessions user={user} act={screen.act} />
            <Data user={user} open={screen.open} />
          </>
        ) : <Missing what="Your account" />}
      </Page>
    </div>
  );
}

function Profile({ user, refresh }: Of) {
  const { values, set, at } = useFields({ name: user.name, email: user.email });
  const { fields, input: proof, reset } = useProof(proofsOf(user));
  const isNew = values.email.trim().toLowerCase() !== user.email;
  const input = { name: values.name, ...(isNew && { email: values.email, proof }) };
  const submit = () => send(UpdateMeDocument, { input }, ({ user }) => {
    say(user!.pendingEmail ? `Open the mail that is on its way to ${user!.pendingEmail}.` : 'Saved.');
    set('email')(user!.email);
    reset();
    refresh();
  });
  const verify = () => attempt(() => settle(RequestEmailVerificationDocument, { input: { email: user.pendingEmail ?? user.email } },
    () => say('If this server sends mail, one is on its way to you.')));
  const cancel = () => attempt(() => settle(UpdateMeDocument, { input: { email: user.email } }, refresh));
  return (
    <Section title="Profile" id="profile" text="Members of your workspaces see it.">
      <Form action="Save" submit={submit} disabled={values.name === user.name && !isNew}>
        <Text label="Name" {...at('name')} autocomplete="name" />
        <Text label="E-mail" {...at('email')} type="email" autocomplete="email" />
        {isNew && fields}
      </Form>
      {(user.pendingEmail || !user.emailVerified) && (
        <p class="notice">
          <span class="grow">{user.pendingEmail ?? 'Your address'} is not verified yet.</span>
          <button class="button" onClick={verify}>Send a mail</button>
          {user.pendingEmail && <button class="button plain" onClick={cancel}>Cancel</button>}
        </p>
      )}
      {user.ssoIdentities?.map(one => <small key={one.issuer}>Single sign-on at {one.issuer}, used <Time at={one.lastUsedAt} /></small>)}
    </Section>
  );
}

function Password({ user, refresh }: Of) {
  const { values, at, reset } = useFields({ newPassword: '' });
  const { fields, input: proof, reset: resetProof } = useProof(proofsOf(user));
  const submit = () => send(ChangePasswordDocument, { input: { ...values, proof } }, () => {
    reset();
    resetProof();
    refresh();
    say('The password is changed. Your other sessions have ended.');
  });
  return (
    <Section title="Password" id="password" text={user.hasPassword ? 'A change ends your other sessions.' : 'Your account has none yet.'}>
      <Form action={user.hasPassword ? 'Change password' : 'Set password'} submit={submit} disabled={!values.newPassword}>
        <Text label="New password" {...at('newPassword')} type="password" autocomplete="new-password" hint="At least 8 characters." />
        {values.newPassword && fields}
      </Form>
    </Section>
  );
}

function Factor({ user, refresh, open }: Of & { open: Open }) {
  const factors = user.secondFactors;
  const renewSession = () => (session.token.value = null, refresh()); // so that the session has, or has not, a second factor
  const showCodes = (codes: string[]) => {
    renewSession();
    const text = 'If you lose the app, each of these logs you in once.';
    open(close => <Once title="Recovery codes" text={text} secret={codes.join('\n')} close={close} />);
  };
  const enroll = () => open(close => <Enroll user={user} close={close} done={showCodes} />);
  const renew = () => open(close => <ProofDialog title="New recovery codes" action="Create codes" user={user} isFactor close={close}
    text="The present ones end, and so do your other sessions."
    submit={proof => send(RenewRecoveryCodesDocument, { input: { proof: proof! } }, ({ recoveryCodes }) => showCodes(recoveryCodes!))} />);
  const remove = () => open(close => <ProofDialog title="Remove the authenticator app" action="Remove" user={user} isFactor close={close}
    text="Your password alone then suffices to log in. Workspaces that need a second factor are closed to you."
    submit={proof => send(RemoveTotpDocument, { input: { proof: proof! } }, () => (close(), renewSession(), say('It is removed.')))} />);
  return (
    <Section title="Second factor" id="factor" text="A code of an app on your phone, which a log-in needs besides the password.">
      {!factors ? <Missing what="The second factor" /> : factors.totp ? (
        <>
          <p>An authenticator app is set up{factors.totpSince && <> (<Time at={factors.totpSince} />)</>}. Recovery codes left:{' '}
            <Badge kind={factors.recoveryCodes > 3 ? '' : 'warn'}>{factors.recoveryCodes}</Badge></p>
          <p class="row wrap">
            <button class="button" onClick={renew}>New recovery codes</button><button class="button danger" onClick={remove}>Remove</button>
          </p>
        </>
      ) : <p><button class="button" onClick={enroll}>Set up an authenticator app</button></p>}
    </Section>
  );
}

type ProofDialogProps = {
  title: string; text: string; action: string; user: User; isFactor?: boolean; close: () => void;
  submit: (proof: ProofInput | undefined) => Promise<UserError[]>;
};

// ProofDialog asks for a proof of identity before a sensitive operation; with isFactor, for another one than the password.
function ProofDialog({ title, text, action, user, isFactor, submit, close }: ProofDialogProps) {
  const { fields, input } = useProof(proofsOf(user, isFactor), true);
  return <FormDialog title={title} action={action} submit={() => submit(input)} close={close}><p>{text}</p>{fields}</FormDialog>;
}

// Enroll sets up an authenticator app: a proof, the secret as a QR code, and a first code of the app.
function Enroll({ user, close, done }: { user: User; close: () => void; done: (codes: string[]) => void }) {
  const { values, at } = useFields({ code: '' });
  const [{ secret, uri }, setEnrollment] = useState({ secret: '', uri: '' });
  const start = (proof: ProofInput | undefined) => send(EnrollTotpDocument, { input: { proof } },
    ({ secret, uri }) => setEnrollment({ secret: secret!, uri: uri! }));
  const confirm = () => send(ConfirmTotpDocument, { input: { code: values.code.replaceAll(/\s/g, '') } },
    ({ recoveryCodes }) => done(recoveryCodes!));
  const title = 'Set up an authenticator app';
  const text = 'Have the app on your phone ready.';
  if (!secret) return <ProofDialog title={title} action="Continue" text={text} user={user} submit={start} close={close} key="proof" />;
  return (
    <FormDialog title={title} action="Set up" submit={confirm} close={close} key="code">
      <p>Scan this code with the app, or type the secret into it.</p>
      <QrCode text={uri} />
      <p class="secret"><code class="grow">{secret}</code><Copy text={secret} name="Copy the secret" /></p>
      <Text label="Code that the app shows" {...at('code')} autocomplete="one-time-code" inputMode="numeric" autofocus />
    </FormDialog>
  );
}

// QrCode is made here, because the secret must not leave the browser. Its encoder is loaded when it is needed.
function QrCode({ text }: { text: string }) {
  const [cells, setCells] = useState<boolean[][]>([]);
  useEffect(() => void attempt(async () => setCells((await import('uqr')).encode(text).data)), [text]);
  const path = cells.flatMap((row, y) => row.map((isDark, x) => isDark ? `M${x} ${y}h1v1h-1z` : '')).join('');
  return (
    <svg class="qr" width="192" height="192" viewBox={`0 0 ${cells.length} ${cells.length}`} role="img" aria-label="QR code of the secret"
      shape-rendering="crispEdges"><path d={path} /></svg>
  );
}

function Sessions({ user: { sessions }, act }: { user: User; act: ReturnType<typeof useScreen>['act'] }) {
  const end = (sessionId: string) => act(LogOutDocument, { input: { sessionId } }, 'The session has ended.');
  const endOthers = () => act(LogOutEverywhereDocument, { input: { keepThis: true } }, 'Your other sessions have ended.');
  return (
    <Section title="Sessions" id="sessions" text="Where you are logged in.">
      <Rows label="Sessions" of={sessions}>
        {({ id, agent, usedAt, isCurrent }) => (
          <Line name={<span title={agent}>{browserOf(agent)}</span>} text={<>used <Time at={usedAt} /></>}>
            {isCurrent ? <Badge kind="good">this one</Badge> : <button class="button" onClick={() => end(id)}>End</button>}
          </Line>
        )}
      </Rows>
      {sessions && sessions.nodes.length > 1 && <p><button class="button" onClick={endOthers}>End all others</button></p>}
    </Section>
  );
}

// browserOf is a user agent as people know it, or its text.
function browserOf(agent: string): string {
  const browser = /Edg|OPR|Firefox|Chrome|Safari/.exec(agent)?.[0], system = /iPhone|iPad|Android|Windows|Mac OS|Linux/.exec(agent)?.[0];
  return browser && system ? `${browser.replace('Edg', 'Edge').replace('OPR', 'Opera')} on ${system}` : agent || 'Unknown program';
}

function Data({ user, open }: { user: User; open: Open }) {
  const download = () => open(close => <ProofDialog title="Export your data" action="Export" user={user} close={close}
    text="Your account, sessions and memberships, and the links, keys and changes that you made, as JSON." submit={async proof => {
      const parts: unknown[] = [];
      for (let after: string | null | undefined; after !== null;) {
        const { data, next, errors } = await run(ExportMyDataDocument, { input: { proof, after } });
        if (!data) return errors;
        parts.push(JSON.parse(data));
        after = next ?? null;
      }
      save(JSON.stringify(parts, null, 2), 'linkforge-my-data.json');
      close();
      return [];
    }} />);
  const remove = () => open(close => <ProofDialog title="Delete your account?" action="Delete account" user={user} close={close}
    text="This cannot be undone. What you created in workspaces stays there, without your name."
    submit={proof => send(DeleteMyAccountDocument, { input: { proof } }, session.end)} />);
  return (
    <Section title="Your data" id="data">
      <p class="row wrap">
        <button class="button" onClick={download}>Export</button><button class="button danger" onClick={remove}>Delete account</button>
      </p>
    </Section>
  );
}
