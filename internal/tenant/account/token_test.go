package account

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// Whom the tests' tokens stand for.
const (
	accountID = "usr_01h455vb4pex5vsknk084sn02q"
	sessionID = "ses_01h455vb4pex5vsknk084sn02q"
)

var tokens = Tokens{
	Secrets: [][]byte{[]byte("one secret of thirty-two bytes..")}, Issuer: "http://sho.rt", TTL: 24 * time.Hour,
}

// object is a part of a token.
type object = map[string]any

// forge creates a token like the ones above at noon, with changed claims: nil removes one.
func forge(t *testing.T, header, claims object, sign func(signed string) []byte) string {
	t.Helper()
	signed := segment(t, object{"alg": "HS256", "typ": "at+jwt"}, header) + "." + segment(t, object{
		"iss": tokens.Issuer, "sub": accountID, "sid": sessionID, "aud": "linkforge", "iat": noon.Unix(),
		"exp": noon.Add(time.Hour).Unix(),
	}, claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(signed))
}

func segment(t *testing.T, usual, other object) string {
	t.Helper()
	maps.Copy(usual, other)
	maps.DeleteFunc(usual, func(_ string, value any) bool { return value == nil })
	text := must.Value(json.Marshal(usual))(t)
	return base64.RawURLEncoding.EncodeToString(text)
}

// keyed signs with HMAC.
func keyed(h func() hash.Hash, key string) func(string) []byte {
	return func(signed string) []byte {
		mac := hmac.New(h, []byte(key))
		mac.Write([]byte(signed))
		return mac.Sum(nil)
	}
}

func unsigned(string) []byte { return nil }

// honest signs as the server does.
var honest = keyed(sha256.New, string(tokens.Secrets[0]))

// refuse fails the test if the token is accepted, or if the error reveals its defect.
func refuse(t *testing.T, name, token string) {
	t.Helper()
	got, _, err := tokens.check(token, noon)
	errstest.Same(t, errs.New(errs.Unauthenticated, "The token is invalid or has expired. Log in again."), err,
		"%s", name)
	if got != (Actor{}) {
		t.Errorf("%s: got actor %v", name, got)
	}
}

func TestToken_IsAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ header, claims object }{
		"as issued":                           {},
		"several audiences":                   {claims: object{"aud": []string{"others", "linkforge"}}},
		"not before now":                      {claims: object{"nbf": noon.Unix()}},
		"a second left":                       {claims: object{"exp": noon.Unix() + 1}},
		"made by a node whose clock is ahead": {claims: object{"iat": noon.Unix() + 60}},
		"an id and a name":                    {claims: object{"jti": "1", "name": "Ada"}},
	} {
		if got, _, err := tokens.check(forge(t, c.header, c.claims, honest), noon); err != nil ||
			got != (Actor{AccountID: accountID, SessionID: sessionID}) {
			t.Errorf("%s: stands for %v: %v", name, got, err)
		}
	}
}

func TestToken_RefusesForgedSignature(t *testing.T) {
	t.Parallel()
	private := must.Value(rsa.GenerateKey(rand.Reader, 2048))(t)
	byRSA := func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		return must.Value(rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:]))(t)
	}
	secret, other := string(tokens.Secrets[0]), "another secret of thirty-two byt"
	for name, c := range map[string]struct {
		header object
		sign   func(string) []byte
	}{
		"none":                      {object{"alg": "none"}, unsigned},
		"nOnE":                      {object{"alg": "nOnE"}, unsigned},
		"none, signed all the same": {object{"alg": "none"}, honest},
		"no alg":                    {object{"alg": nil}, honest},
		"empty alg":                 {object{"alg": ""}, honest},
		"alg is a number":           {object{"alg": 256}, honest},
		"alg in lower case":         {object{"alg": "hs256"}, honest},
		"HS384 with the same key":   {object{"alg": "HS384"}, keyed(sha512.New384, secret)},
		"HS384 signed as HS256":     {object{"alg": "HS384"}, honest},
		"RS256":                     {object{"alg": "RS256"}, byRSA},
		"RS256 said to be HS256":    {nil, byRSA},
		"HS256 said to be RS256":    {object{"alg": "RS256"}, honest},
		"its own key in it": {object{"jwk": object{"kty": "oct", "k": "AAAA"}},
			keyed(sha256.New, "\x00\x00\x00")},
		"a key from elsewhere": {object{"jku": "http://evil.example/keys"}, byRSA},
		"kid is a path":        {object{"kid": "../../../../dev/null"}, keyed(sha256.New, "")},
		"another secret":       {nil, keyed(sha256.New, other)},
		"an empty secret":      {nil, keyed(sha256.New, "")},
		"a secret cut short":   {nil, keyed(sha256.New, secret[:31])},
		"a signature and more": {nil, func(signed string) []byte { return append(honest(signed), 0) }},
	} {
		refuse(t, name, forge(t, c.header, nil, c.sign))
	}
}

// TestToken_RefusesOtherAudience signs with the server's own key: only the claims are wrong.
func TestToken_RefusesOtherAudience(t *testing.T) {
	t.Parallel()
	second := func(n int64) int64 { return noon.Unix() + n }
	for name, c := range map[string]struct{ header, claims object }{
		"typ JWT":                   {header: object{"typ": "JWT"}},
		"no typ":                    {header: object{"typ": nil}},
		"typ is a list":             {header: object{"typ": []string{"at+jwt"}}},
		"an unknown crit":           {header: object{"crit": []string{"exp2"}, "exp2": 1}},
		"an empty crit":             {header: object{"crit": []string{}}},
		"another issuer":            {claims: object{"iss": "http://sho.rt.evil.example"}},
		"the issuer and a slash":    {claims: object{"iss": "http://sho.rt/"}},
		"no issuer":                 {claims: object{"iss": nil}},
		"another audience":          {claims: object{"aud": "others"}},
		"no audience":               {claims: object{"aud": nil}},
		"an empty audience":         {claims: object{"aud": []string{}}},
		"over a second ago":         {claims: object{"exp": second(-1)}},
		"over now":                  {claims: object{"exp": second(0)}},
		"without end":               {claims: object{"exp": nil}},
		"its end is text":           {claims: object{"exp": "2099-01-01"}},
		"its end is zero":           {claims: object{"exp": 0}},
		"not good yet":              {claims: object{"nbf": second(60)}},
		"no subject":                {claims: object{"sub": nil}},
		"a workspace's":             {claims: object{"sub": "ws_01h455vb4pex5vsknk084sn02q"}},
		"an id of the wrong length": {claims: object{"sub": accountID + "q"}},
		"subject is SQL":            {claims: object{"sub": "usr_' OR 1=1 --aaaaaaaaaaaaaa"}},
		"subject is a number":       {claims: object{"sub": 1}},
		"of no session":             {claims: object{"sid": nil}},
		"session is another's id":   {claims: object{"sid": accountID}},
		"session is a number":       {claims: object{"sid": 1}},
	} {
		refuse(t, name, forge(t, c.header, c.claims, honest))
	}
}

func TestToken_RefusesGarbage(t *testing.T) {
	t.Parallel()
	good := forge(t, nil, nil, honest)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"three dots":     "...",
		"not UTF-8":      "\xff\xfe.\xff.\xff",
		"empty objects":  "e30.e30.e30",
		"no header":      "." + parts[1] + "." + parts[2],
		"four segments":  good + "." + parts[2],
		"padded":         good + "=",
		"huge":           strings.Repeat("a", 1<<20),
		"a million dots": strings.Repeat(".", 1<<20),
		"deeply nested":  base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 1<<16))) + ".e30.e30",
	} {
		refuse(t, name, token)
	}
}

func TestToken_RefusesEveryChange(t *testing.T) {
	t.Parallel()
	good := forge(t, nil, nil, honest)
	for i := range good {
		refuse(t, "a part", good[:i])
	}
	for i := range len(good) - 1 { // the last character has two bits that mean nothing
		other := byte('A')
		if good[i] == other {
			other = 'B'
		}
		refuse(t, "a change", good[:i]+string(other)+good[i+1:])
	}
}

func TestToken_FromAuthorizationHeader(t *testing.T) {
	t.Parallel()
	s := &Store{Tokens: tokens, Now: func() time.Time { return noon }}
	good := forge(t, nil, nil, honest)
	for header, want := range map[string]string{
		"":                            "anonymous",
		"Bearer " + good:              accountID,
		"bearer " + good:              accountID,
		"Bearer   " + good + " ":      accountID,
		good:                          "refused",
		"Bearer":                      "refused",
		"Bearer ":                     "refused",
		"Bearer" + good:               "refused",
		"Bearer\t" + good:             "refused",
		"Bearer " + good + " x":       "refused",
		"Bearer " + good + "," + good: "refused",
		"Basic " + good:               "refused",
	} {
		ctx, err := s.Authenticate(t.Context(), header)
		actor, absent := Current(ctx)
		got := actor.AccountID
		switch {
		case errs.Is(err, errs.Unauthenticated) && errs.Is(absent, errs.Unauthenticated):
			got = "refused"
		case err == nil && errs.Is(absent, errs.Unauthenticated):
			got = "anonymous"
		}
		if got != want {
			t.Errorf("%q: got actor %q, want %q: %v", strings.ReplaceAll(header, good, "TOKEN"), got, want, err)
		}
	}
}

// TestToken_VerifiesWithEverySecret: a key is replaced in three rolling restarts, and every token
// is accepted by every node throughout.
func TestToken_VerifiesWithEverySecret(t *testing.T) {
	t.Parallel()
	before, after := []byte("the secret before the replacement"), []byte("the secret after the replacement.")
	steps := [][][]byte{{before}, {before, after}, {after, before}, {after}}
	actor := Actor{AccountID: id.New(id.Account), SessionID: id.New(id.Session)}
	for i := range len(steps) - 1 {
		for _, pair := range [][2]int{{i, i + 1}, {i + 1, i}} {
			signer, verifier := tokens, tokens
			signer.Secrets, verifier.Secrets = steps[pair[0]], steps[pair[1]]
			token, _, err := signer.Issue(actor, noon)
			must.NoError(t, err)
			if got, _, err := verifier.check(token, noon); got != actor || err != nil {
				t.Errorf("a token of step %d is refused in step %d: %v", pair[0], pair[1], err)
			}
		}
	}
	signer, verifier := tokens, tokens
	signer.Secrets, verifier.Secrets = steps[0], steps[3]
	token, _, err := signer.Issue(actor, noon)
	must.NoError(t, err)
	if _, _, err := verifier.check(token, noon); err == nil {
		t.Error("a token of a removed secret is accepted")
	}
}
