// Edits of a link: a copy of some of its values, and saving what was changed of them.
import { useEffect, useState } from 'preact/hooks';

import { accepted, run, type UserError } from '../api';
import { type HeadFragment, RevertLinkDocument, UpdateLinkDocument, type UpdateLinkInput } from '../gql/graphql';
import { state } from '../session';
import { say } from '../ui/kit';

const CONFLICT = 'This link has been changed meanwhile. What you typed is still here: save again to put it in place of the other change.';

// Draft has no seen version after a conflict: then the present one is replaced.
type Draft<T> = { base: T; values: T; seen: string | undefined };

// edited are the drafts with changes, by link and part: they stay while one looks at something else.
const edited = new Map<string, Draft<unknown>>();
addEventListener('beforeunload', event => edited.size > 0 && state.value !== 'out' && event.preventDefault());

// discard forgets the drafts of a link that cannot be edited any more.
export const discard = (id: string) => [...edited.keys()].filter(key => key.startsWith(id)).forEach(key => edited.delete(key));

// useLinkDraft is a copy of values of a part of a link. While nothing of it is edited, it follows the link, which reload brings up to date.
export function useLinkDraft<T extends object>(part: string, link: HeadFragment, fresh: T, reload: () => void) {
  const key = `${link.id} ${part}`;
  const [draft, put] = useState(() => edited.get(key) as Draft<T> ?? { base: fresh, values: fresh, seen: link.updatedAt });
  const { base, values, seen } = draft;
  const changed = (Object.keys(values) as (keyof T)[]).filter(name => JSON.stringify(values[name]) !== JSON.stringify(base[name]));
  if (changed.length > 0) edited.set(key, draft);
  else edited.delete(key);
  const reset = () => put({ base: fresh, values: fresh, seen: link.updatedAt });
  useEffect(() => { if (changed.length === 0) reset(); }, [link.updatedAt]);

  const set = <K extends keyof T>(name: K) => (value: T[K]) => put(all => ({ ...all, values: { ...all.values, [name]: value } }));

  // save sends changes of the link as it was seen. After a conflict, the next attempt replaces the other change.
  async function save(changes: Omit<UpdateLinkInput, 'id'>): Promise<UserError[]> {
    const { link: saved, errors } = await run(UpdateLinkDocument, { input: { id: link.id, updatedAt: seen ?? link.updatedAt, ...changes } });
    if (saved) {
      const sent = (now: Draft<T>) => ({ ...now, base: values, seen: saved.updatedAt }); // what was typed since then stays
      if (edited.has(key)) edited.set(key, sent(edited.get(key) as Draft<T>));
      put(sent);
      say('Saved', saved.version > link.version ? () => revert(link.id, saved.version - 1) : undefined);
    }
    if (!errors.some(error => error.code === 'CONFLICT')) return errors;
    put(now => ({ ...now, seen: undefined }));
    reload();
    return [{ code: 'CONFLICT', message: CONFLICT }];
  }
  const footer = { disabled: changed.length === 0, cancel: changed.length > 0 ? reset : undefined }; // of the form
  return { values, set, changed, save, reset, footer };
}

// revert makes a link what it was in a version. It throws what is wrong.
export async function revert(id: string, version: number): Promise<void> {
  accepted(await run(RevertLinkDocument, { input: { id, version } }));
}

// pick are the changed parts of an input.
export function pick<T extends object>(input: T, names: readonly PropertyKey[]): Partial<T> {
  return Object.fromEntries(Object.entries(input).filter(([name]) => names.includes(name))) as Partial<T>;
}
