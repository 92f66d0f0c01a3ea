// An OpenID Connect provider for tests: server.js CLIENT_SECRET REDIRECT_URI [KEY CERTIFICATE], with HTTPS at localhost if there are
// files of a key and a certificate. It prints its issuer, has a client for each algorithm of ID tokens, and ends with its input.
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import Provider from 'oidc-provider';

const [secret, redirectURI, key, certificate] = process.argv.slice(2);
const algorithms = { RS256: ['rsa', { modulusLength: 2048 }], PS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }], EdDSA: ['ed25519'] };

let respond;
const handle = (request, response) => respond(request, response);
const server = key ? createSecureServer({ key: readFileSync(key), cert: readFileSync(certificate) }, handle) : createServer(handle);
server.listen(0, '127.0.0.1', () => {
  const origin = key ? 'https://localhost' : 'http://127.0.0.1', issuer = `${origin}:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: Object.keys(algorithms).map((alg) => ({
      client_id: `linkforge ${alg}`, client_secret: secret, redirect_uris: [redirectURI], id_token_signed_response_alg: alg,
    })),
    jwks: {
      keys: Object.entries(algorithms).map(([alg, [type, options]]) => (
        { ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: alg })),
    },
    enabledJWA: { idTokenSigningAlgValues: Object.keys(algorithms) },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
    conformIdTokenClaims: false, // claims are in ID tokens
    pkce: { required: () => true },
    findAccount: (_, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, email: `${accountId}@example.com`, email_verified: true, name: 'Ada', groups: ['engineering'] }),
    }),
  });
  respond = provider.callback();
  console.log(issuer);
});
process.stdin.on('end', () => process.exit()).resume();
