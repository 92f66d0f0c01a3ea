import { useGraphiQL } from '@graphiql/react';
import { useEffect } from 'react';

const ADDRESS = /https?:\/\/[^\s"\\<>]+/g;
const CONTENT_TEXT = 6; // monaco.editor.MouseTargetType.CONTENT_TEXT

// ResultLinks makes the addresses in the result pane clickable. The editor alone would ask for Ctrl and a click.
export function ResultLinks() {
  const editor = useGraphiQL(state => state.responseEditor);
  useEffect(() => {
    if (!editor) return;
    editor.updateOptions({ links: false });
    const decorations = editor.createDecorationsCollection();
    let pressed = null;
    const paint = () => decorations.set(editor.getModel() ? addresses(editor.getModel()) : []);
    const listeners = [
      editor.onDidChangeModelContent(paint),
      editor.onMouseDown(e => (pressed = e.event.leftButton ? addressAt(editor, e.target) : null)),
      editor.onMouseUp(e => {
        const address = addressAt(editor, e.target);
        // A drag selects text; only a plain click follows the link.
        if (address && address === pressed && editor.getSelection()?.isEmpty()) open(address);
        pressed = null;
      }),
    ];
    paint();
    return () => {
      for (const listener of listeners) listener.dispose();
      decorations.clear();
    };
  }, [editor]);
  return null;
}

const open = address => window.open(address, '_blank', 'noopener,noreferrer');

function addresses(model) {
  return model.getLinesContent().flatMap((line, i) =>
    [...line.matchAll(ADDRESS)].map(({ index, 0: text }) => ({
      range: { startLineNumber: i + 1, startColumn: index + 1, endLineNumber: i + 1, endColumn: index + 1 + text.length },
      options: { inlineClassName: 'result-link', hoverMessage: { value: 'Click to open in a new tab' } },
    })),
  );
}

function addressAt(editor, target) {
  if (target.type !== CONTENT_TEXT || !target.position) return null;
  const { lineNumber, column } = target.position;
  const line = editor.getModel().getLineContent(lineNumber);
  for (const { index, 0: text } of line.matchAll(ADDRESS)) {
    if (index < column && column <= index + 1 + text.length) return text;
  }
  return null;
}
