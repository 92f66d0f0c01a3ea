// Helpers that build elements. All text of users and of the server is set as text, never as markup.

type Properties<K extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[K], 'innerHTML' | 'outerHTML'>>;

export function element(id: string): HTMLElement {
  return document.getElementById(id)!;
}

// create returns an element with properties and children.
export function create<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<K> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

export function anchor(url: string) {
  return create('a', { href: url, target: '_blank', textContent: url.replace(/^https?:\/\//, '') });
}

export function button(label: string, press: () => unknown) {
  const created = create('button', { type: 'button', className: 'quiet', textContent: label });
  created.addEventListener('click', () => void press());
  return created;
}

export function small(text: string) {
  return create('small', { textContent: text });
}

export function values(form: HTMLFormElement): Record<string, string> {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
