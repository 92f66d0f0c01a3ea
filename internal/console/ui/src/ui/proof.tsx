// A proof of identity, as sensitive operations and the second step of a log-in require it.
import type { AuthMethod, ProofInput } from '../gql/graphql';
import { Choice, Text, useFields } from './form';

// PROOFS are the proofs that a user can type.
const PROOFS: Partial<Record<AuthMethod, { label: string; type: string; autocomplete: string; input: (proof: string) => ProofInput }>> = {
  PASSWORD: { label: 'Password', type: 'password', autocomplete: 'current-password', input: password => ({ password }) },
  TOTP: { label: 'Code of your authenticator app', type: 'text', autocomplete: 'one-time-code', input: totp => ({ totp: totp.trim() }) },
  RECOVERY_CODE: { label: 'Recovery code', type: 'text', autocomplete: 'off', input: code => ({ recoveryCode: code.trim() }) },
};

// useProof returns the fields that ask for a proof by one of the methods, and the input of the API. Without a method there is neither:
// an account without a password has proven itself by its log-in of the last ten minutes.
export function useProof(methods: AuthMethod[], autofocus = false) {
  const known = methods.filter(method => PROOFS[method]);
  const { values, set, reset } = useFields<{ method: AuthMethod | null; text: string }>({ method: null, text: '' });
  const method = values.method ?? known[0], proof = method && PROOFS[method];
  const fields = proof && (
    <>
      {known.length > 1 && <Choice label="Verification method" path="proof.method" value={method} change={set('method')}
        options={known.map(method => [method, PROOFS[method]!.label] as const)} />}
      <Text label={proof.label} path="proof" type={proof.type} autocomplete={proof.autocomplete} value={values.text} change={set('text')}
        autofocus={autofocus} />
    </>
  );
  return { fields, reset, input: proof?.input(values.text) };
}

type Identity = { hasPassword: boolean; secondFactors?: { totp: boolean; recoveryCodes: number } | null };

// proofsOf are the methods by which an account can prove itself. With factor, its password does not suffice.
export function proofsOf({ hasPassword, secondFactors }: Identity, factor = false): AuthMethod[] {
  const methods: AuthMethod[] = hasPassword && !factor ? ['PASSWORD'] : [];
  if (secondFactors?.totp) methods.push('TOTP');
  if (secondFactors?.recoveryCodes) methods.push('RECOVERY_CODE');
  return methods;
}
