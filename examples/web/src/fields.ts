// Form fields that know their path in LinkRoutingInput, and user errors at the fields that they name.
import { create, small } from './dom';

// Path is the position of a value below the routing, as in rules, 2, targets, 0, url.
export type Path = (string | number)[];
export type UserError = { message: string; field?: string[] | null };

type Options = { label: string; path: Path; hint?: string; placeholder?: string };
type Control = HTMLInputElement | HTMLSelectElement;

const CONTROLS = 'input, select';

// marked gives an element the path at which user errors find it.
export function marked<T extends HTMLElement>(path: Path, marked: T): T {
  marked.dataset['path'] = path.join('/');
  return marked;
}

function labelled(control: Control, { label, path, hint }: Options): HTMLLabelElement {
  return create('label', {}, label, ...(hint ? [small(hint)] : []), marked(path, control));
}

type TextOptions = Options & { value: string; type?: string; list?: string };
type NumberOptions = Options & { value: number | null; min: number; max?: number };
type SelectOptions<T extends string> = Options & { value: T; choices: Record<T, string> };

export function textField(options: TextOptions, set: (value: string) => void) {
  const { value, type = 'text', placeholder = '', list } = options;
  const input = create('input', { type, value, placeholder, autocomplete: 'off', spellcheck: false });
  if (type === 'datetime-local') input.step = '1';
  if (list) input.setAttribute('list', list);
  input.addEventListener('input', () => set(input.value));
  return labelled(input, options);
}

export function numberField(options: NumberOptions, set: (value: number | null) => void) {
  const { value, min, max, placeholder = '' } = options;
  const input = create('input', { type: 'number', value: value?.toString() ?? '', min: String(min), placeholder });
  if (max !== undefined) input.max = String(max);
  input.addEventListener('input', () => set(input.value === '' ? null : Number(input.value)));
  return labelled(input, options);
}

export function selectField<T extends string>(options: SelectOptions<T>, set: (value: T) => void) {
  const select = create('select');
  for (const [value, text] of Object.entries<string>(options.choices)) select.append(new Option(text, value));
  select.value = options.value;
  select.addEventListener('change', () => set(select.value as T));
  return labelled(select, options);
}

export function checkbox(label: string, checked: boolean, set: (checked: boolean) => void, path?: Path) {
  const input = create('input', { type: 'checkbox', checked });
  input.addEventListener('change', () => set(input.checked));
  return create('label', { className: 'check' }, path ? marked(path, input) : input, label);
}

// group returns a named group of fields.
export function group(label: string, path: Path, ...children: (Node | string)[]) {
  const created = create('div', { className: 'group', role: 'group', ariaLabel: label }, ...children);
  return marked(path, created);
}

// localTime returns an instant as the value of a datetime-local field, in the zone of the browser.
export function localTime(instant: string | null | undefined): string {
  if (!instant) return '';
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// instant is the inverse of localTime.
export function instant(local: string): string | null {
  return local === '' ? null : new Date(local).toISOString();
}

export function splitList(text: string): string[] {
  return text.split(',').map(part => part.trim()).filter(Boolean);
}

// showErrors shows each error at the field that it names, or at the nearest group around that field, and focuses the first.
// It returns the messages of errors that no field of the form has.
export function showErrors(form: HTMLElement, errors: UserError[]): string[] {
  clearErrors(form);
  const elsewhere: string[] = [];
  errors.forEach(({ message, field }, i) => {
    const path = field?.[0] === 'routing' ? field.slice(1) : [];
    const place = findPlace(form, path);
    if (!place) return elsewhere.push(message);
    const note = create('em', { id: `routing-error-${i}`, className: 'error', textContent: message });
    place.setAttribute('aria-describedby', note.id);
    if (place.matches(CONTROLS)) {
      place.setAttribute('aria-invalid', 'true');
      place.parentElement!.append(note);
    } else {
      place.classList.add('invalid');
      place.prepend(note);
    }
  });
  const first = form.querySelector<HTMLElement>('[aria-invalid], .invalid');
  (first?.matches(CONTROLS) ? first : first?.querySelector<HTMLElement>(`${CONTROLS}, button`))?.focus();
  return elsewhere;
}

function findPlace(form: HTMLElement, path: string[]): HTMLElement | null {
  for (let length = path.length; length > 0; length--) {
    const found = form.querySelector<HTMLElement>(`[data-path="${CSS.escape(path.slice(0, length).join('/'))}"]`);
    if (found) return found;
  }
  return null;
}

export function clearErrors(form: HTMLElement): void {
  form.querySelectorAll('[aria-invalid], .invalid').forEach(clearError);
}

// clearErrorsAround removes the errors of a control that has been edited, and of the groups around it.
export function clearErrorsAround(control: Element): void {
  const place = control.closest('[aria-invalid], .invalid');
  if (!place) return;
  clearError(place);
  clearErrorsAround(place);
}

function clearError(place: Element): void {
  document.getElementById(place.getAttribute('aria-describedby') ?? '')?.remove();
  place.classList.remove('invalid');
  place.removeAttribute('aria-invalid');
  place.removeAttribute('aria-describedby');
}

// describePath returns a path in words: "Rule 2, target 1, url".
export function describePath(path: string[]): string {
  const singular: Record<string, string> = { rules: 'rule', targets: 'target', when: 'condition', unless: 'exception' };
  const words: string[] = [];
  for (const part of path) {
    if (/^\d+$/.test(part)) words.push(`${words.pop() ?? ''} ${Number(part) + 1}`);
    else words.push(singular[part] ?? part);
  }
  const text = words.join(', ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}
