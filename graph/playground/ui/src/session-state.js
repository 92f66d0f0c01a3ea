import { create } from 'zustand';

const KEY = 'linkforge:session';

const NOBODY = { token: null, user: null, workspaces: [], workspaceId: null, link: null, template: null, domain: null };

// useSession holds the logged-in user, the user's workspaces, and the last link, UTM template and domain of a response.
export const useSession = create(() => ({ ...NOBODY, ...stored(), message: null }));

useSession.subscribe(({ token, user, workspaceId }) => {
  if (token) sessionStorage.setItem(KEY, JSON.stringify({ token, user, workspaceId }));
  else sessionStorage.removeItem(KEY);
});

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

// say shows a sentence in the bar; kind is 'info' or 'error', fields names the inputs it is about.
export const say = (text, kind = 'info', fields = []) => useSession.setState({ message: text ? { text, kind, fields } : null });

export function forget(text, kind) {
  useSession.setState({ ...NOBODY });
  say(text, kind);
}

// chosen is the workspace that the examples work in, or undefined.
export const chosen = ({ workspaces, workspaceId }) => workspaces.find(w => w.id === workspaceId);

// known is the objects that the examples name.
export const known = ({ workspaces, workspaceId, link, template, domain }) => ({
  workspace: chosen({ workspaces, workspaceId }),
  link,
  template,
  domain,
});

let arrived = () => {};

// onArrival names what to do when somebody has logged in or made a workspace, by whatever operation.
export const onArrival = callback => (arrived = callback);

// observe reads along in every answer: it follows a log-in, a refusal of the token, and the last short URL.
export function observe(result, status, sentToken) {
  const refused = status === 401 || result?.errors?.some(e => e.extensions?.code === 'UNAUTHENTICATED');
  if (refused && sentToken && sentToken === useSession.getState().token) {
    forget('Your session has ended. Please log in again.', 'error');
    return;
  }
  const data = result?.data;
  if (!data) return;
  const { createAnonymousLink: anonymous, ...others } = data;
  const link = findLink(others);
  if (link) useSession.setState({ link });
  const template = data.createUtmTemplate?.utmTemplate;
  if (template?.id) useSession.setState({ template });
  const domain = data.addDomain?.domain;
  if (domain?.id) useSession.setState({ domain });
  const payload = data.register ?? data.login;
  if (payload?.token) {
    useSession.setState({ ...NOBODY, token: payload.token, user: payload.user ?? null, message: null });
    arrived();
  } else if (data.createWorkspace?.workspace?.id) {
    arrived(data.createWorkspace.workspace.id);
  }
}

// findLink returns the first thing in an answer that has a short URL. Lists are newest first. An anonymous link, whose
// payload has a claim token, is in no workspace, so the examples could not work with it.
function findLink(value) {
  if (!value || typeof value !== 'object' || 'claimToken' in value) return null;
  if (typeof value.shortUrl === 'string' && /^https?:\/\//.test(value.shortUrl)) return value;
  for (const child of Object.values(value)) {
    const link = findLink(child);
    if (link) return link;
  }
  return null;
}
