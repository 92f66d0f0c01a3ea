// The second factor of the user's account: an authenticator app, and its recovery codes.
import type { Client } from '@urql/core';
import { toCanvas } from 'qrcode';

import { create, element, values } from './dom';
import { complain, mend, say, submitted } from './forms';
import { ConfirmTotp, EnrollTotp, RemoveTotp, RenewRecoveryCodes, SecondFactors } from './operations';

export function setUpFactors(client: Client) {
  const enrollment = element('enroll') as HTMLFormElement;
  const confirmation = element('confirm') as HTMLFormElement;
  enrollment.addEventListener('submit', submitted(enroll));
  confirmation.addEventListener('submit', submitted(confirm));
  const changes = element('change-factors') as HTMLFormElement;
  changes.addEventListener('submit', submitted(change));

  // open shows the factors of the account.
  async function open() {
    hideSecrets();
    const { data, error } = await client.query(SecondFactors, {}, { requestPolicy: 'network-only' });
    if (error) return complain(error);
    const { totp, recoveryCodes } = data!.me!.secondFactors!; // null only for other users
    enrollment.hidden = totp;
    changes.hidden = !totp;
    element('factors-state').textContent = totp
      ? `An authenticator app is set up. Unused recovery codes: ${recoveryCodes}.`
      : 'Your account has no second factor.';
  }

  async function enroll(form: HTMLFormElement) {
    const { password } = values(form);
    const { data, error } = await client.mutation(EnrollTotp, { input: password ? { proof: { password } } : {} });
    if (error) return complain(error);
    const { secret, uri, errors } = data!.enrollTotp!;
    if (!secret || !uri) return mend(form, errors);
    await toCanvas(element('totp-qr') as HTMLCanvasElement, uri);
    element('totp-secret').textContent = secret;
    element('totp-uri').textContent = uri;
    form.reset();
    enrollment.hidden = true;
    confirmation.hidden = false;
  }

  async function confirm(form: HTMLFormElement) {
    const { data, error } = await client.mutation(ConfirmTotp, { input: { code: values(form).code! } });
    if (error) return complain(error);
    const { recoveryCodes, errors } = data!.confirmTotp!;
    if (!recoveryCodes) return mend(form, errors);
    await show(recoveryCodes);
    say('The authenticator app is set up.');
  }

  // change replaces the recovery codes, or removes the app, by a proof of identity.
  async function change(form: HTMLFormElement, pressed: string) {
    const code = values(form).proof!.trim();
    const input = { proof: /^\d{6}$/.test(code) ? { totp: code } : { recoveryCode: code } };
    if (pressed === 'remove') {
      const { data, error } = await client.mutation(RemoveTotp, { input });
      if (error) return complain(error);
      if (data!.removeTotp!.errors.length > 0) return mend(form, data!.removeTotp!.errors);
      await open();
      return say('The authenticator app is removed.');
    }
    const { data, error } = await client.mutation(RenewRecoveryCodes, { input });
    if (error) return complain(error);
    const { recoveryCodes, errors } = data!.renewRecoveryCodes!;
    if (!recoveryCodes) return mend(form, errors);
    await show(recoveryCodes);
    say('The earlier recovery codes are invalid.');
  }

  // show shows new recovery codes, which cannot be read again.
  async function show(codes: string[]) {
    await open();
    element('recovery-codes').replaceChildren(...codes.map(code => create('li', {}, code)));
    element('recovery').hidden = false;
  }

  function hideSecrets() {
    confirmation.reset();
    changes.reset();
    confirmation.hidden = element('recovery').hidden = true;
    element('totp-secret').textContent = element('totp-uri').textContent = '';
    element('recovery-codes').replaceChildren();
    const canvas = element('totp-qr') as HTMLCanvasElement;
    canvas.getContext('2d')!.clearRect(0, 0, canvas.width, canvas.height);
  }

  return { open, close: hideSecrets };
}
