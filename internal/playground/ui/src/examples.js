// Words in angle brackets stand for what is not known yet; fill replaces them.
const WORKSPACE_ID = '<id of your workspace>';
const SLUG = '<slug of your workspace>';
const LINK_ID = '<id of a link>';
const SHORT_URL = '<a short URL>';

const DAY = 24 * 60 * 60 * 1000;
const midnight = days => new Date(Math.floor(Date.now() / DAY) * DAY + days * DAY).toISOString().replace('.000', '');

const PAGE = 'https://example.com/a/page?b=2&a=1';

// EXAMPLES are the operations of the picker, in the order in which a newcomer would run them.
export const EXAMPLES = [
  {
    group: 'Account',
    title: 'Register',
    name: 'Register',
    query: `mutation Register($input: RegisterInput!) {
  register(input: $input) {
    token
    expiresAt
    user { id email name }
    errors { message code field }
  }
}`,
    variables: { input: { email: 'you@example.com', password: 'a long password of yours', name: 'You' } },
  },
  {
    group: 'Account',
    title: 'Log in',
    name: 'LogIn',
    query: `mutation LogIn($input: LoginInput!) {
  login(input: $input) {
    token
    expiresAt
    user { id email name }
    errors { message code field }
  }
}`,
    variables: { input: { email: 'you@example.com', password: 'a long password of yours' } },
  },
  {
    group: 'Workspaces',
    title: 'Create a workspace',
    name: 'CreateWorkspace',
    query: `mutation CreateWorkspace($input: CreateWorkspaceInput!) {
  createWorkspace(input: $input) {
    workspace { id slug name }
    errors { message code field }
  }
}`,
    variables: { input: { name: 'Acme', slug: 'acme' } },
  },
  {
    group: 'Workspaces',
    title: 'My workspaces',
    name: 'MyWorkspaces',
    query: `query MyWorkspaces {
  me {
    id
    email
    name
    workspaces(first: 20) {
      edges { node { id name slug } }
      pageInfo { hasNextPage endCursor }
    }
  }
}`,
  },
  {
    group: 'Links',
    title: 'Create a link',
    name: 'CreateLink',
    query: `# Same URL, same workspace: same link.
mutation CreateLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      code
      shortUrl
      originalUrl
      canonicalUrl
      status
    }
    created
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, url: PAGE, strategy: 'DETERMINISTIC', title: 'A page' } },
  },
  {
    group: 'Links',
    title: 'Create a link with your own code',
    name: 'CreateCustomLink',
    query: `mutation CreateCustomLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      code
      shortUrl
      originalUrl
      canonicalUrl
      status
    }
    created
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: PAGE,
        strategy: 'CUSTOM',
        customCode: 'my-page',
        expiresAt: midnight(31),
        redirectStatus: 307,
      },
    },
  },
  {
    group: 'Links',
    title: 'Preview a code',
    name: 'PreviewCode',
    query: `# Creates nothing.
query PreviewCode($workspaceId: ID!, $url: String!) {
  previewCode(workspaceId: $workspaceId, url: $url) {
    canonicalUrl
    codes
    existing { id shortUrl }
  }
}`,
    variables: { workspaceId: WORKSPACE_ID, url: PAGE },
  },
  {
    group: 'Links',
    title: 'Find links of a workspace',
    name: 'WorkspaceLinks',
    query: `query WorkspaceLinks($slug: String!, $after: String, $filter: LinkFilter, $orderBy: LinkOrder) {
  workspace(by: { slug: $slug }) {
    id
    name
    usage { links limit resetsAt }
    links(first: 10, after: $after, filter: $filter, orderBy: $orderBy) {
      totalCount
      edges {
        cursor
        node { id code shortUrl title tags status clickCount }
      }
      pageInfo { hasNextPage endCursor }
    }
  }
}`,
    variables: { slug: SLUG, filter: { status: ['ACTIVE'] }, orderBy: { field: 'CLICKS' } },
  },
  {
    group: 'Links',
    title: 'A link and its stats',
    name: 'LinkStats',
    query: `query LinkStats($shortUrl: String!, $range: TimeRange!) {
  link(by: { shortUrl: $shortUrl }) {
    id
    code
    clickCount
    averageRedirectMs
    hitQuota { limit used remaining resetsAt }
    stats(range: $range, timezone: "UTC") {
      clicks
      series(interval: DAY) { start clicks }
    }
  }
}`,
    variables: { shortUrl: SHORT_URL, range: { from: midnight(-6), to: midnight(1) } },
  },
  {
    group: 'Links',
    title: 'Change a link',
    name: 'UpdateLink',
    query: `# What is absent stays as it is; null removes.
mutation UpdateLink($input: UpdateLinkInput!) {
  updateLink(input: $input) {
    link { id title note tags maxClicks status updatedAt }
    errors { message code field }
  }
}`,
    variables: { input: { id: LINK_ID, title: 'Another title', note: null, tags: ['examples'], maxClicks: 1000 } },
  },
  {
    group: 'Links',
    title: 'Delete a link',
    name: 'DeleteLink',
    query: `mutation DeleteLink($input: DeleteLinkInput!) {
  deleteLink(input: $input) {
    link { id status }
    errors { message code field }
  }
}`,
    variables: { input: { id: LINK_ID } },
  },
  {
    group: 'Without an account',
    title: 'Create an anonymous link',
    name: 'CreateAnonymousLink',
    query: `# Ends after some hours, unless claimLinks gets its token.
mutation CreateAnonymousLink($input: CreateAnonymousLinkInput!) {
  createAnonymousLink(input: $input) {
    claimToken
    link { id shortUrl kind expiresAt }
    errors { message code field }
  }
}`,
    variables: { input: { url: PAGE } },
  },
  {
    group: 'Platform',
    title: 'Platform stats',
    name: 'PlatformStats',
    query: `query PlatformStats {
  platformStats {
    totalLinks
    totalRedirects
    averageRedirectMs
  }
}`,
  },
];

// FIRST is open on a first visit: it runs without an account.
export const FIRST = EXAMPLES.find(e => e.name === 'PlatformStats');

// written is an example's variables as the text of the variables editor.
export const written = example => (example.variables ? JSON.stringify(example.variables, null, 2) : '');

// fill replaces what stands for a workspace or a link by the real one, and the workspace that was chosen before.
export function fill(text, { workspace, before, link }) {
  return [
    [WORKSPACE_ID, workspace?.id],
    [SLUG, workspace?.slug],
    [before?.id, workspace?.id],
    [before?.slug, workspace?.slug],
    [LINK_ID, link?.id],
    [SHORT_URL, link?.shortUrl],
  ].reduce((filled, [from, to]) => (from && to ? filled.replaceAll(JSON.stringify(from), () => JSON.stringify(to)) : filled), text ?? '');
}
