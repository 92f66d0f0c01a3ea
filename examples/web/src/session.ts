// Who is logged in. The tokens live as long as the tab does.
export type Session = { token: string; refreshToken: string };

const KEY = 'linkforge.session';

export function load(): Session | null {
  const text = sessionStorage.getItem(KEY);
  return text === null ? null : (JSON.parse(text) as Session);
}

export function save(session: Session | null): void {
  if (session === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, JSON.stringify(session));
}
