// Clicks as they come, for as long as somebody wants them.
import type { Client } from '@urql/core';

import { codeOf } from './api';
import type { ClicksSubscription } from './gql/graphql';
import { Clicks } from './operations';

export type Click = ClicksSubscription['linkClicked'];

// watch tells each click of a workspace once, across lost connections: it goes on after the last one that came. When none
// has come yet, or the server does not know it any more after a long time, clicks may be missing, and missed is called. What
// watch returns ends it.
export function watch(client: Client, workspace: string, heard: (click: Click) => void, missed: () => void): () => void {
  let after: string | undefined;
  let pause = 1000;
  let waiting: ReturnType<typeof setTimeout>;
  let leave = () => {};
  let over = false;

  function subscribe() {
    const { unsubscribe } = client.subscription(Clicks, { workspace, after }).subscribe(({ data, error }) => {
      if (data) {
        after = data.linkClicked.id;
        pause = 1000;
        heard(data.linkClicked);
      }
      if (error && !over) again(codeOf(error));
    });
    leave = unsubscribe;
  }

  function again(code: string | undefined) {
    leave();
    if (code === 'EXPIRED') after = undefined;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const gap = after === undefined;
      subscribe();
      if (gap) missed();
    }, pause);
    pause = Math.min(2 * pause, 30_000);
  }

  subscribe();
  return () => {
    over = true;
    clearTimeout(waiting);
    leave();
  };
}
