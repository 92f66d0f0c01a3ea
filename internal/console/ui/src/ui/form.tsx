// Forms: fields with their labels, hints and errors. What the API says of an input stands beside the field that it names.
import type { ComponentChildren } from 'preact';
import { createContext } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';

import { Refused, type UserError } from '../api';

// Errors are the errors of the form around a field, and the paths of the fields that show theirs.
const Errors = createContext<{ all: UserError[]; claim: (path: string) => () => void }>({ all: [], claim: () => () => {} });

const pathOf = (error: UserError) => error.field?.join('.') ?? '';
const isAt = (path: string) => (error: UserError) => pathOf(error) === path || pathOf(error).startsWith(path + '.');

type FormProps = {
  // submit returns the errors of the payload; without any, the form is done.
  submit: () => Promise<UserError[]>;
  action: string;
  children: ComponentChildren;
  cancel?: () => void;
  disabled?: boolean;
  // isQuiet is for a form that is not what comes next on its screen.
  isQuiet?: boolean;
};

// Form sends once at a time. What was typed stays when the server cannot be reached.
export function Form({ submit, action, children, cancel, disabled, isQuiet }: FormProps) {
  const [errors, setErrors] = useState<UserError[]>([]);
  const [isSending, setSending] = useState(false);
  const shown = useRef(new Map<string, number>()).current;
  const form = useRef<HTMLFormElement>(null);
  const claim = (path: string) => {
    shown.set(path, (shown.get(path) ?? 0) + 1);
    return () => void shown.set(path, shown.get(path)! - 1);
  };
  const unclaimed = errors.filter(error => ![...shown].some(([path, n]) => n > 0 && isAt(path)(error)));

  useEffect(() => {
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    wrong?.closest('details')?.setAttribute('open', '');
    wrong?.focus();
  }, [errors]);

  async function send(event: Event) {
    event.preventDefault();
    setSending(true);
    try {
      setErrors(await submit());
    } catch (error) {
      setErrors([{ code: 'UNAVAILABLE', message: messageOf(error) }]);
    } finally {
      setSending(false);
    }
  }

  return (
    <Errors.Provider value={{ all: errors, claim }}>
      <form class="stack" ref={form} onSubmit={send} noValidate>
        {children}
        <div role="alert">{unclaimed.map(error => <p class="form-error">{error.message}</p>)}</div>
        <footer class="row">
          <button class={isQuiet ? 'button' : 'button next'} disabled={isSending || disabled}>{action}</button>
          {cancel && <button class="button plain" type="button" onClick={cancel}>Cancel</button>}
        </footer>
      </form>
    </Errors.Provider>
  );
}

// messageOf is what people are told of a failure of a request.
export function messageOf(error: unknown): string {
  if (error instanceof Refused) return error.message;
  const failed = error as { graphQLErrors?: { message: string }[]; networkError?: unknown };
  if (failed.networkError) return 'The server cannot be reached. Try again in a moment.';
  return failed.graphQLErrors?.[0]?.message ?? 'That did not work. Try again in a moment.';
}

type FieldProps = { label: string; path: string; hint?: ComponentChildren };

// useErrors are the messages of the errors at a path, which the form itself then leaves out.
function useErrors(path: string): string[] {
  const { all, claim } = useContext(Errors);
  useEffect(() => claim(path), [path]);
  return all.filter(isAt(path)).map(error => error.message);
}

// Field is a label, a control and what is to say of it.
export function Field({ label, path, hint, children }: FieldProps & { children: (control: ControlProps) => ComponentChildren }) {
  const id = useId(), errors = useErrors(path);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-invalid': errors.length > 0, 'aria-describedby': `${id}-hint ${id}-error` })}
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
      {errors.length > 0 && <p class="error" id={`${id}-error`}>{errors.join(' ')}</p>}
    </div>
  );
}

export type ControlProps = { id: string; 'aria-invalid': boolean; 'aria-describedby': string };

type Attributes = {
  type?: string; placeholder?: string; autocomplete?: string; inputMode?: string; list?: string; min?: string; autofocus?: boolean;
};
type TextProps = FieldProps & Attributes & { value: string; change: (value: string) => void; lines?: number };

// Text is a line, or several.
export function Text({ label, path, hint, value, change, lines, ...others }: TextProps) {
  return (
    <Field label={label} path={path} hint={hint}>
      {control => lines
        ? <textarea {...control} class="input" rows={lines} value={value} onInput={event => change(event.currentTarget.value)} />
        : <input {...others as object} {...control} class="input" value={value} onInput={event => change(event.currentTarget.value)} />}
    </Field>
  );
}

type ChoiceProps<T extends string> = FieldProps & { value: T; change: (value: T) => void; options: readonly (readonly [T, string])[] };

export function Choice<T extends string>({ label, path, hint, value, change, options }: ChoiceProps<T>) {
  return (
    <Field label={label} path={path} hint={hint}>
      {control => (
        <select {...control} class="input" value={value} onChange={event => change(event.currentTarget.value as T)}>
          {options.map(([option, text]) => <option value={option} key={option}>{text}</option>)}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, path, value, change, hint }: FieldProps & { value: boolean; change: (value: boolean) => void }) {
  const errors = useErrors(path);
  return (
    <div class="field">
      <label class="check">
        <input type="checkbox" checked={value} onChange={event => change(event.currentTarget.checked)} />
        <span>{label}{hint && <small> {hint}</small>}</span>
      </label>
      {errors.length > 0 && <p class="error">{errors.join(' ')}</p>}
    </div>
  );
}

type ChecksProps<T extends string> = FieldProps & Pick<ChoiceProps<T>, 'options'> & { value: readonly T[]; change: (value: T[]) => void };

// Checks selects any number of options.
export function Checks<T extends string>({ label, path, hint, value, change, options }: ChecksProps<T>) {
  const errors = useErrors(path);
  return (
    <fieldset class="field">
      <legend class="legend">{label}</legend>
      {hint && <p class="hint">{hint}</p>}
      <div class="checks">
        {options.map(([option, text]) => (
          <label class="check" key={option}>
            <input type="checkbox" checked={value.includes(option)}
              onChange={event => change(event.currentTarget.checked ? [...value, option] : value.filter(one => one !== option))} />
            <span>{text}</span>
          </label>
        ))}
      </div>
      {errors.length > 0 && <p class="error">{errors.join(' ')}</p>}
    </fieldset>
  );
}

// wordsOf are the entries of a text that separates them by commas, blanks or lines; undefined: none.
export function wordsOf(text: string): string[] | undefined {
  const entries = text.split(/[\s,]+/).filter(Boolean);
  return entries.length > 0 ? entries : undefined;
}

// useFields is the state of a form: the values, and a setter of each.
export function useFields<T extends object>(initial: T) {
  const [values, setValues] = useState(initial);
  const set = <K extends keyof T>(name: K) => (value: T[K]) => setValues(all => ({ ...all, [name]: value }));
  // at binds a control to a field; path is that of the input, if it has another name there.
  const at = <K extends keyof T & string>(name: K, path: string = name) => ({ path, value: values[name], change: set(name) });
  return { values, set, at, reset: () => setValues(initial) };
}

// bind connects controls to values by their names. The paths of their errors begin with a prefix.
export function bind<T extends object>(values: T, change: (values: T) => void, prefix = '') {
  return <K extends keyof T & string>(name: K) => (
    { path: prefix + name, value: values[name], change: (value: T[K]) => change({ ...values, [name]: value }) }
  );
}

// localTime is an instant as the value of a datetime-local field, in the viewer's zone; instantOf is its inverse.
export function localTime(instant: string | null | undefined): string {
  if (!instant) return '';
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// What is no instant is sent as it is, and refused.
export function instantOf(local: string): string | null {
  const at = new Date(local);
  return local === '' ? null : Number.isNaN(at.getTime()) ? local : at.toISOString();
}

// listOf are the parts of a text that commas separate.
export const listOf = (text: string) => text.split(',').map(part => part.trim()).filter(Boolean);
