import { getOperationAST } from 'graphql';

import { observe, useSession } from './session-state.js';

const ENDPOINT = document.querySelector('meta[name=graphql-endpoint]').content;

// ask runs one of the helper's own operations and returns its data; it throws a sentence fit for people.
export async function ask(query, variables) {
  const { data, errors } = await post({ query, variables });
  if (errors?.length) throw new Error(errors.map(e => e.message).join(' '));
  return data;
}

// fetcher is what GraphiQL calls, for every operation and for introspection.
export function fetcher(params, { headers, documentAST } = {}) {
  const operation = documentAST && getOperationAST(documentAST, params.operationName);
  return operation?.operation === 'subscription' ? subscribe(params, headers) : post(params, headers);
}

async function post(params, headers) {
  const token = useSession.getState().token;
  const response = await send(params, 'application/graphql-response+json, application/json;q=0.9', headers, token);
  const result = await answer(response);
  observe(result, response.status, token);
  return result;
}

function send(params, accept, headers, token, signal) {
  const authorization = token ? { Authorization: `Bearer ${token}` } : {};
  // What is written in the headers editor wins, an API key for instance.
  const all = new Headers({ Accept: accept, 'Content-Type': 'application/json', ...authorization });
  for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value);
  return fetch(ENDPOINT, { method: 'POST', headers: all, body: JSON.stringify(params), credentials: 'same-origin', signal }).catch(
    cause => {
      if (signal?.aborted) throw cause;
      throw new Error('The server could not be reached.', { cause });
    },
  );
}

async function answer(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { errors: [{ message: `The server answered ${response.status} without JSON: ${text.slice(0, 200)}` }] };
  }
}

// subscribe runs a subscription over server-sent events (graphql-sse, distinct connections): EventSource cannot
// send the Authorization header, fetch can.
function subscribe(params, headers) {
  const stop = new AbortController();
  const results = events(params, headers, stop.signal);
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => results.next(),
    // A generator that waits for the server hears of its end only when the connection is cut.
    return() {
      stop.abort();
      return results.return();
    },
  };
}

async function* events(params, headers, signal) {
  const token = useSession.getState().token;
  try {
    const response = await send(params, 'text/event-stream', headers, token, signal);
    if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      const result = await answer(response);
      observe(result, response.status, token);
      yield result;
      return;
    }
    for await (const { event, data } of messages(response.body)) {
      if (event === 'complete') return;
      if (event !== 'next' || !data) continue;
      const result = JSON.parse(data);
      observe(result, response.status, token);
      yield result;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (text + value).split(/\r?\n\r?\n/);
    text = blocks.pop();
    for (const block of blocks) yield parse(block);
  }
}

function parse(block) {
  const message = { event: 'message', data: '' };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (field === 'event') message.event = value;
    if (field === 'data') message.data += value;
  }
  return message;
}
