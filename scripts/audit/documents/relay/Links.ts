// What a Relay front end writes: a page of links that goes on, is changed by mutations, and hears of clicks.
declare function graphql(document: TemplateStringsArray): unknown;

export const query = graphql`
  query LinksQuery($slug: String!) {
    workspace(by: { slug: $slug }) {
      id
      ...Links_workspace
    }
  }
`;

export const page = graphql`
  fragment Links_workspace on Workspace
  @refetchable(queryName: "LinksPageQuery")
  @argumentDefinitions(count: { type: "Int", defaultValue: 20 }, cursor: { type: "String" }, filter: { type: "LinkFilter" }) {
    name
    links(first: $count, after: $cursor, filter: $filter) @connection(key: "Links_links", filters: ["filter"]) {
      edges {
        node {
          id
          ...Links_link
        }
      }
    }
  }
`;

export const link = graphql`
  fragment Links_link on Link @refetchable(queryName: "LinksLinkQuery") @argumentDefinitions(range: { type: "TimeRange" }) {
    shortUrl
    originalUrl
    clickCount
    stats(range: $range) {
      clicks
      breakdown(by: COUNTRY, first: 5) {
        value
        clicks
      }
    }
    createdBy {
      name
    }
  }
`;

export const create = graphql`
  mutation LinksCreateMutation($input: CreateLinkInput!) {
    createLink(input: $input) {
      link {
        id
        ...Links_link
      }
      errors {
        message
        code
        field
      }
    }
  }
`;

export const clicks = graphql`
  subscription LinksClicksSubscription($workspaceId: ID!, $after: ID) {
    linkClicked(workspaceId: $workspaceId, after: $after) {
      id
      link {
        id
        clickCount
      }
    }
  }
`;
