import { parse, print, TokenKind } from 'graphql';
import { applyEdits, format as formatJSON } from 'jsonc-parser';

// GraphiQL formats with Prettier, which would make this page a third larger. This stands in for it, with as much of
// its interface as GraphiQL uses.
export function format(text, { parser }) {
  return parser === 'jsonc' ? json(text) : graphql(text);
}

export const printers = {};
export const parsers = {};

function json(text) {
  return applyEdits(text, formatJSON(text, undefined, { insertSpaces: true, tabSize: 2 }));
}

// graphql lets graphql-js print the document; one that has comments, which the printer drops, keeps its lines and is
// indented anew.
function graphql(text) {
  const document = parse(text);
  return hasComments(document) ? indent(text, document) : print(document);
}

function hasComments(document) {
  for (let token = document.loc.startToken; token; token = token.next) {
    if (token.kind === TokenKind.COMMENT) return true;
  }
  return false;
}

const OPEN = new Set([TokenKind.BRACE_L, TokenKind.PAREN_L, TokenKind.BRACKET_L]);
const CLOSE = new Set([TokenKind.BRACE_R, TokenKind.PAREN_R, TokenKind.BRACKET_R]);

function indent(text, document) {
  const lines = text.split(/\r\n|[\n\r]/);
  let depth = 0;
  let line = 0;
  for (let token = document.loc.startToken.next; token.kind !== TokenKind.EOF; token = token.next) {
    if (CLOSE.has(token.kind)) depth--;
    // The first token of a line carries its indentation; the inside of a block string stays as it is.
    if (token.line > line) lines[token.line - 1] = '  '.repeat(depth) + lines[token.line - 1].trimStart();
    line = token.line;
    if (OPEN.has(token.kind)) depth++;
  }
  return `${lines.map(l => l.trimEnd()).join('\n').trim()}\n`;
}
