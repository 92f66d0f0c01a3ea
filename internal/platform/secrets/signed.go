package secrets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Signer signs grants, and verifies them. A URL with a signed grant authorizes the browser or
// program that has it, which needs no credential in a header.
type Signer struct {
	// Secrets are the keys of the instance: the first signs, all verify.
	Secrets [][]byte
	// Now is the clock.
	Now func() time.Time
}

// Purpose is what grants are for. A grant is good for no other purpose.
type Purpose struct {
	// Name is a part of the signed text. Remedy states how users get another grant.
	Name, Remedy string
}

// Grant names who permits something in a workspace, and until when. Types of one purpose embed it,
// and are written as JSON.
type Grant struct {
	WorkspaceID string `json:"w"`
	// ActorID is the id of the account or the API key that signed it.
	ActorID string `json:"a"`
	// SessionID is the session that signed it; empty for an API key.
	SessionID string    `json:"s,omitempty"`
	Until     time.Time `json:"u"`
}

func (g *Grant) base() *Grant { return g }

// grantHolder is a pointer to a type that embeds Grant.
type grantHolder interface{ base() *Grant }

// Sign returns a token with the grant, of characters that need no encoding in URLs.
func (s Signer) Sign(p Purpose, grant grantHolder) (token string, err error) {
	payload, err := json.Marshal(grant)
	if err != nil {
		return "", fmt.Errorf("encoding a grant: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature(p, s.Secrets[0], text)), nil
}

// Open reads the grant of a token. It returns NotFound for a token that this instance has not
// signed for the purpose, and Expired.
func (s Signer) Open(p Purpose, token string, grant grantHolder) error {
	text, signedAs, _ := strings.Cut(token, ".")
	given, err := base64.RawURLEncoding.DecodeString(signedAs)
	isSigned := func(secret []byte) bool { return hmac.Equal(given, signature(p, secret, text)) }
	if err != nil || !slices.ContainsFunc(s.Secrets, isSigned) {
		return errs.New(errs.NotFound, "This URL is not valid here. %s", p.Remedy)
	}
	payload, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(payload, grant)
	}
	if err != nil {
		return fmt.Errorf("decoding a grant that was signed here: %w", err)
	}
	if !s.Now().Before(grant.base().Until) {
		return errs.New(errs.Expired, "This URL has expired. %s", p.Remedy)
	}
	return nil
}

func signature(p Purpose, secret []byte, text string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(p.Name + "\n" + text))
	return mac.Sum(nil)
}
