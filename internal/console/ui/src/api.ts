// The client: queries and mutations by POST, subscriptions by server-sent events, and tokens that are renewed when they end.
import {
  cacheExchange, Client, type CombinedError, fetchExchange, mapExchange, subscriptionExchange, type TypedDocumentNode,
} from '@urql/core';
import { authExchange } from '@urql/exchange-auth';
import { createClient } from 'graphql-sse';
import { signal } from '@preact/signals';

import { RefreshSessionDocument } from './gql/graphql';
import * as session from './session';

const url = '/graphql';

// UserError is what the API says of an input: the path of the field, and the text for people.
export type UserError = { code: string; message: string; field?: string[] | null };

const events = createClient({
  url,
  retryAttempts: 5,
  headers: () => (session.token.value ? { Authorization: `Bearer ${session.token.value}` } : {}) as Record<string, string>,
});

// codesOf are why the server refused a request or parts of it.
export function codesOf(error: CombinedError | undefined): string[] {
  return error?.graphQLErrors.map(one => one.extensions['code'] as string) ?? [];
}

// lost counts the answers without the workspace that was asked for: the user is no member any more.
export const lost = signal(0);

// guest is who has no session: what it asks does not wait for one that is over.
export const guest = new Client({ url, preferGetMethod: false, exchanges: [fetchExchange] });

export const client: Client = new Client({
  url,
  preferGetMethod: false,
  requestPolicy: 'cache-and-network',
  exchanges: [
    cacheExchange,
    mapExchange({ onResult: ({ data, error }) => { if (data?.workspace === null && !error) lost.value++; } }),
    authExchange(async utils => ({
      addAuthToOperation: operation => session.token.value
        ? utils.appendHeaders(operation, { Authorization: `Bearer ${session.token.value}` })
        : operation,
      willAuthError: operation => session.state.value !== 'out' && session.token.value === null && operation.kind !== 'teardown',
      didAuthError: error => session.state.value !== 'out' && codesOf(error).includes('UNAUTHENTICATED'),
      refreshAuth: () => session.renew(refreshToken => run(RefreshSessionDocument, { input: { refreshToken } }, guest)),
    })),
    fetchExchange,
    subscriptionExchange({
      forwardSubscription: ({ query, variables }) => ({
        subscribe: sink => ({ unsubscribe: events.subscribe({ query: query ?? '', variables }, sink) }),
      }),
    }),
  ],
});

// run sends a mutation with one root field, and returns its payload. It throws what stands beside a payload that is null.
export async function run<Data extends Record<string, unknown>, Variables extends Record<string, unknown>>(
  document: TypedDocumentNode<Data, Variables>, variables: Variables, by = client,
): Promise<NonNullable<Data[Exclude<keyof Data, '__typename'>]>> {
  const { data, error } = await by.mutation(document, variables);
  const payload = data && Object.entries(data).find(([name]) => name !== '__typename')?.[1];
  if (!payload) throw error ?? new Error('The server gave no answer.');
  return payload as NonNullable<Data[Exclude<keyof Data, '__typename'>]>;
}

// ask sends a query once, past the cache. It throws if there is no data.
export async function ask<Data, Variables extends Record<string, unknown>>(
  document: TypedDocumentNode<Data, Variables>, variables: Variables,
) {
  const { data, error } = await client.query(document, variables, { requestPolicy: 'network-only' });
  if (!data) throw error ?? new Error('The server gave no answer.');
  return data;
}

// Refused has the message of an error of a payload, for changes that have no form.
export class Refused extends Error {}

// accepted is a payload without errors. It throws the first one.
export function accepted<T extends { errors: UserError[] }>(payload: T): T {
  if (payload.errors[0]) throw new Refused(payload.errors[0].message);
  return payload;
}

type Root = Record<string, unknown>;
type Payload<Data> = NonNullable<Data[Exclude<keyof Data, '__typename'>]>;

// send runs the mutation of a form: it calls done with a payload without errors, and returns the errors.
export async function send<Data extends Root, Variables extends Root>(
  document: TypedDocumentNode<Data, Variables>, variables: Variables, done: (payload: Payload<Data>) => unknown = () => {},
): Promise<UserError[]> {
  const payload = await run(document, variables) as Payload<Data> & { errors: UserError[] };
  if (payload.errors.length === 0) await done(payload);
  return payload.errors;
}

// settle is send outside of a form. It throws the first error, whose message attempt shows.
export async function settle<Data extends Root, Variables extends Root>(...args: Parameters<typeof send<Data, Variables>>): Promise<void> {
  accepted({ errors: await send(...args) });
}
