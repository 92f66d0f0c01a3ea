import type { CodegenConfig } from '@graphql-codegen/cli';

// Types for every operation in src, made from the schema beside them. A server that answers introspection can be named
// instead: schema: 'http://localhost:8080/graphql'.
const config: CodegenConfig = {
  schema: '../../schema.graphql',
  documents: 'src/**/*.ts',
  ignoreNoDocuments: true,
  generates: {
    './src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: {
        useTypeImports: true,
        enumsAsTypes: true,
        scalars: { Time: 'string', URL: 'string', EmailAddress: 'string', Int64: 'number' },
      },
    },
  },
};

export default config;
