// Relay refetches fragments of a type that implements Node by the id alone.
declare function graphql(document: TemplateStringsArray): unknown;

export const apiKey = graphql`
  fragment Nodes_apiKey on ApiKey @refetchable(queryName: "NodesApiKeyQuery") {
    name
    scopes
  }
`;

export const event = graphql`
  fragment Nodes_event on Event @refetchable(queryName: "NodesEventQuery") {
    type
    actor {
      name
    }
  }
`;

export const click = graphql`
  fragment Nodes_click on Click @refetchable(queryName: "NodesClickQuery") {
    at
    link {
      shortUrl
    }
  }
`;

export const domain = graphql`
  fragment Nodes_domain on Domain @refetchable(queryName: "NodesDomainQuery") {
    host
    status
  }
`;

export const invitation = graphql`
  fragment Nodes_invitation on Invitation @refetchable(queryName: "NodesInvitationQuery") {
    email
    role
  }
`;

export const member = graphql`
  fragment Nodes_member on Member @refetchable(queryName: "NodesMemberQuery") {
    role
    user {
      name
    }
  }
`;

export const session = graphql`
  fragment Nodes_session on Session @refetchable(queryName: "NodesSessionQuery") {
    agent
    isCurrent
  }
`;
