import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import preact from '@preact/preset-vite';
import { stringifyDocument } from '@urql/core';
import { defineConfig, type Plugin, runnerImport } from 'vite';

const OUT = process.env.CONSOLE_OUT ?? '../dist';

// notice writes the licences of the packages that are in the build, beside it.
const notice: Plugin = {
  name: 'notice',
  async generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap(chunk => chunk.type === 'chunk' ? Object.keys(chunk.modules) : []);
    const folders = new Set(modules.map(id => /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)/.exec(id)?.[1]).filter(folder => folder !== undefined));
    const texts = [];
    for (const folder of [...folders].sort()) {
      const { name, version, license } = createRequire(import.meta.url)(`${folder}/package.json`);
      const file = (await readdir(folder)).find(entry => /^licen[cs]e/i.test(entry));
      texts.push(`${name} ${version} (${license})\n\n${file ? (await readFile(path.join(folder, file), 'utf8')).trim() : ''}\n`);
    }
    this.emitFile({ type: 'asset', fileName: 'NOTICE', source: texts.join(`\n${'-'.repeat(80)}\n\n`) });
  },
};

// documents writes what the console sends, as a server needs it that executes nothing else.
const documents: Plugin = {
  name: 'documents',
  async generateBundle() {
    const { module } = await runnerImport<Record<string, Parameters<typeof stringifyDocument>[0]>>('./src/gql/graphql.ts');
    const documents = Object.entries(module).filter(([name]) => name.endsWith('Document'));
    const texts = Object.fromEntries(documents.map(([name, document]) => [`console/${name.replace(/Document$/, '')}`, stringifyDocument(document)]));
    this.emitFile({ type: 'asset', fileName: 'documents.json', source: JSON.stringify(texts, null, 1) });
  },
};

// compressed leaves the files of a build as gzip alone, as the server has them in it.
const compressed: Plugin = {
  name: 'compressed',
  async closeBundle() {
    for (const entry of await readdir(OUT, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = path.join(entry.parentPath, entry.name);
      await writeFile(`${file}.gz`, gzipSync(await readFile(file), { level: 9 }));
      await rm(file);
    }
  },
};

// The names of files have the hashes of their contents: browsers keep them forever.
export default defineConfig({
  base: '/app/',
  plugins: [preact(), notice, documents, compressed],
  build: { outDir: OUT, emptyOutDir: true, target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/graphql': 'http://localhost:8080' } },
});
