// Icons of 16 px, drawn with lines.
const PATHS = {
  link: 'M6.5 9.5a3 3 0 0 0 4.2 0l2.3-2.3a3 3 0 0 0-4.2-4.2l-.9.9M9.5 6.5a3 3 0 0 0-4.2 0L3 8.8A3 3 0 0 0 7.2 13l.9-.9',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  tag: 'M2.5 8.2V3a.5.5 0 0 1 .5-.5h5.2l5.3 5.3a.7.7 0 0 1 0 1l-4.7 4.7a.7.7 0 0 1-1 0zM5.6 5.6v.01',
  folder: 'M2 4.5a1 1 0 0 1 1-1h3l1.5 1.5H13a1 1 0 0 1 1 1V12a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1z',
  globe: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M2 8h12M8 2c2 2 2.5 4 2.5 6S10 12 8 14c-2-2-2.5-4-2.5-6S6 4 8 2',
  people: 'M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M11 8a2.2 2.2 0 0 0 0-4.4M12 9.8c1.6.4 2.6 1.7 2.6 3.7',
  key: 'M10.5 9a3.5 3.5 0 1 0-3.3-2.3L2.5 11.4v2.1h2.1v-1.6h1.6v-1.6h1.3l1-1c.6.2 1.2.3 2 .3M11.2 5v.01',
  hook: 'M8 2.5a2 2 0 0 1 1 3.7l2 3.8M8 6.5a2 2 0 1 1 .1-4M5.5 9A2.2 2.2 0 1 0 6 12.5h5M11 10a2.2 2.2 0 1 1-.9 4',
  move: 'M2.5 5.5h9M9 3l2.5 2.5L9 8M13.5 10.5h-9M7 8l-2.5 2.5L7 13',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 4.5V8l2.3 1.5',
  gear: 'M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M8 1.8v1.6M8 12.6v1.6M1.8 8h1.6M12.6 8h1.6M3.6 3.6l1.2 1.2M11.2 11.2l1.2 1.2M3.6 12.4l1.2-1.2M11.2 4.8l1.2-1.2',
  user: 'M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8M2.5 14c0-2.8 2.4-4.3 5.5-4.3s5.5 1.5 5.5 4.3',
  copy: 'M5.5 5.5h7v8h-7zM3.5 10.5v-8h7',
  check: 'M3 8.5l3.2 3.2L13 4.8',
  close: 'M4 4l8 8M12 4l-8 8',
  plus: 'M8 3v10M3 8h10',
  more: 'M3.5 8v.01M8 8v.01M12.5 8v.01',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.3 10.3l3.2 3.2',
  down: 'M4 6.5L8 10l4-3.5',
  up: 'M4 9.5L8 6l4 3.5',
  lock: 'M4 7.5h8v6H4zM5.5 7.5V5.2a2.5 2.5 0 0 1 5 0v2.3',
  branch: 'M4.5 2.5v11M4.5 9c4 0 7-.5 7-4.5M11.5 4.5a1.2 1.2 0 1 0 0-2.4 1.2 1.2 0 0 0 0 2.4',
  qr: 'M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h1.5v1.5M13.5 13.5h-2v-2M13.5 9.5v.01',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"
      stroke-linejoin="round" aria-hidden="true"><path d={PATHS[name]} /></svg>
  );
}
