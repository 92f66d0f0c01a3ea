// Every operation that this front end sends. graphql-codegen reads them here and makes their types.
import { graphql } from './gql';

export const Register = graphql(`
  mutation Register($input: RegisterInput!) {
    register(input: $input) {
      token
      refreshToken
      errors {
        message
        field
      }
    }
  }
`);

export const LogIn = graphql(`
  mutation LogIn($input: LoginInput!) {
    login(input: $input) {
      token
      refreshToken
      challenge {
        token
        methods
      }
      errors {
        message
        field
      }
    }
  }
`);

export const LoginOptions = graphql(`
  query LoginOptions {
    loginOptions {
      password
      ssoName
    }
  }
`);

export const CompleteLogin = graphql(`
  mutation CompleteLogin($input: CompleteLoginInput!) {
    completeLogin(input: $input) {
      token
      refreshToken
      challenge {
        token
        methods
      }
      errors {
        message
        field
      }
    }
  }
`);

export const StartSso = graphql(`
  mutation StartSso($input: StartSsoInput!) {
    startSso(input: $input) {
      authorizationUrl
      transaction
      errors {
        message
        field
      }
    }
  }
`);

export const FinishSso = graphql(`
  mutation FinishSso($input: FinishSsoInput!) {
    finishSso(input: $input) {
      token
      refreshToken
      challenge {
        token
        methods
      }
      errors {
        message
        field
      }
    }
  }
`);

export const SecondFactors = graphql(`
  query SecondFactors {
    me {
      id
      secondFactors {
        totp
        recoveryCodes
      }
    }
  }
`);

export const EnrollTotp = graphql(`
  mutation EnrollTotp($input: EnrollTotpInput!) {
    enrollTotp(input: $input) {
      secret
      uri
      errors {
        message
        field
      }
    }
  }
`);

export const ConfirmTotp = graphql(`
  mutation ConfirmTotp($input: ConfirmTotpInput!) {
    confirmTotp(input: $input) {
      recoveryCodes
      errors {
        message
        field
      }
    }
  }
`);

export const RenewRecoveryCodes = graphql(`
  mutation RenewRecoveryCodes($input: RenewRecoveryCodesInput!) {
    renewRecoveryCodes(input: $input) {
      recoveryCodes
      errors {
        message
        field
      }
    }
  }
`);

export const RemoveTotp = graphql(`
  mutation RemoveTotp($input: RemoveTotpInput!) {
    removeTotp(input: $input) {
      errors {
        message
        field
      }
    }
  }
`);

export const RefreshSession = graphql(`
  mutation RefreshSession($input: RefreshSessionInput!) {
    refreshSession(input: $input) {
      token
      refreshToken
    }
  }
`);

export const LogOut = graphql(`
  mutation LogOut {
    logout(input: {}) {
      loggedOut
    }
  }
`);

export const Me = graphql(`
  query Me {
    me {
      id
      name
      workspaces(first: 20) {
        edges {
          node {
            id
            name
            slug
          }
        }
      }
    }
  }
`);

export const CreateWorkspace = graphql(`
  mutation CreateWorkspace($input: CreateWorkspaceInput!) {
    createWorkspace(input: $input) {
      workspace {
        id
        name
        slug
      }
      errors {
        message
        field
      }
    }
  }
`);

export const CreateLink = graphql(`
  mutation CreateLink($input: CreateLinkInput!) {
    createLink(input: $input) {
      created
      link {
        id
        shortUrl
      }
      errors {
        message
        field
      }
    }
  }
`);

export const CreateFolder = graphql(`
  mutation CreateFolder($input: CreateFolderInput!) {
    createFolder(input: $input) {
      folder {
        id
        name
      }
      errors {
        message
        field
      }
    }
  }
`);

export const CreateAnonymousLink = graphql(`
  mutation CreateAnonymousLink($input: CreateAnonymousLinkInput!) {
    createAnonymousLink(input: $input) {
      claimToken
      link {
        id
        shortUrl
        expiresAt
      }
      errors {
        message
        field
      }
    }
  }
`);

export const ClaimLinks = graphql(`
  mutation ClaimLinks($input: ClaimLinksInput!) {
    claimLinks(input: $input) {
      results {
        status
        link {
          id
          shortUrl
        }
        errors {
          message
        }
      }
      errors {
        message
      }
    }
  }
`);

export const Links = graphql(`
  query Links($workspace: ID!, $after: String, $filter: LinkFilter) {
    workspace(by: { id: $workspace }) {
      id
      tags(first: 100) {
        nodes {
          name
        }
      }
      folders(first: 100) {
        nodes {
          id
          name
          linkCount
        }
      }
      links(first: 5, after: $after, filter: $filter) {
        totalCount
        edges {
          node {
            id
            title
            shortUrl
            originalUrl
            clickCount
            tags
            folder {
              name
            }
          }
        }
        pageInfo {
          hasNextPage
          endCursor
        }
      }
    }
  }
`);

export const Clicks = graphql(`
  subscription Clicks($workspace: ID!, $after: ID) {
    linkClicked(workspaceId: $workspace, after: $after) {
      id
      at
      browser
      device
      referrer
      bot
      link {
        id
        title
        shortUrl
        clickCount
      }
    }
  }
`);

export const RoutingOfLink = graphql(`
  query RoutingOfLink($id: ID!) {
    link(by: { id: $id }) {
      ...EditedLink
    }
  }

  fragment EditedLink on Link {
    id
    title
    shortUrl
    originalUrl
    updatedAt
    routing {
      rules {
        ruleId
        name
        enabled
        when {
          ...Condition
        }
        unless {
          ...Condition
        }
        targets {
          targetId
          name
          url
          share
          maxClicks
          clickCount
        }
        stickiness
      }
      query {
        mode
        only
        except
      }
      forwardPath
      pendingUrl
      endedUrl
      warnings {
        code
        message
        field
      }
    }
  }

  fragment Condition on VisitCondition {
    country
    device
    os
    browser
    language
    referrer
    query {
      name
      value
    }
    during {
      from
      to
    }
    weekly {
      timezone
      days
      from
      to
    }
    network
    bot
  }
`);

export const UpdateRouting = graphql(`
  mutation UpdateRouting($input: UpdateLinkInput!) {
    updateLink(input: $input) {
      link {
        ...EditedLink
      }
      errors {
        code
        message
        field
      }
    }
  }
`);

export const ExplainRedirect = graphql(`
  query ExplainRedirect($id: ID!, $visit: VisitSampleInput, $routing: LinkRoutingInput) {
    explainRedirect(by: { id: $id }, visit: $visit, routing: $routing) {
      status
      location
      reason
      ruleIndex
      targetIndex
      candidates
      visit {
        country
        device
        os
        browser
        language
        referrer
        bot
      }
      steps {
        step
        outcome
        ruleIndex
        conditionIndex
        detail
      }
    }
  }
`);

export const TaskProgressFields = graphql(`
  fragment TaskProgress on Task {
    id
    status
    done
    total
    failure {
      message
    }
    report {
      __typename
      ... on ImportReport {
        counts {
          outcome
          rows
        }
        losses {
          field
          reason
          rows
        }
        rows(first: 20, outcomes: [FAILED, SKIPPED]) {
          nodes {
            line
            sourceId
            outcome
            errors {
              message
            }
          }
        }
      }
      ... on ParityReport {
        verdicts: counts {
          verdict
          links
        }
        differences(first: 20) {
          nodes {
            sourceUrl
            verdict
            sourceStatus
            sourceLocation
          }
        }
      }
    }
  }
`);

export const TaskProgress = graphql(`
  query TaskProgress($id: ID!) {
    node(id: $id) {
      __typename
      ...TaskProgress
    }
  }
`);

export const CreateImport = graphql(`
  mutation CreateImport($input: CreateImportInput!) {
    createImport(input: $input) {
      task {
        ...TaskProgress
      }
      uploadUrl
      errors {
        message
      }
    }
  }
`);

export const ApplyImport = graphql(`
  mutation ApplyImport($input: ApplyImportInput!) {
    applyImport(input: $input) {
      task {
        ...TaskProgress
      }
      errors {
        message
      }
    }
  }
`);

export const CheckParity = graphql(`
  mutation CheckParity($input: CheckParityInput!) {
    checkParity(input: $input) {
      task {
        ...TaskProgress
      }
      errors {
        message
      }
    }
  }
`);

export const CancelTask = graphql(`
  mutation CancelTask($input: CancelTaskInput!) {
    cancelTask(input: $input) {
      task {
        id
        status
      }
      errors {
        message
      }
    }
  }
`);
