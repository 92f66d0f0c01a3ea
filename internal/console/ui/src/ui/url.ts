// withScheme is a URL as it was meant: people leave the scheme out.
export function withScheme(text: string): string {
  const url = text.trim();
  return url === '' || /^[a-z][a-z0-9+.-]*:/i.test(url) && !/^[^/]*:\d+(\/|$)/.test(url) ? url : `https://${url.replace(/^\/+/, '')}`;
}

// withQuery is a path with a query, without what is undefined in it.
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const values = new URLSearchParams(Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined));
  return values.size ? `${path}?${values}` : path;
}

// middleCut is a URL without its scheme, with its middle left out where it is long: its host and its end tell most.
export function middleCut(url: string, most = 64): string {
  const text = url.replace(/^https?:\/\/(www\.)?/, '').replace(/\/$/, '');
  if (text.length <= most) return text;
  const end = Math.floor(most / 3);
  return `${text.slice(0, most - end - 1)}…${text.slice(-end)}`;
}
