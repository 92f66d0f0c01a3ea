// GraphiQL keeps tabs, variables and history, and a variable may be a password: they live as long as the browser
// tab, like the token. The theme alone is kept for good.
const LASTING = new Set(['graphiql:theme']);

// The panel at the left begins narrower than GraphiQL makes it, which leaves room for the operation.
const FIRST = { 'graphiql:docExplorerFlex': '0.22' };

const place = key => (LASTING.has(key) ? localStorage : sessionStorage);

export const storage = {
  getItem: key => place(key).getItem(key) ?? FIRST[key] ?? null,
  setItem: (key, value) => place(key).setItem(key, value),
  removeItem: key => place(key).removeItem(key),
  clear() {
    for (const key of keys()) place(key).removeItem(key);
  },
  get length() {
    return keys().length;
  },
};

function keys() {
  return [...Object.keys(sessionStorage), ...LASTING].filter(key => key.startsWith('graphiql:'));
}
