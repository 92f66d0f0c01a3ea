// CreateLink makes a link in place: one field, and the others for those who want them.
import { useEffect, useState } from 'preact/hooks';

import { client, run } from '../api';
import { usePlace } from '../app';
import { CreateLinkDocument, PreviewCodeDocument, type PreviewCodeQuery } from '../gql/graphql';
import { bind, Choice, Form, instantOf, listOf, Text } from '../ui/form';
import { Dialog, say } from '../ui/kit';
import { withScheme } from '../ui/url';
import { shortText } from './first';
import { GateFields, UtmFields } from './link-routing';
import type { Offers } from './links';
import { noGate, noUtm, toGate, toUtm } from './rule-draft';

const PREVIEW_AFTER_MS = 300;

export function CreateLink({ offers, close, done }: { offers: Offers; close: () => void; done: () => void }) {
  const { workspace } = usePlace();
  const [values, setValues] = useState({
    url: '', customCode: '', title: '', tags: '', folderId: '', domainId: '', startsAt: '', expiresAt: '', maxClicks: '', utm: noUtm, gate: noGate,
  });
  const field = bind(values, setValues);
  const [hasMore, setMore] = useState(false);
  const url = withScheme(values.url);
  const preview = usePreview(workspace.id, url);
  const utm = toUtm(values.utm), gate = toGate(values.gate);
  const hosts = offers?.domains?.nodes.filter(({ status, codeSpace }) => status === 'VERIFIED' && codeSpace === 'OWN') ?? [];
  const hasGate = values.gate.password || gate.notice || gate.confirm;

  async function submit() {
    const { link, created, errors } = await run(CreateLinkDocument, { input: {
      workspaceId: workspace.id, url,
      ...(values.customCode && { strategy: 'CUSTOM' as const, customCode: values.customCode }),
      title: values.title || undefined,
      tags: values.tags ? listOf(values.tags) : undefined,
      folderId: values.folderId || undefined,
      domainId: values.domainId || undefined,
      startsAt: instantOf(values.startsAt),
      expiresAt: instantOf(values.expiresAt),
      maxClicks: values.maxClicks ? Number(values.maxClicks) : undefined,
      routing: utm || hasGate ? { ...(utm && { utm }), ...(hasGate && { gate }) } : undefined,
    } });
    if (link) {
      await navigator.clipboard?.writeText(link.shortUrl).catch(() => {});
      say(`${shortText(link.shortUrl)} ${created ? 'created' : 'exists already'}, and copied.`);
      done();
      close();
    }
    return errors;
  }

  return (
    <Dialog title="New link" close={close} sticky>
      <Form action="Create link" submit={submit} cancel={close}>
        <Text label="Destination" {...field('url')} placeholder="https://" inputMode="url" autofocus
          hint={hintOf(values.url, url, preview)} />
        <Text label="Short code" {...field('customCode')} placeholder={preview?.codes[0] ?? 'automatic'}
          hint="Leave it empty to have one made." />
        {hasMore ? (
          <>
            <Text label="Title" {...field('title')} />
            <Text label="Tags" {...field('tags')} hint="Separated by commas." list="tags" />
            <datalist id="tags">{offers?.tags?.nodes.map(({ name }) => <option value={name} key={name} />)}</datalist>
            {!!offers?.folders?.nodes.length && <Choice label="Folder" {...field('folderId')}
              options={[['', 'None'], ...offers.folders.nodes.map(({ id, name }) => [id, name] as const)]} />}
            {hosts.length > 0 && <Choice label="Host" {...field('domainId')} hint="These have codes of their own."
              options={[['', 'That of the workspace'], ...hosts.map(({ id, host }) => [id, host] as const)]} />}
            <div class="cells">
              <Text label="Starts" type="datetime-local" {...field('startsAt')} />
              <Text label="Ends" type="datetime-local" {...field('expiresAt')} />
              <Text label="Ends after clicks" type="number" min="1" {...field('maxClicks')} />
            </div>
            <div class="folds">
              <details><summary>UTM values</summary><UtmFields utm={values.utm} set={field('utm').change} offers={offers} /></details>
              <details><summary>Password or notice</summary><GateFields gate={values.gate} set={field('gate').change} /></details>
            </div>
          </>
        ) : <button class="button plain" type="button" onClick={() => setMore(true)}>Title, tags, UTM, end, password…</button>}
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
