// CreateLink makes a link in place: one field, and the others for those who want them.
import { useEffect, useState } from 'preact/hooks';

import { client, run } from '../api';
import { usePlace } from '../app';
import { CreateLinkDocument, PreviewCodeDocument, type PreviewCodeQuery } from '../gql/graphql';
import { Choice, Form, Text, useFields } from '../ui/form';
import { Dialog, say } from '../ui/kit';
import { withScheme } from '../ui/url';
import { shortText } from './first';
import type { Offers } from './links';

const PREVIEW_AFTER_MS = 300;

export function CreateLink({ offers, close, done }: { offers: Offers; close: () => void; done: () => void }) {
  const { workspace } = usePlace();
  const { values, set } = useFields({ url: '', customCode: '', title: '', tags: '', folderId: '', expiresAt: '', maxClicks: '' });
  const [hasMore, setMore] = useState(false);
  const url = withScheme(values.url);
  const preview = usePreview(workspace.id, url);

  async function submit() {
    const { link, created, errors } = await run(CreateLinkDocument, { input: {
      workspaceId: workspace.id, url,
      ...(values.customCode && { strategy: 'CUSTOM' as const, customCode: values.customCode }),
      title: values.title || undefined,
      tags: values.tags ? values.tags.split(',').map(tag => tag.trim()).filter(Boolean) : undefined,
      folderId: values.folderId || undefined,
      expiresAt: values.expiresAt ? new Date(values.expiresAt).toISOString() : undefined,
      maxClicks: values.maxClicks ? Number(values.maxClicks) : undefined,
    } });
    if (link) {
      await navigator.clipboard?.writeText(link.shortUrl).catch(() => {});
      say(`${shortText(link.shortUrl)} ${created ? 'is created' : 'exists already'}, and copied.`);
      done();
      close();
    }
    return errors;
  }

  return (
    <Dialog title="New link" close={close}>
      <Form action="Create link" submit={submit} cancel={close}>
        <Text label="Destination" path="url" value={values.url} change={set('url')} placeholder="https://" inputMode="url" autofocus
          hint={hintOf(values.url, url, preview)} />
        <Text label="Short code" path="customCode" value={values.customCode} change={set('customCode')} placeholder={preview?.codes[0] ?? 'made up'}
          hint="Leave it empty to have one made." />
        {hasMore ? (
          <>
            <Text label="Title" path="title" value={values.title} change={set('title')} />
            <Text label="Tags" path="tags" value={values.tags} change={set('tags')} hint="Separated by commas." list="tags" />
            <datalist id="tags">{offers?.tags?.nodes.map(({ name }) => <option value={name} key={name} />)}</datalist>
            {!!offers?.folders?.nodes.length && <Choice label="Folder" path="folderId" value={values.folderId} change={set('folderId')}
              options={[['', 'None'], ...offers.folders.nodes.map(({ id, name }) => [id, name] as const)]} />}
            <div class="two">
              <Text label="Ends" path="expiresAt" type="datetime-local" value={values.expiresAt} change={set('expiresAt')} />
              <Text label="Ends after clicks" path="maxClicks" type="number" min="1" value={values.maxClicks} change={set('maxClicks')} />
            </div>
          </>
        ) : <button class="button plain" type="button" onClick={() => setMore(true)}>Title, tags, end…</button>}
      </Form>
    </Dialog>
  );
}

type Preview = PreviewCodeQuery['previewCode'];

function hintOf(typed: string, url: string, preview: Preview | null) {
  if (preview?.existing) return <>This URL has a link already: {shortText(preview.existing.shortUrl)}</>;
  return typed && url !== typed.trim() ? url : undefined;
}

// usePreview is what a new link of a URL would be, once typing pauses.
function usePreview(workspaceId: string, url: string): Preview | null {
  const [preview, setPreview] = useState<Preview | null>(null);
  useEffect(() => {
    setPreview(null);
    if (!URL.canParse(url)) return;
    let isLate = false;
    const timer = setTimeout(async () => {
      const { data } = await client.query(PreviewCodeDocument, { workspaceId, url }, { requestPolicy: 'network-only' });
      if (data && !isLate) setPreview(data.previewCode);
    }, PREVIEW_AFTER_MS);
    return () => (clearTimeout(timer), isLate = true, undefined);
  }, [url]);
  return preview;
}
