// Builds ../bundle.html.gz, the whole playground in one page, and ../NOTICE, the licences of what is in it.
// The same sources give the same bytes, on every machine: see "compress".
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

import { build } from 'esbuild';
import { gzipSync } from 'fflate';

import { notices } from './notices.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const BUNDLE = path.join(HERE, '..', 'bundle.html.gz');
const NOTICE = path.join(HERE, '..', 'NOTICE');

const ENTRIES = {
  main: 'src/main.jsx',
  'worker-editor': 'monaco-editor/esm/vs/editor/editor.worker.js',
  'worker-json': 'monaco-editor/esm/vs/language/json/json.worker.js',
  'worker-graphql': 'monaco-graphql/esm/graphql.worker.js',
};

// prettify puts our small formatter in the place of Prettier, which GraphiQL and its worker import.
const prettify = {
  name: 'prettify',
  setup({ onResolve }) {
    onResolve({ filter: /^prettier\// }, () => ({ path: path.join(HERE, 'src', 'prettify.js') }));
  },
};

const results = {};
for (const [name, entry] of Object.entries(ENTRIES)) results[name] = await bundle(entry);

const notice = await notices(HERE, Object.values(results).flatMap(r => Object.keys(r.metafile.inputs)));
const page = fillIn(await readFile(path.join(HERE, 'src', 'index.html'), 'utf8'), {
  style: asStyle(text(results.main, '.css')),
  script: asScript(text(results.main, '.js')),
  ...Object.fromEntries(Object.keys(ENTRIES).filter(n => n !== 'main').map(n => [n, asScript(text(results[n], '.js'))])),
  notice: asComment(notice),
});
const compressed = compress(page);
await writeFile(NOTICE, notice);
await writeFile(BUNDLE, compressed);
console.log(`bundle.html.gz: ${compressed.length} bytes, ${Buffer.byteLength(page)} as a page`);

function bundle(entry) {
  return build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    outdir: 'out',
    write: false,
    bundle: true,
    metafile: true,
    minify: true,
    charset: 'utf8',
    format: 'iife',
    target: 'es2022',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"' },
    loader: { '.ttf': 'dataurl' },
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [prettify],
  });
}

function text({ outputFiles }, extension) {
  return outputFiles.filter(f => f.path.endsWith(extension)).map(f => f.text).join('\n');
}

// asScript makes JavaScript safe inside a script element: neither a comment's opening nor a script tag may occur in
// it. Both occur in strings and patterns only, where an escape means the same.
function asScript(source) {
  const escaped = source.trim().replaceAll('<!--', '\\x3C!--').replace(/<(?=\/?script)/gi, '\\x3C');
  new Script(escaped);
  return escaped;
}

function asStyle(source) {
  if (/<\/style/i.test(source)) throw new Error('the style would end its element');
  const foreign = source.match(/@import[^;]*|url\(\s*["']?(?!data:|["']?#)[^)]*\)/gi);
  if (foreign) throw new Error(`the style loads ${foreign.join(', ')}`);
  return source.trim();
}

function asComment(source) {
  if (/--!?>/.test(source)) throw new Error('the notice would end its comment');
  return source.trim();
}

function fillIn(template, parts) {
  return template.replace(/\{\{([\w-]+)\}\}/g, (_, name) => {
    if (!(name in parts)) throw new Error(`nothing to put in place of ${name}`);
    return parts[name];
  });
}

// compress does not use zlib, whose output depends on its version and on the processor. Neither time nor system is
// written into the header.
function compress(page) {
  const compressed = gzipSync(new TextEncoder().encode(page), { level: 9, mtime: 0 });
  compressed[9] = 255;
  return compressed;
}
