import { useGraphiQL, useGraphiQLActions } from '@graphiql/react';
import { parse } from 'graphql';
import { useEffect, useRef } from 'react';

import { EXAMPLES, fill, written } from './examples.js';
import { chosen, known, useSession } from './session-state.js';

// What each example was last filled with, to tell whether a person has changed it since.
const given = new Map();

function ExamplesPanel() {
  const open = useOpen();
  const { tabs, activeTabIndex } = useGraphiQL(tabState);
  const groups = Object.groupBy(EXAMPLES, e => e.group);
  return (
    <section className="examples" aria-label="Examples">
      <h2>Examples</h2>
      <p>Pick one, then press the run button or Ctrl-Enter.</p>
      {Object.entries(groups).map(([group, examples]) => (
        <div key={group} role="group" aria-label={group}>
          <h3>{group}</h3>
          <ul>
            {examples.map(example => (
              <li key={example.name}>
                <button type="button" aria-current={tabs[activeTabIndex]?.title === example.name} onClick={() => open(example)}>
                  {example.title}
                </button>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}

// useOpen returns what shows an example: in its own tab when it has one, else in a tab that is empty, else in a new one.
function useOpen() {
  const { tabs, activeTabIndex, queryEditor, variableEditor } = useGraphiQL(tabState);
  const { addTab, changeTab, setOperationFacts, setVisiblePlugin, updateActiveTabValues } = useGraphiQLActions();
  return example => {
    if (!queryEditor || !variableEditor) return;
    // On a telephone the list is above the editors, and would hide that they have changed.
    if (matchMedia('(max-width: 700px)').matches) setVisiblePlugin(null);
    const variables = fill(written(example), known(useSession.getState()));
    const index = tabs.findIndex(tab => tab.title === example.name);
    if (index >= 0 && index !== activeTabIndex) changeTab(index);
    if (index >= 0 && variableEditor.getValue() !== (given.get(example.name) ?? '')) return;
    if (index < 0 && queryEditor.getValue().trim()) addTab();
    if (index < 0) queryEditor.setValue(example.query);
    variableEditor.setValue(variables);
    given.set(example.name, variables);
    // GraphiQL works these out a moment after the text has changed; the run button may be quicker.
    const documentAST = parse(queryEditor.getValue());
    setOperationFacts({ documentAST, operations: documentAST.definitions, operationName: example.name });
    updateActiveTabValues({ query: queryEditor.getValue(), variables, operationName: example.name });
  };
}

// WorkspaceSync puts the chosen workspace into the variables of every open tab, and takes the former one out.
export function WorkspaceSync() {
  const workspace = useSession(chosen);
  const link = useSession(state => state.link);
  const template = useSession(state => state.template);
  const domain = useSession(state => state.domain);
  const { tabs, activeTabIndex, queryEditor, variableEditor } = useGraphiQL(tabState);
  const { moveTab } = useGraphiQLActions();
  const before = useRef(null);

  useEffect(() => {
    if (!variableEditor || !queryEditor) return;
    const context = { workspace, link, template, domain, before: before.current };
    if (workspace) before.current = workspace;
    const query = queryEditor.getValue();
    const variables = variableEditor.getValue();
    const filled = tabs.map((tab, i) => {
      const text = fill(tab.variables, context);
      return i === activeTabIndex || text === (tab.variables ?? '') ? tab : { ...tab, variables: text };
    });
    if (filled.some((tab, i) => tab !== tabs[i])) moveTab(filled);
    if (queryEditor.getValue() !== query) queryEditor.setValue(query);
    const text = fill(variables, context);
    if (variableEditor.getValue() !== text) variableEditor.setValue(text);
    for (const [name, last] of given) given.set(name, fill(last, context));
    // Only another workspace or object changes the placeholders; tabs are read as they are at that moment.
    // A tab that is switched to is filled by then.
  }, [workspace?.id, link?.id, link?.shortUrl, template?.id, domain?.id, Boolean(variableEditor), Boolean(queryEditor)]);

  return null;
}

const tabState = ({ tabs, activeTabIndex, queryEditor, variableEditor }) => ({ tabs, activeTabIndex, queryEditor, variableEditor });

function ExamplesIcon() {
  return (
    <svg viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" aria-hidden="true">
      <path d="M8 5h9M8 10h9M8 15h9M3 4l2 1-2 1zM3 9l2 1-2 1zM3 14l2 1-2 1z" />
    </svg>
  );
}

export const EXAMPLES_PLUGIN = { title: 'Examples', icon: ExamplesIcon, content: ExamplesPanel };
