// The small parts that screens are made of.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { messageOf } from './form';
import { Icon } from './icon';

// ---- toasts: what was done, with a way back

type Message = { id: number; text: string; undo?: () => Promise<unknown> };

const toasts = signal<Message[]>([]);
let lastToast = 0;
const SHOWN_MS = 8000;

// say tells what was done. With undo, it offers to take it back.
export function say(text: string, undo?: () => Promise<unknown>): void {
  const id = ++lastToast;
  toasts.value = [...toasts.value, { id, text, undo }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

const dismiss = (id: number) => { toasts.value = toasts.value.filter(one => one.id !== id); };

// attempt does something that can fail, and says so.
export async function attempt<T>(what: () => Promise<T>): Promise<T | undefined> {
  try {
    return await what();
  } catch (error) {
    say(messageOf(error));
    return undefined;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status">
      {toasts.value.map(({ id, text, undo }) => (
        <div class="toast" key={id}>
          <span class="grow">{text}</span>
          {undo && <button class="button" onClick={() => (dismiss(id), attempt(undo))}>Undo</button>}
          <button class="button" aria-label="Dismiss" onClick={() => dismiss(id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}

// save has the browser download a text as a file.
export function save(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text]));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

// useKept is what was loaded last, also when loading it again has failed.
export function useKept<T>(latest: T | undefined): T | undefined {
  const kept = useRef(latest);
  kept.current = latest ?? kept.current;
  return kept.current;
}

// ---- over the page

type DialogProps = { title: string; close: () => void; sticky?: boolean; locked?: boolean; children: ComponentChildren };

// Dialog is open while it is mounted. The focus then returns to the element that had it. With sticky, a click beside it does not close it;
// with locked, nor does Escape.
export function Dialog({ title, close, sticky, locked, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={close} onCancel={event => locked && event.preventDefault()}
      onMouseDown={event => !sticky && event.target === dialog.current && close()}>
      <div class="body">
        <header class="row">
          <h2 class="grow">{title}</h2>
          <button class="button plain icon" aria-label="Close" onClick={close}><Icon name="close" /></button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export type Open = (content: (close: () => void) => ComponentChildren) => void;

// useDialog is the one dialog that a screen has open, or null.
export function useDialog() {
  const [dialog, setDialog] = useState<ComponentChildren>(null);
  const close = () => setDialog(null);
  const open: Open = content => setDialog(content(close));
  const confirm = (question: Omit<ConfirmProps, 'close'>) => open(close => <Confirm {...question} close={close} />);
  return { dialog, open, confirm };
}

type ConfirmProps = { title: string; text: string; action: string; confirm: () => Promise<unknown>; close: () => void };

// Confirm asks before what cannot be undone.
export function Confirm({ title, text, action, confirm, close }: ConfirmProps) {
  return (
    <Dialog title={title} close={close}>
      <p>{text}</p>
      <footer>
        <button class="button" onClick={close}>Cancel</button>
        <button class="button danger" onClick={() => attempt(confirm).then(close)}>{action}</button>
      </footer>
    </Dialog>
  );
}

export type MenuItem = { label: string; act: () => void; danger?: boolean } | false | undefined;

// Menu closes with a choice, with Escape, and when the focus leaves it.
export function Menu({ label, items, children, left }: { label: string; items: MenuItem[]; children: ComponentChildren; left?: boolean }) {
  const details = useRef<HTMLDetailsElement>(null);
  const close = () => details.current?.removeAttribute('open');
  const leave = () => (close(), details.current?.querySelector('summary')?.focus());
  const choose = (act: () => void) => (leave(), act());
  const shown = items.filter(item => !!item);
  if (shown.length === 0) return null;
  return (
    <details class={left ? 'menu left' : 'menu'} ref={details} onKeyDown={event => event.key === 'Escape' && leave()}
      onFocusOut={event => details.current?.contains(event.relatedTarget as Node | null) || close()}>
      <summary class="button plain icon" aria-label={label}>{children}</summary>
      <div role="menu">
        {shown.map(({ label, act, danger }) => (
          <button role="menuitem" class={danger ? 'danger' : ''} key={label} onClick={() => choose(act)}>{label}</button>
        ))}
      </div>
    </details>
  );
}

// ---- what is shown

export function Copy({ text, name = `Copy ${text}`, children }: { text: string; name?: string; children?: ComponentChildren }) {
  const [isCopied, setCopied] = useState(false);
  async function copy() {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <button type="button" class="button plain icon" onClick={event => (event.stopPropagation(), copy())} title="Copy" aria-label={name}>
      {children}<Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  );
}

const WEEK_S = 604_800, YEAR_S = 31_536_000;
const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86_400], ['hour', 3600], ['minute', 60]];
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

export const formatTime = (at: string) => exact.format(Date.parse(at));

// Time is an instant as people say it: how long ago it is, or the day where that is a week or more. The exact one shows on hover.
export function Time({ at }: { at: string }) {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
  const text = Math.abs(seconds) < 45 ? 'just now' : Math.abs(seconds) < WEEK_S ? relative.format(Math.round(seconds / size), unit)
    : (Math.abs(seconds) < YEAR_S / 2 ? day : dayOfYear).format(Date.parse(at));
  return <time dateTime={at} title={formatTime(at)}>{text}</time>;
}

const counts = new Intl.NumberFormat();
const shortCounts = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

export const formatCount = (n: number) => counts.format(n);

// Count is a number, short where it is long; a dash where it could not be read.
export function Count({ n }: { n: number | null }) {
  if (n === null) return <span title="not available">–</span>;
  return <span title={counts.format(n)}>{n < 10_000 ? counts.format(n) : shortCounts.format(n)}</span>;
}

export function Badge({ kind = '', children }: { kind?: 'good' | 'warn' | 'bad' | ''; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

// Facts are names and values. Those without a value are left out.
export function Facts({ facts }: { facts: (false | readonly [ComponentChildren, ComponentChildren])[] }) {
  return <dl class="facts">{facts.map(fact => fact && fact[1] && <div><dt>{fact[0]}</dt><dd dir="auto">{fact[1]}</dd></div>)}</dl>;
}

// Empty says that there is nothing yet, and what to do next.
export function Empty({ title, text, children }: { title: string; text: string; children?: ComponentChildren }) {
  return <div class="empty"><h2>{title}</h2><p>{text}</p>{children}</div>;
}

// Bones have the place of rows that are loaded.
export function Bones({ rows = 6 }: { rows?: number }) {
  return (
    <div class="stack" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => <div class="bone" key={i} style={{ width: `${90 - (i % 3) * 15}%` }} />)}
    </div>
  );
}

export function Problem({ error, retry }: { error: unknown; retry: () => void }) {
  return <div class="notice bad" role="alert"><span class="grow">{messageOf(error)}</span><button class="button" onClick={retry}>Try again</button></div>;
}

// Wait stands for a part that is not there: because it is loaded, or because that failed.
export function Wait({ part, error, reload }: { part: unknown; error: unknown; reload: (how: { requestPolicy: 'network-only' }) => void }) {
  if (part) return null;
  return error ? <Problem error={error} retry={() => reload({ requestPolicy: 'network-only' })} /> : <Bones rows={12} />;
}

// Missing stands where a part of the answer is not there.
export function Missing({ what }: { what: string }) {
  return <p class="soft">{what} cannot be shown at the moment.</p>;
}
