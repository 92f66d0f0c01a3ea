import { observe, useSession } from './session-state.js';

const ENDPOINT = document.querySelector('meta[name=graphql-endpoint]').content;
const ACCEPT = 'application/graphql-response+json, application/json;q=0.9';

// ask runs one of the helper's own operations and returns its data; it throws a sentence fit for people.
export async function ask(query, variables) {
  const { data, errors } = await post({ query, variables });
  if (errors?.length) throw new Error(errors.map(e => e.message).join(' '));
  return data;
}

// fetcher is what GraphiQL calls, for every operation and for introspection.
export function fetcher(params, { headers } = {}) {
  return post(params, headers);
}

async function post(params, headers) {
  const token = useSession.getState().token;
  const response = await send(params, headers, token);
  const result = await answer(response);
  observe(result, response.status, token);
  return result;
}

function send(params, headers, token) {
  const authorization = token ? { Authorization: `Bearer ${token}` } : {};
  // What is written in the headers editor wins, an API key for instance.
  const all = new Headers({ Accept: ACCEPT, 'Content-Type': 'application/json', ...authorization });
  for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value);
  const request = { method: 'POST', headers: all, body: JSON.stringify(params), credentials: 'same-origin' };
  return fetch(ENDPOINT, request).catch(cause => {
    throw new Error('The server could not be reached.', { cause });
  });
}

async function answer(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { errors: [{ message: `The server answered ${response.status} without JSON: ${text.slice(0, 200)}` }] };
  }
}
