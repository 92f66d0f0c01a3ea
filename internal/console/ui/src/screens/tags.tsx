// Tags, folders and UTM templates: what links are sorted by. Tags exist as long as links have them.
import { useQuery } from '@urql/preact';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { ask, accepted, run, type UserError } from '../api';
import { usePlace } from '../app';
import {
  CreateFolderDocument, CreateUtmTemplateDocument, DeleteFolderDocument, DeleteUtmTemplateDocument, MoreFoldersDocument,
  ReplaceTagsDocument, TagsDocument, type TagsQuery, UpdateFolderDocument, UpdateUtmTemplateDocument,
} from '../gql/graphql';
import { Form, Text, useFields } from '../ui/form';
import { attempt, Confirm, Count, Dialog, Empty, Menu, type MenuItem, Missing, say, Time, Wait } from '../ui/kit';
import { Icon } from '../ui/icon';
import { useAddress, usePages } from '../ui/list';
import { undoOf } from '../undo';

type Shown = NonNullable<TagsQuery['workspace']>;
type ListProps = { shown: Shown; reload: () => void };
type Values = Record<string, string>;

export function Tags() {
  const { workspace } = usePlace();
  const { query, path } = useAddress();
  const [{ data, error }, refetch] = useQuery({ query: TagsDocument, variables: { by: { id: workspace.id } } });
  const reload = () => refetch({ requestPolicy: 'network-only' });
  const shown = data?.workspace, open = query['show'] ?? 'tags';
  const List = open === 'folders' ? FolderList : open === 'templates' ? TemplateList : TagList;
  return (
    <main>
      <header><h1>Tags</h1></header>
      <nav class="tabs" aria-label="Kinds">
        {[['tags', 'Tags'], ['folders', 'Folders'], ['templates', 'UTM templates']].map(([name, text]) => (
          <a href={name === 'tags' ? path : `${path}?show=${name}`} aria-current={open === name ? 'page' : undefined} key={name}>{text}</a>
        ))}
      </nav>
      <Wait part={shown} error={error} reload={refetch} />
      {shown && <List shown={shown} reload={reload} />}
    </main>
  );
}

const MAX_MERGED = 20; // as many tags one call replaces

function TagList({ shown, reload }: ListProps) {
  const { workspace, may, base } = usePlace();
  const [picked, setPicked] = useState<string[]>([]);
  const [renamed, setRenamed] = useState<string[] | null>(null);
  const { rows, more } = usePages(shown.tags, async after =>
    (await ask(TagsDocument, { by: { id: workspace.id }, after })).workspace?.tags);
  const names = rows.map(({ name }) => name);
  const toggle = (name: string) => setPicked(picked.includes(name) ? picked.filter(one => one !== name) : [...picked, name]);

  async function replace(from: string[], to?: string): Promise<UserError[]> {
    let operation: string | null = null, changed = 0;
    for (let left = 1; left > 0;) {
      const answer = await run(ReplaceTagsDocument, { input: { workspaceId: workspace.id, from, to } });
      if (answer.errors.length > 0) return answer.errors;
      [operation, changed, left] = [answer.operationId ?? operation, changed + answer.changed, answer.remaining];
    }
    say(`The tags of ${changed === 1 ? 'one link' : `${changed} links`} are changed.`, operation ? undoOf(workspace.id, operation, reload) : undefined);
    setPicked([]);
    reload();
    return [];
  }
  const remove = (from: string[]) => void attempt(async () => accepted({ errors: await replace(from) }));
  const merged = (to: string) => names.includes(to.trim()) && !renamed?.includes(to.trim()) && 'This tag exists: the links get it, too.';

  if (!shown.tags) return <Missing what="The tags" />;
  if (rows.length === 0) {
    return <Empty title="No tags yet" text="Give tags to a link, and they are listed here with the number of their links." />;
  }
  return (
    <>
      {picked.length > 0 && (
        <div class="notice selection" role="toolbar" aria-label="Selected tags">
          <span class="grow">{picked.length} selected</span>
          <button class="button" onClick={() => setRenamed(picked)}>Merge</button>
          <button class="button danger" onClick={() => remove(picked)}>Remove from links</button>
        </div>
      )}
      <ul class="items">
        {rows.map(({ name, linkCount }) => (
          <Item key={name} href={`${base}/links?tag=${encodeURIComponent(name)}`} name={name} count={linkCount}
            isPicked={picked.includes(name)}
            pick={may('LINKS_WRITE') && (picked.includes(name) || picked.length < MAX_MERGED) && (() => toggle(name))} actions={[
              { label: 'Rename', act: () => setRenamed([name]) },
              { label: 'Remove from links', danger: true, act: () => remove([name]) },
            ]} />
        ))}
      </ul>
      {more}
      {renamed && (
        <Edit title={renamed.length > 1 ? `Merge ${renamed.length} tags` : `Rename “${renamed[0]}”`} known={names}
          action={renamed.length > 1 ? 'Merge' : 'Rename'} close={() => setRenamed(null)} send={({ to }) => replace(renamed, to!.trim())}
          fields={[{ path: 'to', label: 'New name', value: renamed[0]!, hint: merged }]} />
      )}
    </>
  );
}

type Folder = NonNullable<Shown['folders']>['nodes'][number];

function FolderList({ shown, reload }: ListProps) {
  const { workspace, base } = usePlace();
  const [edited, setEdited] = useState<Folder | 'new' | null>(null);
  const [removed, setRemoved] = useState<Folder | null>(null);
  const { rows, more } = usePages(shown.folders, async after =>
    (await ask(MoreFoldersDocument, { by: { id: workspace.id }, after })).workspace?.folders);
  const old = edited === 'new' ? null : edited;

  async function save({ name = '' }: Values) {
    const { errors } = old
      ? await run(UpdateFolderDocument, { input: { id: old.id, name } })
      : await run(CreateFolderDocument, { input: { workspaceId: workspace.id, name } });
    if (errors.length === 0) reload();
    return errors;
  }
  async function remove(folder: Folder) {
    for (let left = 1; left > 0;) left = accepted(await run(DeleteFolderDocument, { input: { id: folder.id } })).remaining;
    say(`The folder “${folder.name}” is deleted.`);
    reload();
  }
  if (!shown.folders) return <Missing what="The folders" />;
  return (
    <>
      <Add text="New folder" act={() => setEdited('new')} />
      {rows.length === 0 && <Empty title="No folders yet" text="A link is in one folder at most. API keys can be restricted to folders." />}
      <ul class="items">
        {rows.map(folder => (
          <Item key={folder.id} href={`${base}/links?folder=${folder.id}`} name={folder.name} count={folder.linkCount ?? undefined} actions={[
            { label: 'Rename', act: () => setEdited(folder) },
            { label: 'Delete', danger: true, act: () => setRemoved(folder) },
          ]}><small>created <Time at={folder.createdAt} /></small></Item>
        ))}
      </ul>
      {more}
      {edited && (
        <Edit title={old ? `Rename “${old.name}”` : 'New folder'} action={old ? 'Rename' : 'Create folder'} close={() => setEdited(null)}
          send={save} fields={[{ path: 'name', label: 'Name', value: old?.name }]} />
      )}
      {removed && (
        <Confirm title={`Delete “${removed.name}”?`} text="Its links stay, and are in no folder then. This cannot be undone."
          action="Delete folder" close={() => setRemoved(null)} confirm={() => remove(removed)} />
      )}
    </>
  );
}

type Template = NonNullable<Shown['utmTemplates']>['nodes'][number];

const UTM = ['source', 'medium', 'campaign', 'term', 'content'] as const;

function TemplateList({ shown: { utmTemplates }, reload }: ListProps) {
  const { workspace } = usePlace();
  const [edited, setEdited] = useState<Template | 'new' | null>(null);
  const old = edited === 'new' ? null : edited;

  async function save({ name = '', ...values }: Values) {
    const input = { name, utm: Object.fromEntries(UTM.map(part => [part, values[`utm.${part}`] || undefined])) };
    const { errors } = old
      ? await run(UpdateUtmTemplateDocument, { input: { id: old.id, ...input } })
      : await run(CreateUtmTemplateDocument, { input: { workspaceId: workspace.id, ...input } });
    if (errors.length === 0) reload();
    return errors;
  }
  const remove = ({ id, name, utm }: Template) => void attempt(async () => {
    accepted(await run(DeleteUtmTemplateDocument, { input: { id } }));
    say(`The template “${name}” is deleted.`, async () => {
      const values = Object.fromEntries(UTM.map(part => [part, utm[part]]));
      accepted(await run(CreateUtmTemplateDocument, { input: { workspaceId: workspace.id, name, utm: values } }));
      reload();
    });
    reload();
  });
  if (!utmTemplates) return <Missing what="The templates" />;
  return (
    <>
      <Add text="New template" act={() => setEdited('new')} />
      {utmTemplates.nodes.length === 0 && <Empty title="No templates yet" text="A template fills in the UTM values of new links." />}
      <ul class="items">
        {utmTemplates.nodes.map(template => (
          <Item key={template.id} name={template.name} actions={[
            { label: 'Edit', act: () => setEdited(template) },
            { label: 'Delete', danger: true, act: () => remove(template) },
          ]}>
            <small class="cut">{UTM.flatMap(part => template.utm[part] ? `${part}: ${template.utm[part]}` : []).join(' · ')}</small>
          </Item>
        ))}
      </ul>
      {edited && (
        <Edit title={old ? 'Edit template' : 'New template'} action={old ? 'Save' : 'Create template'} close={() => setEdited(null)}
          send={save} fields={[
            { path: 'name', label: 'Name', value: old?.name, hint: () => old && 'Links that have its values already keep them.' },
            ...UTM.map(part => ({ path: `utm.${part}`, label: `utm_${part}`, value: old?.utm[part] })),
          ]} />
      )}
    </>
  );
}

function Add({ text, act }: { text: string; act: () => void }) {
  return usePlace().may('LINKS_WRITE') ? <div><button class="button" onClick={act}><Icon name="plus" />{text}</button></div> : null;
}

type ItemProps = {
  name: string; href?: string; count?: number; actions: MenuItem[]; children?: ComponentChildren;
  isPicked?: boolean; pick?: (() => void) | false;
};

function Item({ name, href, count, isPicked, pick, actions, children }: ItemProps) {
  return (
    <li class="item">
      {pick && <input type="checkbox" checked={isPicked} onChange={pick} aria-label={`Select ${name}`} />}
      <span class="cut grow"><bdi>{href ? <a href={href}>{name}</a> : name}</bdi></span>
      {children}
      {count !== undefined && <span class="number" title={`${count} links`}><Count n={count} /></span>}
      {usePlace().may('LINKS_WRITE') && <Menu label={`Actions for ${name}`} items={actions}><Icon name="more" /></Menu>}
    </li>
  );
}

type EditProps = {
  title: string; action: string; known?: string[]; close: () => void; send: (values: Values) => Promise<UserError[]>;
  fields: { path: string; label: string; value?: string | null; hint?: (value: string) => string | false | null }[];
};

// Edit is a dialog of texts. It closes when they are sent without errors. known are values that the first one is likely to get.
function Edit({ title, action, known, fields, send, close }: EditProps) {
  const { values, set } = useFields<Values>(Object.fromEntries(fields.map(({ path, value }) => [path, value ?? ''])));
  async function submit() {
    const errors = await send(values);
    if (errors.length === 0) close();
    return errors;
  }
  return (
    <Dialog title={title} close={close}>
      <Form action={action} submit={submit} cancel={close}>
        {fields.map(({ path, label, hint }, i) => (
          <Text key={path} label={label} path={path} value={values[path]!} change={set(path)} autofocus={i === 0}
            list={i === 0 && known ? 'known' : undefined} hint={hint?.(values[path]!)} />
        ))}
        <datalist id="known">{known?.map(value => <option value={value} key={value} />)}</datalist>
      </Form>
    </Dialog>
  );
}
