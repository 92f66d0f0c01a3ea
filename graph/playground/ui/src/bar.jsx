import { useEffect, useState } from 'react';

import { choose, createWorkspace, logIn, logOut, register } from './session.js';
import { say, useSession } from './session-state.js';

// Bar is the log-in helper above GraphiQL.
export function Bar() {
  const user = useSession(state => state.user);
  return (
    <header className="bar">
      <h1>
        Linkforge <span>playground</span>
      </h1>
      {user ? <Account user={user} /> : <LogInForm />}
      <Link />
      {user && (
        <button className="last" type="button" onClick={logOut}>
          Log out
        </button>
      )}
      <Message />
    </header>
  );
}

function LogInForm() {
  const [busy, run] = useBusy();
  const submit = event => {
    event.preventDefault();
    const form = event.currentTarget;
    const { email, password, name } = Object.fromEntries(new FormData(form));
    if (event.nativeEvent.submitter?.value !== 'register') return run(() => logIn(email, password));
    if (name.trim()) return run(() => register(email, password, name.trim()));
    say('Please enter your name too, to register.', 'error', ['name']);
    form.elements.name.focus();
  };
  return (
    <form className="row" aria-label="Log in or register" onSubmit={submit}>
      <Field label="E-mail" name="email" type="email" autoComplete="username" required />
      <Field label="Password" name="password" type="password" autoComplete="current-password" required />
      <Field label="Name (to register)" name="name" autoComplete="name" />
      <button className="primary" disabled={busy} value="login">
        Log in
      </button>
      <button disabled={busy} value="register">
        Register
      </button>
    </form>
  );
}

function Account({ user }) {
  const workspaces = useSession(state => state.workspaces);
  const workspaceId = useSession(state => state.workspaceId);
  const [creating, setCreating] = useState(false);
  // Somebody without a workspace can do nothing yet: the form is offered to them unasked.
  const form = creating || workspaces.length === 0;
  useEffect(() => setCreating(false), [workspaceId]);
  return (
    <div className="row">
      <p className="who">
        <span>
          Logged in as <strong>{user.name}</strong>
        </span>{' '}
        <small title={user.email}>{user.email}</small>
      </p>
      {workspaces.length > 0 && (
        <label className="field">
          Workspace
          <select value={workspaceId ?? ''} onChange={e => choose(e.target.value)}>
            {workspaces.map(w => (
              <option key={w.id} value={w.id}>
                {w.name} ({w.slug})
              </option>
            ))}
          </select>
        </label>
      )}
      {form ? (
        <WorkspaceForm onCancel={workspaces.length > 0 ? () => setCreating(false) : null} />
      ) : (
        <button type="button" onClick={() => setCreating(true)}>
          New workspace
        </button>
      )}
    </div>
  );
}

function WorkspaceForm({ onCancel }) {
  const [busy, run] = useBusy();
  const [name, setName] = useState('');
  const [slug, setSlug] = useState(null);
  const submit = event => {
    event.preventDefault();
    run(() => createWorkspace(name.trim(), slug ?? slugOf(name)));
  };
  return (
    <form className="row" aria-label="Create a workspace" onSubmit={submit}>
      <Field label="New workspace" name="workspaceName" about="name" value={name} onChange={e => setName(e.target.value)} required />
      <Field label="Slug" name="slug" value={slug ?? slugOf(name)} onChange={e => setSlug(e.target.value)} required />
      <button className="primary" disabled={busy}>
        Create
      </button>
      {onCancel && (
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      )}
    </form>
  );
}

const slugOf = name =>
  name
    .normalize('NFD')
    .toLowerCase()
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');

function Field({ label, about, ...input }) {
  const invalid = useSession(state => Boolean(state.message?.fields.includes(about ?? input.name)));
  return (
    <label className="field">
      {label}
      <input {...input} aria-invalid={invalid || undefined} aria-describedby={invalid ? 'message' : undefined} />
    </label>
  );
}

function Link() {
  const link = useSession(state => state.link);
  if (!link) return null;
  return (
    <p className="link">
      Last link{' '}
      <a href={link.shortUrl} target="_blank" rel="noopener noreferrer">
        {link.shortUrl}
      </a>
    </p>
  );
}

function Message() {
  const message = useSession(state => state.message);
  return (
    <p id="message" className={message?.kind} role={message?.kind === 'error' ? 'alert' : 'status'}>
      {message?.text}
    </p>
  );
}

// useBusy keeps a form from being sent twice.
function useBusy() {
  const [busy, setBusy] = useState(false);
  const run = async work => {
    setBusy(true);
    await work();
    setBusy(false);
  };
  return [busy, run];
}
