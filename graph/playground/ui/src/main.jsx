import './workers.js';
import 'graphiql/graphiql.css';
import '@graphiql/react/style.css';
import '@graphiql/plugin-doc-explorer/style.css';
import '@graphiql/plugin-history/style.css';
import './style.css';

import { GraphiQL, HISTORY_PLUGIN } from 'graphiql';
import { createRoot } from 'react-dom/client';

import { fetcher } from './api.js';
import { Bar } from './bar.jsx';
import { FIRST } from './examples.js';
import { EXAMPLES_PLUGIN, WorkspaceSync } from './examples-panel.jsx';
import { ResultLinks } from './result-links.jsx';
import { resume } from './session.js';
import { storage } from './storage.js';

const PLUGINS = [EXAMPLES_PLUGIN, HISTORY_PLUGIN];
// On a telephone the examples would leave no room for the operation; they are behind their button there.
const OPEN_PLUGIN = matchMedia('(min-width: 700px)').matches ? EXAMPLES_PLUGIN : undefined;
const TABS = [{ query: FIRST.query, variables: '' }];

function Playground() {
  return (
    <>
      <Bar />
      <main aria-label="GraphiQL">
        <GraphiQL
          fetcher={fetcher}
          storage={storage}
          plugins={PLUGINS}
          visiblePlugin={OPEN_PLUGIN}
          defaultTabs={TABS}
          defaultEditorToolsVisibility="variables"
          inputValueDeprecation
          schemaDescription
        >
          <GraphiQL.Logo> </GraphiQL.Logo>
          <WorkspaceSync />
          <ResultLinks />
        </GraphiQL>
      </main>
    </>
  );
}

createRoot(document.getElementById('playground')).render(<Playground />);
resume();
