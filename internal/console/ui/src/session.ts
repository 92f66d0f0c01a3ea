// Who is logged in. The access token is in memory alone; the refresh token, which changes with each use, is where all tabs see it.
import { signal } from '@preact/signals';

const KEY = 'linkforge.refreshToken'; // the id of the user, a blank, and the token
const channel = new BroadcastChannel('linkforge.session');

// Tokens are those of an answer, with the user to whom they belong.
export type Tokens = { token?: string | null; refreshToken?: string | null; user?: { id: string } | null };

// token is null before the first renewal in this tab, and when nobody is logged in.
export const token = signal<string | null>(null);

// state is expired when the server has ended the session: what is on the screen stays until its user logs in again.
export const state = signal<'in' | 'out' | 'expired'>(localStorage.getItem(KEY) === null ? 'out' : 'in');

let shown: string | null = null; // the user whose data is on the screen

channel.onmessage = ({ data }: MessageEvent<{ userId: string | null }>) => {
  if (state.value === 'out' || shown === null) return;
  if (data.userId !== shown) leave();
  else if (state.value === 'expired') state.value = 'in'; // its tokens are in the storage
};

// leave forgets everything of the user whose data is on the screen, and begins again.
function leave(): void {
  state.value = 'out';
  location.assign('/app');
}

// start begins or renews a session, and reports whether the answer had one. If another user's data is on the screen, it is left.
export function start({ token: access, refreshToken, user }: Tokens): boolean {
  if (!access || !refreshToken || !user) return false;
  localStorage.setItem(KEY, `${user.id} ${refreshToken}`);
  channel.postMessage({ userId: user.id });
  if (shown !== null && shown !== user.id) return (leave(), true);
  shown = user.id;
  token.value = access;
  state.value = 'in';
  return true;
}

// end logs out in all tabs.
export function end(): void {
  localStorage.removeItem(KEY);
  channel.postMessage({ userId: null });
  leave();
}

// Where the page is not loaded securely, browsers have no locks.
const inTurn = <T>(what: () => Promise<T>): Promise<T> => navigator.locks ? navigator.locks.request(KEY, what) as Promise<T> : what();

// renew exchanges the refresh token for new tokens. Tabs take turns: the second one of a token would end the session.
// exchange returns no tokens if the session is over: then renew waits until its user logs in. It throws if the server cannot be reached.
export async function renew(exchange: (refreshToken: string) => Promise<Tokens>): Promise<void> {
  const old = token.value;
  await inTurn(async () => {
    if (state.value !== 'in' || token.value !== old) return;
    const stored = localStorage.getItem(KEY), [userId, refreshToken] = stored?.split(' ') ?? [];
    if (shown !== null && userId !== undefined && userId !== shown) return leave();
    const tokens = refreshToken ? await exchange(refreshToken) : {};
    if (localStorage.getItem(KEY) !== stored) return; // somebody has logged in or out meanwhile
    if (start(tokens)) return;
    localStorage.removeItem(KEY);
    token.value = null;
    state.value = shown === null ? 'out' : 'expired';
  });
  if (state.value === 'out' && shown !== null) return new Promise(() => {}); // nothing is sent any more: the page is left
  await new Promise<void>(resolve => {
    const stop = state.subscribe(now => now !== 'expired' && queueMicrotask(() => (stop(), resolve())));
  });
  if (state.value === 'in' && token.value === null) return renew(exchange); // with what another tab has stored
}
