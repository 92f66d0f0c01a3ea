// Who is logged in. The access token is in memory alone; the refresh token, which changes with each use, is where all tabs see it.
import { signal } from '@preact/signals';

const KEY = 'linkforge.refreshToken';
const channel = new BroadcastChannel('linkforge.session');

export type Tokens = { token: string; refreshToken: string };

// token is null before the first renewal in this tab, and when nobody is logged in.
export const token = signal<string | null>(null);

// state is expired when the server has ended the session: what is on the screen stays until somebody logs in again.
export const state = signal<'in' | 'out' | 'expired'>(localStorage.getItem(KEY) === null ? 'out' : 'in');

channel.onmessage = ({ data }) => {
  if (data === 'end') forget();
  else if (state.value === 'expired') state.value = 'in'; // its tokens are in the storage
};

export function start(tokens: Tokens): void {
  localStorage.setItem(KEY, tokens.refreshToken);
  token.value = tokens.token;
  state.value = 'in';
  channel.postMessage('start');
}

// end logs out in all tabs.
export function end(): void {
  forget();
  channel.postMessage('end');
}

function forget(): void {
  localStorage.removeItem(KEY);
  token.value = null;
  state.value = 'out';
}

// renew exchanges the refresh token for new tokens. Tabs take turns: the second one of a token would end the session.
// exchange returns null if the session is over: then renew waits until somebody logs in. It throws if the server cannot be reached.
export async function renew(exchange: (refreshToken: string) => Promise<Tokens | null>): Promise<void> {
  const old = token.value;
  await navigator.locks.request(KEY, async () => {
    if (state.value !== 'in' || token.value !== old) return;
    const refreshToken = localStorage.getItem(KEY), tokens = refreshToken === null ? null : await exchange(refreshToken);
    if (tokens) return start(tokens);
    localStorage.removeItem(KEY);
    token.value = null;
    state.value = old === null ? 'out' : 'expired'; // without an earlier token, there is nothing on the screen to go on with
  });
  await new Promise<void>(resolve => {
    const stop = state.subscribe(now => now !== 'expired' && queueMicrotask(() => (stop(), resolve())));
  });
}
