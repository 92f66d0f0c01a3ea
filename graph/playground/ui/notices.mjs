// Gathers the licences of every package that a build has taken something from, and refuses what it cannot vouch for.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

const ALLOWED = new Set(['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']);

// These packages state their licence but leave its text out; a package of the same repository has it.
const SAME_REPOSITORY = {
  '@graphiql/plugin-doc-explorer': '@graphiql/react',
  '@graphiql/plugin-history': '@graphiql/react',
  'react-compiler-runtime': 'react',
  'react-remove-scroll-bar': 'react-remove-scroll',
};

// What monaco-editor carries of others, by the file it sits in. A heading names a section of its
// ThirdPartyNotices.txt; an address stands for a licence that may be named instead of repeated.
const MONACO = 'node_modules/monaco-editor/';
const CARRIED = [
  { name: 'nodejs path library', file: 'esm/vs/base/common/path.js', licence: 'MIT', heading: /^%% nodejs path library .*$/m },
  { name: 'marked 14.0.0', file: 'esm/vs/base/common/marked/marked.js', licence: 'MIT', heading: /^%% markedjs NOTICES.*$/m },
  { name: 'DOMPurify 3.1.7', file: 'esm/vs/base/browser/dompurify/dompurify.js', licence: 'Apache-2.0', sameAs: 'react-aria' },
  {
    name: 'Codicons font',
    file: 'esm/vs/base/browser/ui/codicons/codicon/codicon.ttf',
    licence: 'CC-BY-4.0',
    text: 'Copyright (c) Microsoft Corporation\nCreative Commons Attribution 4.0 International, https://creativecommons.org/licenses/by/4.0/legalcode\nUnchanged from https://github.com/microsoft/vscode-codicons',
  },
];
const CARRIED_COPYRIGHT = { 'DOMPurify 3.1.7': 'Copyright Cure53 and other contributors' };

// notices returns the text of NOTICE for the files that went into the bundle. It throws when a package's licence is
// unknown, not allowed, or without a text.
export async function notices(root, inputs) {
  const folders = [...new Set(inputs.map(packageFolder).filter(Boolean))];
  const packages = await Promise.all(folders.map(folder => describe(root, folder)));
  const all = [...packages, ...(await carried(root, inputs))].sort((a, b) => compare(a.name, b.name) || compare(a.title, b.title));
  const notice = write(all);
  const listed = new Set(notice.split('\n'));
  const missing = all.filter(p => !listed.has(`  ${p.title}`) || p.copyrights.some(c => !listed.has(`      ${c}`)));
  if (missing.length) throw new Error(`NOTICE leaves out ${missing.map(p => p.title).join(', ')}`);
  return notice;
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function packageFolder(input) {
  return /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
}

async function describe(root, folder) {
  const { name, version, license } = JSON.parse(await readFile(path.join(root, folder, 'package.json'), 'utf8'));
  if (!ALLOWED.has(license)) throw new Error(`${name} ${version} has the licence ${license}, which nobody has looked at`);
  const source = SAME_REPOSITORY[name] ? path.join('node_modules', SAME_REPOSITORY[name]) : folder;
  return { name, title: `${name} ${version} (${license})`, ...split(await licenceText(root, source)) };
}

async function licenceText(root, folder) {
  const file = (await readdir(path.join(root, folder))).sort().find(f => /^(licen[sc]e|copying)(-\w+)?(\.(md|txt))?$/i.test(f));
  if (!file) throw new Error(`${folder} has no licence text`);
  return readFile(path.join(root, folder, file), 'utf8');
}

async function carried(root, inputs) {
  const thirdParties = await readFile(path.join(root, MONACO, 'ThirdPartyNotices.txt'), 'utf8');
  await refuseUnlisted(root, inputs);
  return Promise.all(
    CARRIED.map(async ({ name, file, licence, heading, sameAs, text }) => {
      if (!inputs.includes(MONACO + file)) throw new Error(`monaco-editor no longer carries ${name} in ${file}`);
      const words = text ?? (heading ? section(thirdParties, heading) : await licenceText(root, `node_modules/${sameAs}`));
      const { copyrights, body } = split(words);
      const owners = CARRIED_COPYRIGHT[name] ? [CARRIED_COPYRIGHT[name]] : copyrights;
      return { name, title: `${name}, within monaco-editor (${licence})`, copyrights: owners, body };
    }),
  );
}

// refuseUnlisted throws when monaco-editor has come to carry somebody else's work that CARRIED does not know.
async function refuseUnlisted(root, inputs) {
  const known = new Set(CARRIED.map(c => MONACO + c.file));
  for (const file of new Set(inputs.filter(i => i.startsWith(MONACO) && !known.has(i)))) {
    const text = await readFile(path.join(root, file), 'utf8');
    const foreign = /@license|^[ */]*Copyright (?!\(c\) Microsoft)/m.exec(text) || /\.(ttf|woff2?|otf)$/.test(file);
    if (foreign) throw new Error(`${file} seems to be somebody else's work: add it to CARRIED`);
  }
}

function section(text, heading) {
  const start = heading.exec(text);
  if (!start) throw new Error(`ThirdPartyNotices.txt has no section ${heading}`);
  const rest = text.slice(start.index + start[0].length);
  return /^=+$([\s\S]*?)^=+$/m.exec(rest)[1];
}

// split takes the copyright lines, which differ from package to package, out of a licence, whose body is then shared.
function split(text) {
  const lines = text.replaceAll('\r', '').split('\n');
  const isCopyright = line => /^\s*(Copyright\b(?! \[)|©)/.test(line);
  const isTitle = line => /^[\s#]*(The )?(MIT|ISC|BSD|0BSD)[\w -]*Licen[sc]e[\s:]*(\(\w+\))?\s*$/i.test(line);
  const copyrights = lines.filter(isCopyright).map(line => line.trim());
  const body = lines.filter(line => !isCopyright(line) && !isTitle(line)).join('\n').trim();
  return { copyrights, body };
}

function write(packages) {
  const groups = new Map();
  for (const p of packages) {
    const key = p.body.replace(/\s+/g, ' ').replace(/[“”]/g, '"');
    groups.set(key, [...(groups.get(key) ?? []), p]);
  }
  const parts = [...groups.values()].map(group => {
    const names = group.map(p => [`  ${p.title}`, ...p.copyrights.map(c => `      ${c}`)].join('\n'));
    return `${names.join('\n')}\n\n${group[0].body}\n`;
  });
  return `The playground page holds the work of others. Each licence stands once, under the packages it covers.\n\n${parts.join(`\n${'='.repeat(80)}\n\n`)}`;
}
