import { ask } from './api.js';
import { forget, onArrival, say, useSession } from './session-state.js';

const ACCOUNT = 'token expiresAt user { id email name } errors { message code field }';

const REGISTER = `mutation Register($input: RegisterInput!) { register(input: $input) { ${ACCOUNT} } }`;
const LOGIN = `mutation LogIn($input: LoginInput!) { login(input: $input) { ${ACCOUNT} } }`;
const CREATE_WORKSPACE = `mutation CreateWorkspace($input: CreateWorkspaceInput!) {
  createWorkspace(input: $input) { workspace { id slug name } errors { message code field } }
}`;
const ME = `query Me($after: String) {
  me { id email name workspaces(first: 20, after: $after) {
    edges { node { id name slug } } pageInfo { hasNextPage endCursor }
  } }
}`;

export const register = (email, password, name) => mutate('register', REGISTER, { email, password, name });

export const logIn = (email, password) => mutate('login', LOGIN, { email, password });

export const logOut = () => forget('You are logged out.');

export const createWorkspace = (name, slug) => mutate('createWorkspace', CREATE_WORKSPACE, { name, slug });

export const choose = workspaceId => useSession.setState({ workspaceId });

// resume looks up who a stored token stands for.
export function resume() {
  if (useSession.getState().token) return loadMe();
}

// mutate reports whether the mutation went through. What it brought is taken up in observe, as it is when the same
// mutation is run in GraphiQL.
async function mutate(field, query, input) {
  say(null);
  try {
    const { errors } = (await ask(query, { input }))[field];
    if (!errors.length) return true;
    say(errors.map(e => e.message).join(' '), 'error', errors.map(e => e.field?.at(-1)).filter(Boolean));
  } catch (error) {
    say(error.message, 'error');
  }
  return false;
}

async function loadMe(preferred) {
  const { token } = useSession.getState();
  try {
    const { user, workspaces } = await me();
    // Somebody may have logged out or in meanwhile.
    if (useSession.getState().token !== token) return;
    if (!user) return forget('Your session has ended. Please log in again.', 'error');
    const wanted = preferred ?? useSession.getState().workspaceId;
    const workspaceId = (workspaces.find(w => w.id === wanted) ?? workspaces[0])?.id ?? null;
    useSession.setState({ user, workspaces, workspaceId });
  } catch (error) {
    if (useSession.getState().token === token) say(error.message, 'error');
  }
}

async function me() {
  const workspaces = [];
  let user;
  let after = null;
  do {
    ({ me: user } = await ask(ME, { after }));
    if (!user) return {};
    workspaces.push(...user.workspaces.edges.map(e => e.node));
    after = user.workspaces.pageInfo.hasNextPage ? user.workspaces.pageInfo.endCursor : null;
  } while (after);
  return { user: { id: user.id, email: user.email, name: user.name }, workspaces };
}

onArrival(loadMe);
