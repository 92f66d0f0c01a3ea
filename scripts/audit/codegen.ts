import type { CodegenConfig } from '@graphql-codegen/cli';

const config: CodegenConfig = {
  schema: '../../schema.graphql',
  documents: 'documents/*.graphql',
  generates: { './generated/codegen/': { preset: 'client', config: { scalars: {
    Time: 'string', URL: 'string', EmailAddress: 'string', Int64: 'number',
  } } } },
};

export default config;
