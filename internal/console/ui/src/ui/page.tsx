// What the screens for administration share: one query with the dialog and the actions on it, its lists, and its sections.
import type { AnyVariables, TypedDocumentNode } from '@urql/core';
import { useQuery } from '@urql/preact';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { settle } from '../api';
import { Icon } from './icon';
import { attempt, Bones, Missing, type Open, Problem, say, useDialog, useKept } from './kit';

// useScreen is the query of a screen, whose variable after selects the page, and what one can do with its answer.
export function useScreen<Data, Variables extends AnyVariables>(query: TypedDocumentNode<Data, Variables>, variables: Variables) {
  const [after, setAfter] = useState<string>();
  const [{ data: latest, error }, reload] = useQuery({ query, variables: { ...variables, after } as Variables });
  const data = useKept(latest);
  const refresh = () => reload({ requestPolicy: 'network-only' });
  // act runs a mutation, says that it is done, and reads the answer again. It reports errors.
  const act = <D extends Record<string, unknown>, V extends Record<string, unknown>>(
    document: TypedDocumentNode<D, V>, variables: V, text: string, { undo, then }: Act = {},
  ) => attempt(() => settle(document, variables, async () => (await then?.(), say(text, undo)))).then(refresh);
  const { open, ...dialogs } = useDialog();
  // add is a button that opens a dialog in which something is created.
  const add = (label: string, content: (props: Adding) => ComponentChildren) => (
    <button class="button" onClick={() => open(close => content({ close, done: refresh, open }))}><Icon name="plus" />{label}</button>
  );
  return { data, error, refresh, act, add, after, setAfter, open, ...dialogs };
}

// Adding is what a dialog in which something is created, or changed, does next.
export type Adding = { close: () => void; done: () => void; open: Open };

// Act is a way back from a mutation, and what is to do after it.
type Act = { undo?: () => Promise<unknown>; then?: () => unknown };

type Screen<Data> = Omit<ReturnType<typeof useScreen>, 'data'> & { data: Data | undefined };

// Page is a title, what one can do there, and the answer of the screen.
export function Page<Data>({ title, actions, screen: { data, error, refresh, dialog }, children }: {
  title: string; actions?: ComponentChildren; screen: Screen<Data>; children: (data: Data) => ComponentChildren;
}) {
  return (
    <main>
      <header><h1 dir="auto">{title}</h1>{actions && <div class="row end">{actions}</div>}</header>
      {error && <Problem error={error} retry={refresh} />}
      {data ? children(data) : !error && <Bones />}
      {dialog}
    </main>
  );
}

type Connection<Node> = { nodes: Node[]; pageInfo?: { hasNextPage: boolean; endCursor?: string | null } } | null | undefined;

// Rows are the page of a connection that the screen shows. It says if the connection is missing, and shows empty if it has no nodes.
export function Rows<Node extends { id: string }>({ label, of, screen, empty, children }: {
  label: string; of: Connection<Node>; screen?: Screen<unknown>; empty?: ComponentChildren; children: (node: Node) => ComponentChildren;
}) {
  if (!of) return <Missing what={label} />;
  if (of.nodes.length === 0 && !screen?.after) return <>{empty}</>;
  const next = of.pageInfo?.hasNextPage ? of.pageInfo.endCursor : undefined;
  return (
    <>
      <ul class="rows" aria-label={label}>{of.nodes.map(node => <li key={node.id}>{children(node)}</li>)}</ul>
      {screen && (screen.after || next) && (
        <nav class="row" aria-label="Pages">
          {screen.after && <button class="button" onClick={() => screen.setAfter(undefined)}>First page</button>}
          {next && <button class="button" onClick={() => screen.setAfter(next)}>Next page</button>}
        </nav>
      )}
    </>
  );
}

// Line is a row of two lines of text, with its state and its actions at the end.
export function Line({ name, text, children }: { name: ComponentChildren; text?: ComponentChildren; children?: ComponentChildren }) {
  return <div class="row line"><span class="grow"><span class="cut">{name}</span><small>{text}</small></span>{children}</div>;
}

// Section is a part of a page with its name and its purpose at the side.
export function Section({ title, text, children, id }: { title: string; text?: string; children: ComponentChildren; id?: string }) {
  return (
    <section class="setting" id={id}>
      <div><h2>{title}</h2>{text && <small>{text}</small>}</div>
      <div class="stack">{children}</div>
    </section>
  );
}
