import { addTypenameSelectionDocumentTransform } from '@graphql-codegen/client-preset';
import type { CodegenConfig } from '@graphql-codegen/cli';

// Types of the documents of the console. They select __typename already, so that what is sent is what is generated.
const config: CodegenConfig = {
  schema: '../../../schema.graphql',
  documents: 'src/**/*.graphql',
  generates: {
    './src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      documentTransforms: [addTypenameSelectionDocumentTransform],
      config: {
        useTypeImports: true,
        enumsAsTypes: true,
        scalars: { Time: 'string', URL: 'string', EmailAddress: 'string', Int64: 'number' },
      },
    },
  },
};

export default config;
