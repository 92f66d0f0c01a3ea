// Registration and log-in: with a password, at the identity provider, and with the further proof of a challenge.
import type { Client } from '@urql/core';

import { create, element, values } from './dom';
import { complain, type Mend, mend, say, submitted } from './forms';
import type { AuthMethod, ProofInput } from './gql/graphql';
import { CompleteLogin, FinishSso, LogIn, LoginOptions, Register, StartSso } from './operations';
import * as session from './session';

type Answer = {
  token?: string | null;
  refreshToken?: string | null;
  challenge?: { token: string; methods: AuthMethod[] } | null;
  errors: Mend[];
};

const TRANSACTION = 'linkforge.sso'; // in the session storage, never in a URL: who has it and the code can log in
const PROOFS: Partial<Record<AuthMethod, { label: string; type: string; input: (proof: string) => ProofInput }>> = {
  PASSWORD: { label: 'the password of your account', type: 'password', input: password => ({ password }) },
  TOTP: { label: 'a code of your authenticator app', type: 'text', input: totp => ({ totp }) },
  RECOVERY_CODE: { label: 'a recovery code', type: 'text', input: recoveryCode => ({ recoveryCode }) },
};

// setUpLogin calls entered after each log-in.
export function setUpLogin(client: Client, entered: () => Promise<unknown>) {
  const account = element('account') as HTMLFormElement;
  const challenge = element('challenge') as HTMLFormElement;
  const method = challenge.elements.namedItem('method') as HTMLSelectElement;
  const proof = challenge.elements.namedItem('proof') as HTMLInputElement;
  const sso = element('sso') as HTMLButtonElement;
  let challengeToken = '';

  account.addEventListener('submit', submitted(comeIn));
  challenge.addEventListener('submit', submitted(prove));
  method.addEventListener('change', fitProof);
  sso.addEventListener('click', () => void startSso());
  element('challenge-back').addEventListener('click', () => (closeChallenge(), void offer()));

  // offer shows the ways to log in that the server has.
  async function offer() {
    const { data, error } = await client.query(LoginOptions, {});
    if (error) return complain(error);
    const { password, ssoName } = data!.loginOptions;
    account.hidden = !password || !challenge.hidden;
    sso.hidden = !ssoName || !challenge.hidden;
    sso.textContent = `Continue with ${ssoName}`;
  }

  async function comeIn(form: HTMLFormElement, pressed: string) {
    const { name, email, password } = values(form);
    const input = { email: email!, password: password! };
    if (pressed === 'register') {
      const { data, error } = await client.mutation(Register, { input: { ...input, name: name! } });
      return error ? complain(error) : enter(form, data!.register!);
    }
    const { data, error } = await client.mutation(LogIn, { input });
    return error ? complain(error) : enter(form, data!.login!);
  }

  async function prove(form: HTMLFormElement) {
    const input = { challenge: challengeToken, proof: PROOFS[method.value as AuthMethod]!.input(proof.value) };
    const { data, error } = await client.mutation(CompleteLogin, { input });
    return error ? complain(error) : enter(form, data!.completeLogin!);
  }

  // enter starts the session of an answer, or asks for the proof that it needs.
  async function enter(form: HTMLFormElement, answer: Answer) {
    if (answer.challenge) return openChallenge(answer.challenge);
    if (!answer.token || !answer.refreshToken) return mend(form, answer.errors);
    session.save({ token: answer.token, refreshToken: answer.refreshToken });
    account.reset();
    closeChallenge();
    say('Welcome.');
    await entered();
  }

  function openChallenge({ token, methods }: NonNullable<Answer['challenge']>) {
    challengeToken = token;
    const known = methods.filter(one => PROOFS[one]);
    method.replaceChildren(...known.map(one => create('option', { value: one }, PROOFS[one]!.label)));
    account.hidden = sso.hidden = true;
    challenge.hidden = false;
    fitProof();
    proof.focus();
  }

  function closeChallenge() {
    challengeToken = '';
    challenge.reset();
    challenge.hidden = true;
  }

  function fitProof() {
    proof.type = PROOFS[method.value as AuthMethod]?.type ?? 'text';
    proof.value = '';
  }

  async function startSso() {
    const { data, error } = await client.mutation(StartSso, { input: { redirectUri: location.origin + location.pathname } });
    if (error) return complain(error);
    const { authorizationUrl, transaction, errors } = data!.startSso!;
    if (!authorizationUrl || !transaction) return mend(account, errors);
    sessionStorage.setItem(TRANSACTION, transaction);
    location.assign(authorizationUrl);
  }

  // finishSso completes a log-in when the provider has redirected to this page, and removes its code from the address bar.
  async function finishSso() {
    const query = new URLSearchParams(location.search);
    const state = query.get('state');
    if (state === null) return;
    history.replaceState(null, '', location.pathname);
    const transaction = sessionStorage.getItem(TRANSACTION);
    sessionStorage.removeItem(TRANSACTION);
    const code = query.get('code');
    if (!transaction || !code) return say(`The log-in was not completed: ${query.get('error') ?? 'start it again'}.`, true);
    const { data, error } = await client.mutation(FinishSso, { input: { transaction, code, state, issuer: query.get('iss') } });
    if (error) return complain(error);
    const { token, refreshToken, challenge: asked, errors } = data!.finishSso!;
    if (asked) return openChallenge(asked);
    if (!token || !refreshToken) return mend(account, errors);
    session.save({ token, refreshToken });
  }

  return { offer, finishSso };
}
