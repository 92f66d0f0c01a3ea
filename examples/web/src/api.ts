// The client: queries and mutations by POST, subscriptions by server-sent events, and tokens that are renewed when they end.
import { authExchange } from '@urql/exchange-auth';
import { Client, type CombinedError, fetchExchange, subscriptionExchange } from '@urql/core';
import { createClient } from 'graphql-sse';

import { RefreshSession } from './operations';
import * as session from './session';

const url = import.meta.env.VITE_LINKFORGE_URL ?? 'http://localhost:8080/graphql';

// fetch can send the token in a header, which EventSource cannot. What is cut off is watched again by watch, which knows
// the last click that came, so nothing is tried again here.
const events = createClient({
  url,
  retryAttempts: 0,
  headers: (): Record<string, string> => {
    const token = session.load()?.token;
    return token ? { Authorization: `Bearer ${token}` } : {};
  },
});

// codeOf is why the server refused a request as a whole: extensions.code of its first error.
export function codeOf(error: CombinedError | undefined): string | undefined {
  return error?.graphQLErrors[0]?.extensions['code'] as string | undefined;
}

// connect makes the client. A session that cannot be renewed any more is over.
export function connect(over: () => void): Client {
  const auth = authExchange(async utils => ({
    addAuthToOperation: operation => {
      const token = session.load()?.token;
      return token ? utils.appendHeaders(operation, { Authorization: `Bearer ${token}` }) : operation;
    },
    didAuthError: error => session.load() !== null && codeOf(error) === 'UNAUTHENTICATED',
    refreshAuth: async () => {
      const refreshToken = session.load()?.refreshToken ?? '';
      session.save(null); // the old token would have the request for a new one refused
      const { data } = await utils.mutate(RefreshSession, { input: { refreshToken } });
      const renewed = data?.refreshSession;
      if (renewed?.token && renewed.refreshToken) session.save({ token: renewed.token, refreshToken: renewed.refreshToken });
      else over();
    },
  }));
  const subscribing = subscriptionExchange({
    forwardSubscription: ({ query, variables }) => ({
      subscribe: sink => ({
        unsubscribe: events.subscribe({ query: query ?? '', variables: variables as Record<string, unknown> }, sink),
      }),
    }),
  });
  return new Client({ url, preferGetMethod: false, exchanges: [auth, fetchExchange, subscribing] });
}
