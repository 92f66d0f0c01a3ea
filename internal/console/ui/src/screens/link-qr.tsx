// The QR code of a link in a style, as a picture and as files.
import { useQuery } from '@urql/preact';
import { useRef, useState } from 'preact/hooks';

import { type HeadFragment, LinkQrDocument, type QrStyleInput } from '../gql/graphql';
import { bind, Choice, Field, messageOf, Text } from '../ui/form';
import { attempt, Bones, Dialog } from '../ui/kit';

const PLAIN = { size: '512', foreground: '#000000', background: '#ffffff', logo: '' };

export function Qr({ link, close }: { link: HeadFragment; close: () => void }) {
  const [isStyled, setStyled] = useState(false); // else: as the workspace saved it
  const [source, setSource] = useState('');
  const [values, setValues] = useState(PLAIN);
  const { size, logo } = values, field = bind(values, setValues);
  const style: QrStyleInput | undefined = isStyled
    ? { ...values, size: Number(size), logo: logo || null, level: logo ? 'HIGH' : 'MEDIUM' } : undefined;
  const [{ data, error }] = useQuery({ query: LinkQrDocument, variables: { id: link.id, source: source || undefined, style } });
  const last = useRef(''); // stays in its place while the next one is drawn
  last.current = data?.link?.qrCode?.svg ?? last.current;
  const address = `data:image/svg+xml,${encodeURIComponent(last.current)}`;
  const sources: [string, string][] = data?.link?.routing.qrSources.map(one => [one, one]) ?? [];
  const name = `qr-${link.code.replaceAll('/', '-')}`;
  const color = (label: string, key: 'foreground' | 'background') => (
    <Field label={label} path={key}>
      {control => <input {...control} type="color" class="input" value={values[key]}
        onChange={event => field(key).change(event.currentTarget.value)} />}
    </Field>
  );
  return (
    <Dialog title="QR code" close={close}>
      {last.current && <img class="qr" src={address} alt={`QR code of ${link.shortUrl}`} width="200" height="200" />}
      {!last.current && !error && <Bones rows={8} />}
      {error && <p class="form-error" role="alert">{messageOf(error)}</p>}
      {sources.length > 0 && (
        <Choice label="Counted as" path="source" value={source} change={setSource} options={[['', 'An ordinary visit'], ...sources]} />
      )}
      {isStyled ? (
        <div class="cells small">
          {color('Foreground', 'foreground')}
          {color('Background', 'background')}
          <Text label="Width of the PNG" type="number" {...field('size')} />
          <Field label="Logo" path="logo" hint="PNG or JPEG, at most 64 kB.">
            {control => <input {...control} type="file" accept="image/png,image/jpeg"
              onChange={event => read(event.currentTarget.files?.[0]).then(field('logo').change)} />}
          </Field>
        </div>
      ) : <button class="button plain" onClick={() => setStyled(true)}>Colors, size, logo…</button>}
      <footer>
        <a class="button" href={address} download={`${name}.svg`}>Download SVG</a>
        <button class="button next" onClick={() => attempt(() => savePng(address, Number(size), name))}>Download PNG</button>
      </footer>
    </Dialog>
  );
}

// read is a file in base64.
async function read(file: File | undefined): Promise<string> {
  if (!file) return '';
  const bytes = new Uint8Array(await file.arrayBuffer());
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
}

// savePng draws an image in a width, and saves it. The server's PNG has the saved style of the workspace alone.
async function savePng(address: string, size: number, name: string): Promise<void> {
  const image = new Image(size, size);
  image.src = address;
  await image.decode();
  const canvas = Object.assign(document.createElement('canvas'), { width: size, height: size });
  canvas.getContext('2d')!.drawImage(image, 0, 0, size, size);
  const blob = await new Promise<Blob | null>(done => canvas.toBlob(done, 'image/png'));
  const url = URL.createObjectURL(blob!);
  Object.assign(document.createElement('a'), { href: url, download: `${name}.png` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
