import type { CodegenConfig } from '@graphql-codegen/cli';

// Types of the documents of the console, and the list of the documents by their hashes, which the server permits.
const config: CodegenConfig = {
  schema: '../../../schema.graphql',
  documents: 'src/**/*.graphql',
  generates: {
    './src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false, persistedDocuments: { hashAlgorithm: 'sha256' } },
      config: {
        useTypeImports: true,
        enumsAsTypes: true,
        scalars: { Time: 'string', URL: 'string', EmailAddress: 'string', Int64: 'number' },
      },
    },
  },
};

export default config;
