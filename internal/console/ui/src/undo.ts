import { accepted, run } from './api';
import { RevertOperationDocument } from './gql/graphql';

// undoOf takes a bulk call back, by up to 1,000 links at a time, and then calls done.
export const undoOf = (workspaceId: string, operationId: string, done: () => void) => async () => {
  for (let left = 1; left > 0;) {
    left = accepted(await run(RevertOperationDocument, { input: { workspaceId, operationId } })).remaining;
  }
  done();
};
