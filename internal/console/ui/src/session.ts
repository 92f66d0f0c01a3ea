// Who is logged in. The access token is in memory alone; the refresh token, which changes with each use, is where all tabs see it.
import { signal } from '@preact/signals';

const KEY = 'linkforge.refreshToken';
const channel = new BroadcastChannel('linkforge.session');

export type Tokens = { token: string; refreshToken: string };

// token is null before the first renewal in this tab, and when nobody is logged in.
export const token = signal<string | null>(null);
export const isLoggedIn = signal(localStorage.getItem(KEY) !== null);

channel.onmessage = ({ data }) => {
  if (data === 'end') forget();
};

export function start(tokens: Tokens): void {
  localStorage.setItem(KEY, tokens.refreshToken);
  token.value = tokens.token;
  isLoggedIn.value = true;
}

// end logs out in all tabs.
export function end(): void {
  forget();
  channel.postMessage('end');
}

function forget(): void {
  localStorage.removeItem(KEY);
  token.value = null;
  isLoggedIn.value = false;
}

// renew exchanges the refresh token for new tokens. Tabs take turns: the second one of a token would end the session.
// exchange returns null if the session is over, and throws if the server cannot be reached.
export async function renew(exchange: (refreshToken: string) => Promise<Tokens | null>): Promise<void> {
  const old = token.value;
  await navigator.locks.request(KEY, async () => {
    const refreshToken = localStorage.getItem(KEY);
    if (token.value !== old || refreshToken === null) return;
    const tokens = await exchange(refreshToken);
    if (tokens) start(tokens);
    else end();
  });
}
