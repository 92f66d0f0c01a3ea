// Words in angle brackets stand for what is not known yet; fill replaces them.
const WORKSPACE_ID = '<id of your workspace>';
const SLUG = '<slug of your workspace>';
const LINK_ID = '<id of a link>';
const SHORT_URL = '<a short URL>';
const TEMPLATE_ID = '<id of a UTM template>';
const DOMAIN_ID = '<id of a domain>';

const DAY = 24 * 60 * 60 * 1000;
const midnight = days => new Date(Math.floor(Date.now() / DAY) * DAY + days * DAY).toISOString().replace('.000', '');

const PAGE = 'https://example.com/a/page?b=2&a=1';

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';

// The rules of the examples that create links with routing.
const APP_STORES = [
  { name: 'iPhone and iPad', when: [{ os: ['iOS'] }], targets: [{ url: 'https://apps.apple.com/app/id1' }] },
  { name: 'Android', when: [{ os: ['Android'] }], targets: [{ url: 'https://play.google.com/store/apps/details?id=example' }] },
];
const SPLIT_TEST = {
  name: 'prices',
  stickiness: 'VISITOR',
  targets: [
    { name: 'A', url: 'https://example.com/plans/a', share: 9 },
    { name: 'B', url: 'https://example.com/plans/b', share: 1 },
  ],
};
const WORKDAYS = ['MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY'];
const OFFICE_HOURS = {
  name: 'office hours',
  when: [{ weekly: { timezone: 'Europe/Berlin', days: WORKDAYS, from: '09:00', to: '17:00' } }],
  targets: [{ url: 'https://example.com/call' }],
};
const OFFICE_TESTS = [
  { name: 'a Monday morning', visit: { at: '2026-06-15T07:00:00Z' }, location: 'https://example.com/call' },
  { name: 'a Sunday', visit: { at: '2026-06-14T10:00:00Z' }, location: 'https://example.com/contact' },
];

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
    linkQuota { used limit resetsAt }
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
    group: 'Links',
    title: 'Tags and folders of a workspace',
    name: 'TagsAndFolders',
    query: `query TagsAndFolders($slug: String!, $prefix: String) {
  workspace(by: { slug: $slug }) {
    tags(first: 100, prefix: $prefix) { nodes { name linkCount } }
    folders(first: 100) { nodes { id name linkCount } }
  }
}`,
    variables: { slug: SLUG, prefix: '' },
  },
  {
    group: 'Links',
    title: 'Rename or merge tags',
    name: 'ReplaceTags',
    query: `mutation ReplaceTags($input: ReplaceTagsInput!) {
  replaceTags(input: $input) {
    changed
    remaining
    operationId
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, from: ['examples'], to: 'samples' } },
  },
  {
    group: 'Links',
    title: 'Create a folder',
    name: 'CreateFolder',
    query: `mutation CreateFolder($input: CreateFolderInput!) {
  createFolder(input: $input) {
    folder { id name }
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, name: 'Campaigns' } },
  },
  {
    group: 'Routing',
    title: 'Create a link with rules',
    name: 'CreateAppLink',
    query: `# Each device gets its app store; all others get the URL.
mutation CreateAppLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { rules { ruleId name targets { targetId url } } }
    }
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, url: 'https://example.com/app', routing: { rules: APP_STORES } } },
  },
  {
    group: 'Routing',
    title: 'Try rules before saving them',
    name: 'ExplainRedirect',
    query: `# Consumes nothing. Without routing, it explains the saved rules.
query ExplainRedirect($shortUrl: String!, $visit: VisitSampleInput, $routing: LinkRoutingInput) {
  explainRedirect(by: { shortUrl: $shortUrl }, visit: $visit, routing: $routing) {
    status
    location
    reason
    ruleIndex
    targetIndex
    candidates
    visit { country device os browser language bot }
    steps { step outcome ruleIndex conditionIndex detail }
  }
}`,
    variables: {
      shortUrl: SHORT_URL,
      visit: { country: 'CH', userAgent: IPHONE, acceptLanguage: 'de-CH,en;q=0.8' },
      routing: {
        rules: [
          { name: 'bots', when: [{ bot: true }], targets: [{ url: null }] },
          {
            name: 'German phones',
            when: [{ country: ['DE', 'AT', 'CH'] }, { device: ['mobile'] }],
            unless: [{ language: ['fr', 'it'] }],
            targets: [{ url: 'https://example.com/de' }],
          },
        ],
      },
    },
  },
  {
    group: 'Routing',
    title: 'Split test',
    name: 'CreateSplitTest',
    query: `# The same network and browser get the same target.
mutation CreateSplitTest($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { rules { ruleId stickiness targets { targetId name share clickCount } } }
    }
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, url: 'https://example.com/plans', routing: { rules: [SPLIT_TEST] } } },
  },
  {
    group: 'Routing',
    title: 'Clicks by rule and target',
    name: 'ClicksByTarget',
    query: `query ClicksByTarget($shortUrl: String!, $range: TimeRange!) {
  link(by: { shortUrl: $shortUrl }) {
    id
    routing { rules { ruleId name targets { targetId name clickCount } } }
    stats(range: $range, timezone: "UTC") {
      clicks
      rules: breakdown(by: RULE) { value clicks }
      targets: breakdown(by: TARGET) { value clicks }
    }
  }
}`,
    variables: { shortUrl: SHORT_URL, range: { from: midnight(-6), to: midnight(1) } },
  },
  {
    group: 'Routing',
    title: 'Office hours with tests',
    name: 'CreateOfficeLink',
    query: `# The tests run before each change of the URL or the routing. A change that breaks one is refused.
mutation CreateOfficeLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { tests { name location } }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: 'https://example.com/contact',
        routing: { rules: [OFFICE_HOURS], tests: OFFICE_TESTS },
      },
    },
  },
  {
    group: 'Routing',
    title: 'Change the rules of a link',
    name: 'UpdateRules',
    query: `# Rules are replaced as a whole; null removes them. The second rule is never tried: see the warnings.
mutation UpdateRules($input: UpdateLinkInput!) {
  updateLink(input: $input) {
    link {
      id
      updatedAt
      routing {
        rules { ruleId name enabled }
        endedUrl
        warnings { code message field }
      }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        id: LINK_ID,
        routing: {
          rules: [
            { name: 'always', targets: [{ url: 'https://example.com/first' }] },
            { name: 'never tried', when: [{ browser: ['Netscape'] }], targets: [{ url: 'https://example.com/second' }] },
          ],
          tests: null,
          endedUrl: 'https://example.com/ended?code={code}',
        },
      },
    },
  },
  {
    group: 'Routing',
    title: 'Warnings of a link',
    name: 'RoutingWarnings',
    query: `query RoutingWarnings($shortUrl: String!) {
  link(by: { shortUrl: $shortUrl }) {
    id
    routing { warnings { code message field } }
  }
}`,
    variables: { shortUrl: SHORT_URL },
  },
  {
    group: 'Routing',
    title: 'Defaults of a workspace',
    name: 'UpdateWorkspaceDefaults',
    query: `# The defaults are copied into new links. The fallback URLs apply to all links.
mutation UpdateWorkspaceDefaults($input: UpdateWorkspaceInput!) {
  updateWorkspace(input: $input) {
    workspace {
      id
      routingDefaults { query { mode except } forwardPath utm { source } }
      notFoundUrl
      endedUrl
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        id: WORKSPACE_ID,
        routingDefaults: { query: { mode: 'ADD', except: ['token'] }, forwardPath: false, utm: { source: 'short link' } },
        notFoundUrl: 'https://example.com/missing?code={code}',
        endedUrl: 'https://example.com/ended?code={code}',
      },
    },
  },
  {
    group: 'Routing',
    title: 'Create a UTM template',
    name: 'CreateUtmTemplate',
    query: `mutation CreateUtmTemplate($input: CreateUtmTemplateInput!) {
  createUtmTemplate(input: $input) {
    utmTemplate {
      id
      name
      utm { source medium campaign }
    }
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, name: 'Newsletter', utm: { source: 'newsletter', medium: 'email' } } },
  },
  {
    group: 'Routing',
    title: 'Create a link with a UTM template',
    name: 'CreateCampaignLink',
    query: `# The values of the template are copied into the link.
mutation CreateCampaignLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { utm { source medium campaign } }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: 'https://example.com/offer',
        routing: { utm: { templateId: TEMPLATE_ID, campaign: 'spring sale' } },
      },
    },
  },
  {
    group: 'Pages',
    title: 'Create a link with a password',
    name: 'CreateGatedLink',
    query: `# Visitors see a page before the redirect. Programs send the header X-Link-Password.
mutation CreateGatedLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { gate { hasPassword notice confirm } }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: 'https://example.com/report.pdf',
        routing: { gate: { password: 'correct horse', notice: 'For the board only.' } },
      },
    },
  },
  {
    group: 'Pages',
    title: 'Create a one-time link',
    name: 'CreateOneTimeLink',
    query: `# The button keeps scanners of emails from using the link up.
mutation CreateOneTimeLink($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      maxClicks
      routing { gate { confirm } bots }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: 'https://example.com/secret',
        maxClicks: 1,
        routing: { gate: { confirm: true }, bots: 'CONFIRM' },
      },
    },
  },
  {
    group: 'Pages',
    title: 'Create a link with a preview card',
    name: 'CreateLinkWithCard',
    query: `# Messengers and social networks show the card. The link is counted by the source of its QR code.
mutation CreateLinkWithCard($input: CreateLinkInput!) {
  createLink(input: $input) {
    link {
      id
      shortUrl
      routing { card { title description imageUrl imageAlt } qrSources }
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        workspaceId: WORKSPACE_ID,
        url: 'https://example.com/event',
        routing: {
          card: {
            title: 'The summer party',
            description: 'On 20 June, from 18:00.',
            imageUrl: 'https://example.com/party.png',
            imageAlt: 'People who dance in a garden',
          },
          qrSources: ['poster'],
        },
      },
    },
  },
  {
    group: 'Pages',
    title: 'QR code of a link',
    name: 'QrCode',
    query: `query QrCode($shortUrl: String!) {
  link(by: { shortUrl: $shortUrl }) {
    id
    qrCode(source: "poster", style: { foreground: "#1d3557", level: HIGH }) { svg modules svgUrl pngUrl }
  }
}`,
    variables: { shortUrl: SHORT_URL },
  },
  {
    group: 'Pages',
    title: 'Show where links lead',
    name: 'MakeInspectable',
    query: `# A + after a short URL shows its destination.
mutation MakeInspectable($input: UpdateWorkspaceInput!) {
  updateWorkspace(input: $input) {
    workspace { id inspectable }
    errors { message code field }
  }
}`,
    variables: { input: { id: WORKSPACE_ID, inspectable: true } },
  },
  {
    group: 'Domains',
    title: 'Add a domain',
    name: 'AddDomain',
    query: `mutation AddDomain($input: AddDomainInput!) {
  addDomain(input: $input) {
    domain { id host status recordName recordValue }
    errors { message code field }
  }
}`,
    variables: { input: { workspaceId: WORKSPACE_ID, host: 'links.example.com' } },
  },
  {
    group: 'Domains',
    title: 'Change the answers of a domain',
    name: 'UpdateDomain',
    query: `mutation UpdateDomain($input: UpdateDomainInput!) {
  updateDomain(input: $input) {
    domain {
      id
      host
      rootUrl
      notFoundUrl
      endedUrl
      faviconUrl
      indexable
      assetLinks
    }
    errors { message code field }
  }
}`,
    variables: {
      input: {
        id: DOMAIN_ID,
        rootUrl: 'https://example.com/',
        notFoundUrl: 'https://example.com/missing?code={code}',
        faviconUrl: 'https://example.com/favicon.ico',
        indexable: true,
        assetLinks: '[]',
      },
    },
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

// fill replaces the placeholders of known objects by their values, and the workspace that was chosen before by the present one.
export function fill(text, { workspace, before, link, template, domain }) {
  return [
    [WORKSPACE_ID, workspace?.id],
    [SLUG, workspace?.slug],
    [before?.id, workspace?.id],
    [before?.slug, workspace?.slug],
    [LINK_ID, link?.id],
    [SHORT_URL, link?.shortUrl],
    [TEMPLATE_ID, template?.id],
    [DOMAIN_ID, domain?.id],
  ].reduce((filled, [from, to]) => (from && to ? filled.replaceAll(JSON.stringify(from), () => JSON.stringify(to)) : filled), text ?? '');
}
