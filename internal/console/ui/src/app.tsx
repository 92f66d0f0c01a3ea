// The frame around all screens: who is logged in, the workspace, and where one can go.
import { Provider, useQuery } from '@urql/preact';
import { createContext } from 'preact';
import { Route, Router, useLocation, useRoute } from 'preact-iso';
import { useContext, useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';

import { client, guest, lost } from './api';
import { LogOutDocument, MeDocument, type MeQuery, type Permission } from './gql/graphql';
import { Account } from './screens/account';
import { Activity } from './screens/activity';
import { Dashboard } from './screens/dashboard';
import { Domains } from './screens/domains';
import { FirstSteps } from './screens/first';
import { Keys } from './screens/keys';
import { Links } from './screens/links';
import { Gatehouse, Login } from './screens/login';
import { Move } from './screens/move';
import { People } from './screens/people';
import { Settings } from './screens/settings';
import { Tags } from './screens/tags';
import { Webhooks } from './screens/webhooks';
import * as session from './session';
import { choose, theme, THEMES } from './theme';
import { Bones, Dialog, Facts, Menu, Problem, Toasts, useKept } from './ui/kit';
import { Icon, type IconName } from './ui/icon';
import { withQuery } from './ui/url';

export type User = NonNullable<MeQuery['me']>;
export type Workspace = NonNullable<User['workspaces']>['nodes'][number];

const Me = createContext<{ user: User; countryDatabase?: string | null; isStale: boolean } | null>(null);

export const useMe = () => useContext(Me)!;

const Place = createContext<{ user: User; workspace: Workspace } | null>(null);

// ofWorkspaces are what makes a query stale, also one that has found none.
const ofWorkspaces = { additionalTypenames: ['Workspace'] };

// reloadMe reads again who the user is and what they may do, also in the frame.
export const reloadMe = () => client.query(MeDocument, {}, { ...ofWorkspaces, requestPolicy: 'network-only' }).toPromise();

// usePlace is where a screen of a workspace is, and who looks at it.
export function usePlace() {
  const place = useContext(Place)!;
  const may = (permission: Permission) => place.workspace.permissions.includes(permission);
  return { ...place, may, base: `/app/${place.workspace.slug}` };
}

export function App() {
  const { value: state } = session.state;
  return (
    <>
      {state !== 'out' && <Inside />}
      {state !== 'in' && <Provider value={guest}>{state === 'out' ? <Login /> : <LoginAgain />}</Provider>}
      <Toasts />
    </>
  );
}

// LoginAgain is over a screen whose session is over: what was typed there stays.
function LoginAgain() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-label="Log in again" onClose={() => dialog.current!.showModal()}>
      <p class="notice"><span class="grow">Your session has ended. Log in again: what you typed is still here.</span>
        <button class="button" onClick={session.end}>Leave</button></p>
      <Login />
    </dialog>
  );
}

function Inside() {
  const [{ data: latest, error, stale }, reload] = useQuery({ query: MeDocument, context: ofWorkspaces });
  const data = useKept(latest);
  useEffect(() => lost.subscribe(times => times > 0 && void reloadMe()), []);
  const retry = () => reload({ requestPolicy: 'network-only' });
  if (error && !data?.me) return <main class="narrow"><Problem error={error} retry={retry} /></main>;
  if (!data) return <main><Bones /></main>;
  if (!data.me) return (session.end(), null);
  return (
    <Me.Provider value={{ user: data.me, countryDatabase: data.countryDatabase, isStale: stale }}>
      <Router>
        <Route path="/app/new" component={FirstSteps} />
        <Route path="/app/account" component={Account} />
        <Route path="/app/:slug/*" component={InWorkspace} />
        <Route default component={Start} />
      </Router>
    </Me.Provider>
  );
}

const LAST = 'linkforge.workspace';

// Start leads to the workspace that was seen last, or to the first steps.
function Start() {
  const { user } = useMe();
  const { route } = useLocation();
  const known = user.workspaces?.nodes ?? [], last = known.find(one => one.slug === localStorage.getItem(LAST)) ?? known[0];
  useEffect(() => route(last ? `/app/${last.slug}/links` : '/app/new', true), []);
  return null;
}

type Screen = { path: string; name: string; icon: IconName; needs?: Permission; component: () => preact.VNode };

const SCREENS: Screen[] = [
  { path: 'links', name: 'Links', icon: 'link', component: Links },
  { path: 'dashboard', name: 'Dashboard', icon: 'chart', needs: 'STATS_READ', component: Dashboard },
  { path: 'tags', name: 'Tags', icon: 'tag', needs: 'LINKS_READ', component: Tags },
  { path: 'domains', name: 'Domains', icon: 'globe', needs: 'DOMAINS_READ', component: Domains },
  { path: 'people', name: 'People', icon: 'people', needs: 'MEMBERS_READ', component: People },
  { path: 'keys', name: 'Keys', icon: 'key', needs: 'API_KEYS_WRITE', component: Keys },
  { path: 'webhooks', name: 'Webhooks', icon: 'hook', needs: 'WEBHOOKS_WRITE', component: Webhooks },
  { path: 'move', name: 'Move', icon: 'move', needs: 'LINKS_READ', component: Move },
  { path: 'activity', name: 'Activity', icon: 'clock', needs: 'LINKS_READ', component: Activity },
  { path: 'settings', name: 'Settings', icon: 'gear', needs: 'SETTINGS_WRITE', component: Settings },
];

function InWorkspace() {
  const { user, isStale } = useMe();
  const { params } = useRoute();
  const { path, query, route } = useLocation();
  const workspace = user.workspaces?.nodes.find(one => one.slug === params['slug']);
  const search = useRef<HTMLInputElement>(null);
  const base = `/app/${workspace?.slug}`;
  useEffect(() => { if (workspace) localStorage.setItem(LAST, workspace.slug); }, [workspace?.slug]);
  useEffect(() => {
    const screen = SCREENS.find(({ path: to }) => path.startsWith(`${base}/${to}`))?.name;
    document.title = [screen, workspace?.name, 'Linkforge'].filter(Boolean).join(' · ');
  }, [path, workspace?.name]);
  const [hasHelp, setHelp] = useState(false);
  const may = (permission: Permission) => !!workspace?.permissions.includes(permission);
  useKeys({ '/': () => search.current?.focus(), '?': () => setHelp(true), c: () => may('LINKS_CREATE') && route(`${base}/links?new`) });
  if (!workspace && isStale) return <main><Bones /></main>;
  if (!workspace) {
    return (
      <Gatehouse title="No such workspace">
        <p class="soft">It does not exist, or you are not a member of it.</p>
        <a class="button" href="/app">Your workspaces</a>
      </Gatehouse>
    );
  }
  const shown = SCREENS.filter(({ needs }) => !needs || may(needs));
  const find = (event: Event) => {
    event.preventDefault();
    const rest = path.startsWith(`${base}/links`) ? query : {};
    route(withQuery(`${base}/links`, { ...rest, search: search.current!.value || undefined }));
  };
  return (
    <Place.Provider value={{ user, workspace }}>
      <div class="frame">
        <aside class="sidebar">
          <WorkspaceMenu user={user} workspace={workspace} />
          <nav aria-label="Workspace">
            {shown.map(({ path: to, name, icon }) => (
              <a href={`${base}/${to}`} aria-current={path.startsWith(`${base}/${to}`) ? 'page' : undefined} key={to}><Icon name={icon} />{name}</a>
            ))}
          </nav>
        </aside>
        <div class="grow">
          <header class="head">
            <form class="search grow" role="search" onSubmit={find}>
              <input class="input" ref={search} type="search" placeholder="Search links, or paste a short URL" aria-label="Search links"
                value={query['search'] ?? ''} />
            </form>
            {may('LINKS_CREATE') && <a class="button next end" href={`${base}/links?new`}><Icon name="plus" />New link</a>}
          </header>
          <Guarded>
            <Router>
              {shown.map(({ path: to, component }) => <Route path={`/${to}/:rest*`} component={component} key={to} />)}
              <Route default component={Nothing} />
            </Router>
          </Guarded>
        </div>
        {hasHelp && <Help canCreate={may('LINKS_CREATE')} close={() => setHelp(false)} />}
      </div>
    </Place.Provider>
  );
}

// Guarded keeps the frame when a screen fails.
function Guarded({ children }: { children: preact.ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  const { path } = useLocation();
  useEffect(reset, [path]);
  return error ? <main><Problem error={error} retry={reset} /></main> : <>{children}</>;
}

const Help = ({ canCreate, close }: { canCreate: boolean; close: () => void }) => (
  <Dialog title="Keys" close={close}>
    <Facts facts={[
      [<kbd>/</kbd>, 'Search'], canCreate && [<kbd>c</kbd>, 'New link'], [<kbd>Esc</kbd>, 'Close the link, the dialog or the menu'],
      [<kbd>?</kbd>, 'These keys'],
    ]} />
    <p class="soft">The API: <a href="/playground">playground</a>.</p>
  </Dialog>
);

const Nothing = () => <main><h1>Nothing here</h1><p class="soft">This page does not exist.</p></main>;

// logOut ends the session here at once, also where the server cannot be reached.
export function logOut(): void {
  const headers = { Authorization: `Bearer ${session.token.value}` };
  void guest.mutation(LogOutDocument, { input: {} }, { fetchOptions: { headers, keepalive: true } }).toPromise();
  session.end();
}

function WorkspaceMenu({ user, workspace }: { user: User; workspace: Workspace }) {
  const { route } = useLocation();
  return (
    <Menu left label={`${workspace.name}: workspaces and account`} items={[
      ...(user.workspaces?.nodes ?? []).map(({ slug, name }) => ({ label: name, act: () => route(`/app/${slug}/links`) })),
      { label: 'New workspace', act: () => route('/app/new') },
      { label: 'Your account', act: () => route('/app/account') },
      ...THEMES.filter(([name]) => name !== theme()).map(([name, label]) => ({ label, act: () => choose(name) })),
      { label: 'Log out', act: logOut },
    ]}>
      <strong class="cut">{workspace.name}</strong><Icon name="down" />
    </Menu>
  );
}

// useKeys acts on single keys outside of fields.
function useKeys(actions: Record<string, () => void>) {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const isTyping = (event.target as Element).closest('input, textarea, select, dialog, [contenteditable]');
      const act = actions[event.key];
      if (!act || isTyping || event.metaKey || event.ctrlKey || event.altKey) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  });
}
