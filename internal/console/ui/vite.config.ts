import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import preact from '@preact/preset-vite';
import { defineConfig, type Plugin } from 'vite';

const OUT = '../dist';

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
  plugins: [preact(), compressed],
  build: { outDir: OUT, emptyOutDir: true, target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/graphql': 'http://localhost:8080' } },
});
