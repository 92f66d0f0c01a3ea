// First steps: name a workspace, paste a URL, copy the short URL.
import { useLocation } from 'preact-iso';
import { useState } from 'preact/hooks';

import { run } from '../api';
import { type User, useMe } from '../app';
import { CreateLinkDocument, type CreateLinkMutation, CreateWorkspaceDocument, RestoreWorkspaceDocument } from '../gql/graphql';
import { Form, Text, useFields } from '../ui/form';
import { attempt, Copy } from '../ui/kit';
import { withScheme } from '../ui/url';
import { Gatehouse } from './login';

type Made = NonNullable<NonNullable<CreateLinkMutation['createLink']>['link']>;

export function FirstSteps() {
  const { user } = useMe();
  const [workspace, setWorkspace] = useState<{ id: string; slug: string; name: string } | null>(null);
  const [link, setLink] = useState<Made | null>(null);
  if (!workspace) return <NameWorkspace user={user} done={setWorkspace} />;
  if (!link) return <FirstLink workspaceId={workspace.id} done={setLink} />;
  return <Done link={link} slug={workspace.slug} />;
}

function NameWorkspace({ user, done }: { user: User; done: (workspace: { id: string; slug: string; name: string }) => void }) {
  const { values, set } = useFields({ name: '', slug: '' });
  const slug = values.slug || slugOf(values.name);
  async function submit() {
    const { workspace, errors } = await run(CreateWorkspaceDocument, { input: { name: values.name, slug } });
    if (workspace) done(workspace);
    return errors;
  }
  const restore = (id: string) => attempt(() => run(RestoreWorkspaceDocument, { input: { id } }));
  return (
    <Gatehouse title={`Welcome, ${user.name}`}>
      <p class="soft">Links belong to a workspace, which you share with your team.</p>
      <Form action="Create workspace" submit={submit}>
        <Text label="Name of the workspace" path="name" value={values.name} change={set('name')} autofocus />
        <Text label="Workspace address" path="slug" value={slug} change={set('slug')} hint={`${location.host}/${slug || 'team'}/…`} />
      </Form>
      <p class="soft"><a href="/app/account">Your account</a></p>
      {user.restorable?.nodes.map(({ id, name }) => (
        <p class="notice" key={id}><span class="grow">{name} is deleted.</span><button class="button" onClick={() => restore(id)}>Restore</button></p>
      ))}
    </Gatehouse>
  );
}

function FirstLink({ workspaceId, done }: { workspaceId: string; done: (link: Made) => void }) {
  const { values, set } = useFields({ url: '' });
  async function submit() {
    const { link, errors } = await run(CreateLinkDocument, { input: { workspaceId, url: withScheme(values.url) } });
    if (link) done(link);
    return errors;
  }
  return (
    <Gatehouse title="Your first link">
      <Form action="Shorten" submit={submit}>
        <Text label="Paste a long URL" path="url" value={values.url} change={set('url')} placeholder="https://" inputMode="url" autofocus />
      </Form>
    </Gatehouse>
  );
}

function Done({ link, slug }: { link: Made; slug: string }) {
  const { route } = useLocation();
  const call = `curl ${location.origin}/graphql -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' -d '${
    JSON.stringify({ query: 'mutation($input: CreateLinkInput!) { createLink(input: $input) { shortUrl } }',
      variables: { input: { workspaceId: '…', url: link.originalUrl } } })}'`;
  return (
    <Gatehouse title="Your link is ready">
      <p class="row"><strong class="cut grow">{shortText(link.shortUrl)}</strong><Copy text={link.shortUrl} /></p>
      {link.qrCode && <img class="qr" src={link.qrCode.svgUrl} alt={`QR code of ${link.shortUrl}`} width="160" height="160" />}
      <details><summary>Create it with the API</summary><pre class="call mono">{call}</pre></details>
      <button class="button next" onClick={() => route(`/app/${slug}/links`)}>Go to your links</button>
    </Gatehouse>
  );
}

export const shortText = (url: string) => url.replace(/^https?:\/\//, '');

// slugOf is a slug that a name suggests.
function slugOf(name: string): string {
  return name.normalize('NFKD').toLowerCase().replaceAll(/\p{M}/gu, '').replaceAll('ß', 'ss').replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-+|-+$/g, '').slice(0, 40);
}
