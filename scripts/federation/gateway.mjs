// Composes the schema of a running server with that of a second service, which extends Link by campaigns, and sends queries
// over both through Apollo's gateway, as members of two workspaces and with a key of a folder: node gateway.mjs BASE_URL.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

import { composeServices } from '@apollo/composition';
import { ApolloGateway, RemoteGraphQLDataSource } from '@apollo/gateway';
import { buildSubgraphSchema } from '@apollo/subgraph';
import { graphql, parse } from 'graphql';

const linkforge = new URL('/graphql', process.argv[2]).href;
const CAMPAIGNS = parse(`
  extend schema @link(url: "https://specs.apollo.dev/federation/v2.0", import: ["@key", "@shareable"])
  type Query { campaign: Campaign! campaigns(first: Int): CampaignConnection! }
  type CampaignConnection { nodes: [Campaign!]! pageInfo: PageInfo! }
  type PageInfo @shareable { hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String endCursor: String }
  type Campaign { name: String! links: [Link]! owner: User }
  type Link @key(fields: "id") { id: ID! campaign: Campaign }
  type User @key(fields: "id") { id: ID! }`);
const campaign = { name: 'spring', links: [] };

const campaigns = await serveCampaigns();
try {
  const ada = await register('ada'), eve = await register('eve');
  const folder = (await ask(ada.token, `mutation ($w: ID!) { createFolder(input: {workspaceId: $w, name: "spring"}) { folder { id } } }`,
    { w: ada.workspace })).createFolder.folder.id;
  const inside = await createLink(ada, 'inside', folder), outside = await createLink(ada, 'outside');
  const foreign = await createLink(eve, 'foreign');
  const key = (await ask(ada.token, `mutation ($w: ID!, $f: ID!) { createApiKey(input: {
    workspaceId: $w, name: "key", scopes: [LINKS_READ], folderIds: [$f]}) { secret } }`,
  { w: ada.workspace, f: folder })).createApiKey.secret;
  campaign.links = [inside, outside, foreign, 'lnk_01h455vb4pex5vsknk084sn02q'].map(id => ({ __typename: 'Link', id }));
  campaign.owner = { __typename: 'User', id: ada.id };

  const { _service: { sdl } } = await ask('', '{ _service { sdl } }');
  const { errors, hints, supergraphSdl } = composeServices([
    { name: 'linkforge', url: linkforge, typeDefs: parse(sdl) },
    { name: 'campaigns', url: campaigns.url, typeDefs: CAMPAIGNS },
  ]);
  assert.equal(errors, undefined, errors?.join('\n'));
  console.log(`composed ${supergraphSdl.length} bytes, ${hints.length} hints`);
  const gateway = new ApolloGateway({
    supergraphSdl,
    buildService: ({ url }) => new RemoteGraphQLDataSource({
      url,
      willSendRequest: ({ request, context }) => { request.http?.headers.set('Authorization', context.authorization ?? ''); },
    }),
    logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
  });
  const { executor } = await gateway.load();
  const over = async (token, query, variables = {}) => {
    const result = await executor({
      document: parse(query), queryHash: query, request: { query, variables }, operationName: null,
      context: { authorization: token && `Bearer ${token}` }, metrics: {}, cache: new Map(), logger: console,
    });
    return { data: JSON.parse(JSON.stringify(result.data ?? null)), codes: result.errors?.map(e => e.extensions.code) };
  };

  // Without a field that cannot be null, gateways return the id that the other service has, with null for what is not there.
  const QUERY = '{ campaign { name owner { email } links { id title tags archived } } }';
  const link = (id, title) => ({ id, title, tags: ['spring'], archived: false });
  const expect = async (who, token, owner, ...links) => {
    assert.deepEqual(await over(token, QUERY), { data: { campaign: { name: 'spring', owner, links } }, codes: undefined });
    console.log(`${who}: ${links.map(l => l?.title ?? 'null').join(', ')}`);
  };
  await expect('ada', ada.token, { email: ada.email }, link(inside, 'inside'), link(outside, 'outside'), null, null);
  await expect('eve', eve.token, null, null, null, link(foreign, 'foreign'), null);
  await expect('the key of a folder', key, null, link(inside, 'inside'), null, null, null);

  const anonymous = await over('', QUERY);
  assert.deepEqual(anonymous.data.campaign.links, [null, null, null, null]);
  assert.ok(anonymous.codes.includes('UNAUTHENTICATED'), `${anonymous.codes}`);
  console.log(`anonymous: ${anonymous.codes.join(', ')}`);

  const back = await over(ada.token, `query ($w: ID!) { workspace(by: {id: $w}) { links { nodes { title campaign { name } }
    pageInfo { hasNextPage } } } campaigns { pageInfo { hasNextPage } } }`, { w: ada.workspace });
  assert.deepEqual(back.data.workspace.links.nodes.map(l => [l.title, l.campaign?.name]).sort(),
    [['inside', 'spring'], ['outside', 'spring']]);
  assert.equal(back.codes, undefined);
  console.log('the links of a workspace have their campaigns');
  await gateway.stop();
} finally {
  campaigns.close();
}

// serveCampaigns starts the second service.
async function serveCampaigns() {
  const ofLink = link => (campaign.links.some(l => l.id === link.id) ? campaign : null);
  const schema = buildSubgraphSchema({
    typeDefs: CAMPAIGNS,
    resolvers: {
      Query: {
        campaign: () => campaign,
        campaigns: () => ({ nodes: [campaign], pageInfo: { hasNextPage: false, hasPreviousPage: false } }),
      },
      Link: { __resolveReference: link => link, campaign: ofLink },
    },
  });
  const server = createServer(async (request, response) => {
    const { query, variables } = JSON.parse(await text(request));
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(await graphql({ schema, source: query, variableValues: variables })));
  });
  await new Promise(resolve => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

// ask sends an operation to the server itself.
async function ask(token, query, variables = {}) {
  const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(linkforge, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  assert.equal(errors, undefined, JSON.stringify(errors));
  return data;
}

// register returns a new account with a workspace.
async function register(name) {
  const { register: { token, user } } = await ask('', `mutation ($in: RegisterInput!) { register(input: $in) { token user { id email } } }`,
    { in: { email: `${name}@example.com`, password: 'correct horse battery staple', name } });
  const { createWorkspace } = await ask(token, `mutation ($in: CreateWorkspaceInput!) { createWorkspace(input: $in) { workspace { id } } }`,
    { in: { name, slug: name } });
  return { token, ...user, workspace: createWorkspace.workspace.id };
}

async function createLink({ token, workspace }, title, folderId) {
  const { createLink } = await ask(token, `mutation ($input: CreateLinkInput!) { createLink(input: $input) { link { id } errors { message } } }`,
    { input: { workspaceId: workspace, url: `https://example.com/${title}`, title, folderId, tags: ['spring'] } });
  assert.deepEqual(createLink.errors, []);
  return createLink.link.id;
}
