// The recommended and the Relay rules of graphql-eslint, for the schema.
import { fileURLToPath } from 'node:url';

import graphql from '@graphql-eslint/eslint-plugin';

// values are what is a part of something that has an id, or a figure: no cache keeps them by themselves.
const values = [
  'ArchiveSection', 'CodePreview', 'DestinationCheck', 'FieldChange', 'ImportCount', 'ImportHost', 'ImportLoss', 'ImportLossCount',
  'ImportReport', 'ImportRow', 'Latency', 'LinkCard', 'LinkGate', 'LinkOrigin', 'LinkRouting', 'LinkVersion', 'LoginChallenge',
  'LoginOptions', 'Metadata', 'PageInfo', 'ParityCount', 'ParityDifference', 'ParityReport', 'Period', 'PlatformStats', 'QrCode',
  'QrStyle', 'QueryCondition', 'QueryForwarding', 'Quota', 'RateLimit', 'RedirectExplanation', 'RedirectStep', 'RoutingEnd', 'RoutingFlow', 'RoutingRule', 'RoutingSimulation',
  'RoutingTarget', 'RoutingTest', 'RoutingWarning', 'SecondFactors', 'SsoIdentity', 'Stats', 'StatsPoint', 'StatsSlice', 'Tag',
  'UnmatchedRequest', 'UserError', 'Utm', 'VisitCondition', 'VisitReading', 'VisitSample', 'WebhookAttempt', 'WeeklySchedule',
  'WorkspaceArchive',
];

export default [
  {
    files: ['**/*.graphql'],
    languageOptions: {
      parser: graphql.parser,
      parserOptions: { graphQLConfig: { schema: fileURLToPath(new URL('../../schema.graphql', import.meta.url)) } },
    },
    plugins: { '@graphql-eslint': graphql },
    rules: {
      ...graphql.configs['flat/schema-recommended'].rules,
      ...graphql.configs['flat/schema-relay'].rules,
      // Descriptions of one line are in quotes, longer ones in blocks: the rule knows one form only.
      '@graphql-eslint/description-style': 'off',
      // Most pages are only read forwards.
      '@graphql-eslint/relay-arguments': ['error', { includeBoth: false }],
      // Short lists are lists, without edges. Versions are parts of their link, which has the id.
      '@graphql-eslint/relay-edge-types': ['error', { listTypeCanWrapOnlyEdgeType: false, shouldImplementNode: false }],
      '@graphql-eslint/strict-id-in-types': ['error', { exceptions: { types: values, suffixes: ['Payload', 'Result', 'Connection', 'Edge'] } }],
    },
  },
];
