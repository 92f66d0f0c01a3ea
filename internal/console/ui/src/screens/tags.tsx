// Tags, folders and UTM templates: what links are sorted by. Tags exist as long as links have them.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { ask, accepted, run, send, type UserError } from '../api';
import { usePlace } from '../app';
import {
  CreateFolderDocument, CreateUtmTemplateDocument, DeleteFolderDocument, DeleteUtmTemplateDocument, MoreFoldersDocument,
  ReplaceTagsDocument, TagsDocument, type TagsQuery, UpdateFolderDocument, UpdateUtmTemplateDocument,
} from '../gql/graphql';
import { FormDialog } from '../ui/dialogs';
import { Text, useFields } from '../ui/form';
import { attempt, Count, Empty, Menu, type MenuItem, Missing, say, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { useAddress, usePages } from '../ui/list';
import { Page, useScreen } from '../ui/page';
import { undoOf } from '../undo';

type Shown = NonNullable<TagsQuery['workspace']>;
type Actions = Pick<ReturnType<typeof useScreen>, 'open' | 'confirm' | 'refresh'>;
type ListProps = { shown: Shown; screen: Actions };
type Values = Record<string, string>;

export function Tags() {
  const { workspace } = usePlace();
  const { query, path } = useAddress();
  const screen = useScreen(TagsDocument, { by: { id: workspace.id } }), open = query['show'] ?? 'tags';
  const List = open === 'folders' ? FolderList : open === 'templates' ? TemplateList : TagList;
  return (
    <Page title="Tags" screen={screen}>
      {({ workspace: shown }) => (
        <>
          <nav class="tabs" aria-label="Kinds">
            {[['tags', 'Tags'], ['folders', 'Folders'], ['templates', 'UTM templates']].map(([name, text]) => (
              <a href={name === 'tags' ? path : `${path}?show=${name}`} aria-current={open === name ? 'page' : undefined} key={name}>{text}</a>
            ))}
          </nav>
          {shown && <List shown={shown} screen={screen} />}
        </>
      )}
    </Page>
  );
}

const MAX_MERGED = 20; // as many tags one call replaces

function TagList({ shown, screen: { open, refresh } }: ListProps) {
  const { workspace, may, base } = usePlace();
  const [picked, setPicked] = useState<string[]>([]);
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
    say(`The tags of ${changed === 1 ? 'one link' : `${changed} links`} are changed.`, operation ? undoOf(workspace.id, operation, refresh) : undefined);
    setPicked([]);
    refresh();
    return [];
  }
  const remove = (from: string[]) => void attempt(async () => accepted({ errors: await replace(from) }));
  const rename = (from: string[]) => open(close => (
    <Edit title={from.length > 1 ? `Merge ${from.length} tags` : `Rename “${from[0]}”`} action={from.length > 1 ? 'Merge' : 'Rename'}
      known={names} close={close} send={({ to }) => replace(from, to!.trim())} fields={[{ path: 'to', label: 'New name', value: from[0]!,
        hint: to => names.includes(to.trim()) && !from.includes(to.trim()) && 'This tag exists: the links get it, too.' }]} />
  ));

  if (!shown.tags) return <Missing what="The tags" />;
  if (rows.length === 0) {
    return <Empty title="No tags yet" text="Give tags to a link, and they are listed here with the number of their links." />;
  }
  return (
    <>
      {picked.length > 0 && (
        <div class="notice selection" role="toolbar" aria-label="Selected tags">
          <span class="grow">{picked.length} selected</span>
          <button class="button" onClick={() => rename(picked)}>Merge</button>
          <button class="button danger" onClick={() => remove(picked)}>Remove from links</button>
        </div>
      )}
      <ul class="items">
        {rows.map(({ name, linkCount }) => (
          <Item key={name} href={`${base}/links?tag=${encodeURIComponent(name)}`} name={name} count={linkCount}
            isPicked={picked.includes(name)}
            pick={may('LINKS_WRITE') && (picked.includes(name) || picked.length < MAX_MERGED) && (() => toggle(name))} actions={[
              { label: 'Rename', act: () => rename([name]) },
              { label: 'Remove from links', danger: true, act: () => remove([name]) },
            ]} />
        ))}
      </ul>
      {more}
    </>
  );
}

type Folder = NonNullable<Shown['folders']>['nodes'][number];

function FolderList({ shown, screen: { open, confirm, refresh } }: ListProps) {
  const { workspace, base } = usePlace();
  const { rows, more } = usePages(shown.folders, async after =>
    (await ask(MoreFoldersDocument, { by: { id: workspace.id }, after })).workspace?.folders);
  const edit = (old?: Folder) => open(close => (
    <Edit title={old ? `Rename “${old.name}”` : 'New folder'} action={old ? 'Rename' : 'Create folder'} close={close}
      fields={[{ path: 'name', label: 'Name', value: old?.name }]} send={({ name = '' }) => old
        ? send(UpdateFolderDocument, { input: { id: old.id, name } }, refresh)
        : send(CreateFolderDocument, { input: { workspaceId: workspace.id, name } }, refresh)} />
  ));
  const remove = ({ id, name }: Folder) => confirm({
    title: `Delete “${name}”?`, text: 'Its links stay, and are in no folder then. This cannot be undone.', action: 'Delete folder',
    confirm: async () => {
      for (let left = 1; left > 0;) left = accepted(await run(DeleteFolderDocument, { input: { id } })).remaining;
      say(`The folder “${name}” is deleted.`);
      refresh();
    },
  });
  if (!shown.folders) return <Missing what="The folders" />;
  return (
    <>
      <Add text="New folder" act={() => edit()} />
      {rows.length === 0 && <Empty title="No folders yet" text="A link is in one folder at most. API keys can be restricted to folders." />}
      <ul class="items">
        {rows.map(folder => (
          <Item key={folder.id} href={`${base}/links?folder=${folder.id}`} name={folder.name} count={folder.linkCount ?? undefined} actions={[
            { label: 'Rename', act: () => edit(folder) },
            { label: 'Delete', danger: true, act: () => remove(folder) },
          ]}><small>created <Time at={folder.createdAt} /></small></Item>
        ))}
      </ul>
      {more}
    </>
  );
}

type Template = NonNullable<Shown['utmTemplates']>['nodes'][number];

const UTM = ['source', 'medium', 'campaign', 'term', 'content'] as const;

function TemplateList({ shown: { utmTemplates }, screen: { open, refresh } }: ListProps) {
  const { workspace } = usePlace();
  const save = (old: Template | undefined, { name = '', ...values }: Values) => {
    const input = { name, utm: Object.fromEntries(UTM.map(part => [part, values[`utm.${part}`] || undefined])) };
    return old ? send(UpdateUtmTemplateDocument, { input: { id: old.id, ...input } }, refresh)
      : send(CreateUtmTemplateDocument, { input: { workspaceId: workspace.id, ...input } }, refresh);
  };
  const edit = (old?: Template) => open(close => (
    <Edit title={old ? 'Edit template' : 'New template'} action={old ? 'Save' : 'Create template'} close={close}
      send={values => save(old, values)} fields={[
        { path: 'name', label: 'Name', value: old?.name, hint: () => !!old && 'Links that have its values already keep them.' },
        ...UTM.map(part => ({ path: `utm.${part}`, label: `utm_${part}`, value: old?.utm[part] })),
      ]} />
  ));
  const remove = ({ id, name, utm }: Template) => void attempt(async () => {
    accepted(await run(DeleteUtmTemplateDocument, { input: { id } }));
    say(`The template “${name}” is deleted.`, async () => {
      const values = Object.fromEntries(UTM.map(part => [part, utm[part]]));
      accepted(await run(CreateUtmTemplateDocument, { input: { workspaceId: workspace.id, name, utm: values } }));
      refresh();
    });
    refresh();
  });
  if (!utmTemplates) return <Missing what="The templates" />;
  return (
    <>
      <Add text="New template" act={() => edit()} />
      {utmTemplates.nodes.length === 0 && <Empty title="No templates yet" text="A template fills in the UTM values of new links." />}
      <ul class="items">
        {utmTemplates.nodes.map(template => (
          <Item key={template.id} name={template.name} actions={[
            { label: 'Edit', act: () => edit(template) },
            { label: 'Delete', danger: true, act: () => remove(template) },
          ]}>
            <small class="cut">{UTM.flatMap(part => template.utm[part] ? `${part}: ${template.utm[part]}` : []).join(' · ')}</small>
          </Item>
        ))}
      </ul>
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
    <FormDialog title={title} action={action} submit={submit} close={close}>
      {fields.map(({ path, label, hint }, i) => (
        <Text key={path} label={label} path={path} value={values[path]!} change={set(path)} autofocus={i === 0}
          list={i === 0 && known ? 'known' : undefined} hint={hint?.(values[path]!)} />
      ))}
      <datalist id="known">{known?.map(value => <option value={value} key={value} />)}</datalist>
    </FormDialog>
  );
}
