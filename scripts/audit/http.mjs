// Puts every audit of GraphQL over HTTP to a running server: node http.mjs BASE_URL. A warning counts as a failure.
// https://github.com/graphql/graphql-http#audits
import { auditServer } from 'graphql-http';

const url = new URL('/graphql', process.argv[2]).href;
const results = await auditServer({ url });
const count = { ok: 0, notice: 0, warn: 0, error: 0 };
for (const result of results) {
  count[result.status]++;
  if (result.status !== 'ok') console.error(`${result.status.toUpperCase()} ${result.id} ${result.name}: ${result.reason}`);
}
console.log(`graphql-http: ${results.length} audits, ${count.ok} passed, ${count.notice} MAY, ${count.warn} SHOULD and ${count.error} MUST did not.`);
process.exitCode = results.length > 50 && count.ok === results.length ? 0 : 1;
