// An OpenID Connect provider for make test-sso: server.js CLIENT_SECRET REDIRECT_URI. It prints its issuer, has a client
// for each algorithm of ID tokens, and ends with its input.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [secret, redirectURI] = process.argv.slice(2);
const algorithms = { RS256: ['rsa', { modulusLength: 2048 }], PS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }], EdDSA: ['ed25519'] };

let respond;
const server = createServer((request, response) => respond(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
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
