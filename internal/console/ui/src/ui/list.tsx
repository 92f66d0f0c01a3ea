// What lists share: a filter in the address, pages behind cursors, and what can be chosen above them.
import type { ComponentChildren } from 'preact';
import { useLocation } from 'preact-iso';
import { useEffect, useRef, useState } from 'preact/hooks';

import { attempt } from './kit';
import { Icon } from './icon';
import { withQuery } from './url';

// useAddress is the state of a screen in its address. undefined removes a part; an empty text is a value.
export function useAddress() {
  const { query, path, route } = useLocation();
  const change = (changes: Record<string, string | undefined>) => route(withQuery(path, { ...query, ...changes }));
  return { query, path, route, change };
}

type Page<Row> = { nodes: Row[]; pageInfo: { hasNextPage: boolean; endCursor?: string | null } };
type MaybePage<Row> = Page<Row> | null | undefined;

// usePages is a list that grows: the page of the screen's query, and those that load gets behind a cursor, until another first page comes.
export function usePages<Row>(first: MaybePage<Row>, load: (after: string) => Promise<MaybePage<Row>>) {
  const [further, setFurther] = useState<{ first: MaybePage<Row>; pages: Page<Row>[] }>({ first, pages: [] });
  const pages = first ? [first, ...(further.first === first ? further.pages : [])] : [];
  const { hasNextPage, endCursor } = pages.at(-1)?.pageInfo ?? {};
  const show = () => attempt(async () => {
    const page = await load(endCursor!);
    if (page) setFurther({ first, pages: [...pages.slice(1), page] });
  });
  return {
    rows: pages.flatMap(page => page.nodes),
    more: hasNextPage && endCursor ? <More key={endCursor} show={show} /> : null,
  };
}

// More loads what comes next when one scrolls to it.
function More({ show }: { show: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry!.isIntersecting && show(), { rootMargin: '400px' });
    observer.observe(button.current!);
    return () => observer.disconnect();
  }, []);
  return <button class="button more" ref={button} onClick={show}>Show more</button>;
}

type Option = readonly [value: string, text: string];

// Pick is a part of the filter in the address: one of several values, or none.
export function Pick({ label, name, options = [] }: { label: string; name: string; options?: readonly Option[] }) {
  const { query, change } = useAddress();
  if (options.length === 0 && query[name] === undefined) return null;
  return (
    <select class="input pick" aria-label={label} value={query[name] ?? ''}
      onChange={event => change({ [name]: event.currentTarget.value || undefined })}>
      <option value="">{label}</option>
      {options.map(([value, text]) => <option value={value} key={value}>{text}</option>)}
    </select>
  );
}

type SegmentsProps = { label: string; value: string; options: readonly Option[]; change: (value: string) => void };

// Segments are a few choices side by side.
export function Segments({ label, value, options, change }: SegmentsProps) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button type="button" aria-pressed={option === value} key={option} onClick={() => change(option)}>{text}</button>
      ))}
    </div>
  );
}

// Chip is a part of a filter that is on. A click removes it.
export function Chip({ children, remove }: { children: ComponentChildren; remove: () => void }) {
  return <button class="badge chip" title="Remove" onClick={remove}><span class="cut">{children}</span><Icon name="close" /></button>;
}

// DateField is a day in the address.
export function DateField({ label, name }: { label: string; name: string }) {
  const { query, change } = useAddress();
  return (
    <label class="row">
      <small>{label}</small>
      <input class="input pick" type="date" value={query[name] ?? ''}
        onChange={event => change({ [name]: event.currentTarget.value || undefined })} />
    </label>
  );
}

// dayStart is the begin of the day of a date field, some days later, in the viewer's zone.
export function dayStart(date: string, daysLater: number): string {
  const time = Date.parse(`${date}T00:00`), day = new Date(Number.isNaN(time) ? Date.now() : time);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + daysLater).toISOString();
}

// dateOf is the value of a date field for a day.
export const dateOf = (day: Date) => [day.getFullYear(), day.getMonth() + 1, day.getDate()].map(n => String(n).padStart(2, '0')).join('-');

// words are the name of a constant of the API as people write it.
export function words(constant: string): string {
  const text = constant.toLowerCase().replaceAll('_', ' ').replace(/\b(api|utm|json)\b/g, name => name.toUpperCase());
  return text[0]!.toUpperCase() + text.slice(1);
}
