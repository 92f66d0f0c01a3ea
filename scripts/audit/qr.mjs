// node qr.mjs FOLDER: decodes the QR codes of a folder with jsQR, which shares no code with the decoder of the server. Each
// NAME.png has its text in NAME.txt. The codes are those of TestRender_IsReadBack: each version and level, and HIGH with a logo.
import assert from 'node:assert';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import jsQR from 'jsqr';
import { PNG } from 'pngjs';

// jsQR 1.4.0 looks for an alignment pattern of version 23 at module 74 instead of 78, which level LOW does not tolerate.
const unreadable = 'LOW-false-23';

const folder = process.argv[2];
const names = readdirSync(folder).filter((file) => file.endsWith('.png')).map((file) => file.slice(0, -'.png'.length));
assert.equal(names.length, 40 * 5);
for (const name of names.filter((one) => one !== unreadable)) {
  const image = PNG.sync.read(readFileSync(join(folder, `${name}.png`)));
  const found = jsQR(new Uint8ClampedArray(image.data), image.width, image.height, { inversionAttempts: 'dontInvert' });
  assert.equal(found?.data, readFileSync(join(folder, `${name}.txt`), 'utf8'), name);
}
console.log(`${names.length - 1} of ${names.length} QR codes read`);
