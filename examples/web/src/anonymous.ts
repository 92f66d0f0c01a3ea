// Links that this browser created without an account. The claim token proves that a link is the visitor's, and the server
// returns it only once: so it stays in localStorage until the link is claimed or can no longer be claimed.
import type { Client, CombinedError } from '@urql/core';

import { ClaimLinks } from './operations';

export type AnonymousLink = { claimToken: string; shortUrl: string; url: string; expiresAt: string };

// Outcome is what became of the stored links at sign-in.
export type Outcome = {
  claimed: AnonymousLink[]; // now links of the workspace
  expired: AnonymousLink[]; // ended before the claim; stored until the user creates them again or dismisses them
  lost: AnonymousLink[]; // unknown to the server, or claimed by another workspace
  refused: string[]; // messages: not possible now, tried again at the next sign-in
  error?: CombinedError; // the request failed: nothing was removed
};

const KEY = 'linkforge.anonymous';
const MAX_TOKENS = 100; // of one call of claimLinks

export function load(): AnonymousLink[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(stored) ? stored : [];
  } catch {
    return []; // not written by this page
  }
}

export function add(link: AnonymousLink): void {
  localStorage.setItem(KEY, JSON.stringify([...load(), link]));
}

export function remove(links: AnonymousLink[]): void {
  const rest = load().filter(stored => !links.some(link => link.claimToken === stored.claimToken));
  if (rest.length > 0) localStorage.setItem(KEY, JSON.stringify(rest));
  else localStorage.removeItem(KEY);
}

// claim moves the stored links into a workspace, and removes from localStorage those whose state is final.
export async function claim(client: Client, workspaceId: string): Promise<Outcome> {
  const outcome: Outcome = { claimed: [], expired: [], lost: [], refused: [] };
  const stored = load();
  for (let from = 0; from < stored.length; from += MAX_TOKENS) {
    const links = stored.slice(from, from + MAX_TOKENS);
    const claimTokens = links.map(link => link.claimToken);
    const { data, error } = await client.mutation(ClaimLinks, { input: { workspaceId, claimTokens } });
    if (error) return { ...outcome, error };
    outcome.refused.push(...data!.claimLinks!.errors.map(e => e.message));
    data!.claimLinks!.results.forEach((result, i) => {
      const link = links[i]!;
      switch (result.status) {
        case 'CLAIMED':
        case 'ALREADY_CLAIMED': // by this workspace, for example in another tab; by another one there is no link
          (result.link ? outcome.claimed : outcome.lost).push(link);
          break;
        case 'EXPIRED': // the short URL answers 410 for good, but the destination is known: offer a new link
          outcome.expired.push(link);
          break;
        case 'UNKNOWN': // never issued by this server, or purged long after its end: no later claim can succeed
          outcome.lost.push(link);
          break;
        case 'REFUSED': // such as QUOTA_EXCEEDED: keep the token
          outcome.refused.push(...result.errors.map(e => e.message));
      }
    });
    remove([...outcome.claimed, ...outcome.lost]);
  }
  return outcome;
}
