// Log-in and registration: with a password, at the identity provider, and with the further proof of a challenge.
import { useEffect, useState } from 'preact/hooks';
import { useQuery } from '@urql/preact';

import { guest, Refused, run as runBy, type UserError } from '../api';
import {
  type AuthMethod, CompleteLoginDocument, FinishSsoDocument, LogInDocument, LoginOptionsDocument, RegisterDocument,
  RequestPasswordResetDocument, StartSsoDocument,
} from '../gql/graphql';
import * as session from '../session';
import { Form, Text, useFields } from '../ui/form';
import { attempt, Bones, Problem, say } from '../ui/kit';
import { useProof } from '../ui/proof';

type Answer = session.Tokens & { challenge?: Challenge | null; errors: UserError[] };
type Challenge = { token: string; methods: AuthMethod[] };
type Mode = 'login' | 'register' | 'reset';

const run: typeof runBy = (document, variables) => runBy(document, variables, guest);

const TRANSACTION = 'linkforge.sso'; // in the session storage, never in a URL: who has it and the code can log in
const TITLES: Record<Mode, string> = { login: 'Log in', register: 'Create your account', reset: 'Reset your password' };

export function Login() {
  const [challenge, setChallenge] = useState<Challenge | null>(null);
  const [mode, setMode] = useState<Mode>('login');
  const [{ data, error }, reload] = useQuery({ query: LoginOptionsDocument });

  // enter starts the session of an answer, or asks for the proof that it needs. It returns what is wrong.
  function enter(answer: Answer): UserError[] {
    if (answer.challenge) setChallenge(answer.challenge);
    else session.start(answer);
    return answer.errors;
  }

  useEffect(() => void attempt(async () => { // when the provider has redirected to this page
    const answer = await finishSso();
    for (const problem of answer ? enter(answer) : []) say(problem.message);
  }), []);

  if (error) return <Gatehouse title="Log in"><Problem error={error} retry={() => reload({ requestPolicy: 'network-only' })} /></Gatehouse>;
  if (challenge) return <Proof challenge={challenge} enter={enter} back={() => setChallenge(null)} />;
  if (!data) return <Gatehouse title="Log in"><Bones rows={3} /></Gatehouse>;
  const { password, registration, ssoName } = data.loginOptions;
  return (
    <Gatehouse title={TITLES[mode]}>
      {password && mode === 'login' && <PasswordForm enter={enter} reset={() => setMode('reset')} />}
      {mode === 'register' && <RegistrationForm enter={enter} />}
      {mode === 'reset' && <ResetForm done={() => setMode('login')} />}
      {ssoName && mode === 'login' && <button class="button" onClick={() => attempt(startSso)}>Continue with {ssoName}</button>}
      <p class="soft">
        {mode !== 'login' && <a href="#" onClick={event => (event.preventDefault(), setMode('login'))}>Back to log-in</a>}
        {mode === 'login' && registration === 'OPEN' && <>New here? <a href="#" onClick={event => (event.preventDefault(), setMode('register'))}>Create an account</a></>}
        {mode === 'login' && registration !== 'OPEN' && 'Accounts are created by invitation here. Ask an administrator for one.'}
      </p>
    </Gatehouse>
  );
}

export function Gatehouse({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return <main class="gatehouse"><div><h1>{title}</h1>{children}</div></main>;
}

type Enter = { enter: (answer: Answer) => UserError[] };

function PasswordForm({ enter, reset }: Enter & { reset: () => void }) {
  const { values, set } = useFields({ email: '', password: '' });
  return (
    <Form action="Log in" submit={async () => enter(await run(LogInDocument, { input: values }))}>
      <Text label="E-mail" path="email" type="email" autocomplete="username" value={values.email} change={set('email')} autofocus />
      <Text label="Password" path="password" type="password" autocomplete="current-password" value={values.password} change={set('password')}
        hint={<a href="#" onClick={event => (event.preventDefault(), reset())}>Forgot password?</a>} />
    </Form>
  );
}

function RegistrationForm({ enter }: Enter) {
  const { values, set } = useFields({ name: '', email: '', password: '' });
  return (
    <Form action="Create account" submit={async () => enter(await run(RegisterDocument, { input: values }))}>
      <Text label="Name" path="name" autocomplete="name" value={values.name} change={set('name')} autofocus />
      <Text label="E-mail" path="email" type="email" autocomplete="username" value={values.email} change={set('email')} />
      <Text label="Password" path="password" type="password" autocomplete="new-password" hint="At least 8 characters." value={values.password}
        change={set('password')} />
    </Form>
  );
}

function ResetForm({ done }: { done: () => void }) {
  const { values, set } = useFields({ email: '' });
  async function submit() {
    const { errors } = await run(RequestPasswordResetDocument, { input: values });
    if (errors.length === 0) (done(), say('If there is an account, a link is on its way to you.'));
    return errors;
  }
  return (
    <Form action="Send a link" submit={submit}>
      <Text label="E-mail" path="email" type="email" autocomplete="username" value={values.email} change={set('email')} autofocus />
    </Form>
  );
}

function Proof({ challenge, enter, back }: Enter & { challenge: Challenge; back: () => void }) {
  const { fields, input: proof } = useProof(challenge.methods, true);
  const submit = async () => enter(await run(CompleteLoginDocument, { input: { challenge: challenge.token, proof: proof ?? {} as never } }));
  return <Gatehouse title="One more step"><Form action="Continue" cancel={back} submit={submit}>{fields}</Form></Gatehouse>;
}

async function startSso() {
  const { authorizationUrl, transaction, errors } = await run(StartSsoDocument, { input: { redirectUri: location.origin + '/app/login' } });
  if (!authorizationUrl || !transaction) return errors.forEach(error => say(error.message));
  sessionStorage.setItem(TRANSACTION, transaction);
  location.assign(authorizationUrl);
}

// finishSso completes a log-in at the provider, and removes its code from the address bar.
async function finishSso(): Promise<Answer | undefined> {
  const query = new URLSearchParams(location.search), state = query.get('state');
  if (state === null) return undefined;
  history.replaceState(null, '', location.pathname);
  const transaction = sessionStorage.getItem(TRANSACTION), code = query.get('code');
  sessionStorage.removeItem(TRANSACTION);
  if (!transaction || !code) throw new Refused('The log-in at the provider was not completed.');
  return run(FinishSsoDocument, { input: { transaction, code, state, issuer: query.get('iss') } });
}
