package webhook

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// errNoKey is the error of a server without a key for secrets.
func errNoKey() error {
	return errs.New(errs.Forbidden, "This server cannot encrypt webhook secrets. Ask the operator to set "+
		"LINKFORGE_ENCRYPTION_KEY.")
}

// newSecret returns a random secret of a webhook, and its text for the creator.
func newSecret() (raw []byte, shown string) {
	raw = make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		panic(err) // the system has no randomness
	}
	return raw, secretPrefix + base64.StdEncoding.EncodeToString(raw)
}

func (s *Store) cipher() (cipher.AEAD, error) {
	if len(s.Key) == 0 {
		return nil, errNoKey()
	}
	block, err := aes.NewCipher(s.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts a secret with AES-256-GCM. Only the webhook with the id can use the result.
func (s *Store) seal(webhookID string, secret []byte) ([]byte, error) {
	c, err := s.cipher()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, c.NonceSize(), c.NonceSize()+len(secret)+c.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return c.Seal(nonce, nonce, secret, []byte(webhookID)), nil
}

// unseal is the inverse of seal.
func (s *Store) unseal(webhookID string, sealed []byte) ([]byte, error) {
	c, err := s.cipher()
	if err != nil {
		return nil, err
	}
	if len(sealed) < c.NonceSize() {
		return nil, errors.New("the stored secret of a webhook is too short")
	}
	secret, err := c.Open(nil, sealed[:c.NonceSize()], sealed[c.NonceSize():], []byte(webhookID))
	if err != nil {
		return nil, fmt.Errorf("decrypting the secret of a webhook: LINKFORGE_ENCRYPTION_KEY differs: %w", err)
	}
	return secret, nil
}

// secrets returns the secrets that sign at an instant, the newest first.
func (s *Store) secrets(w *Webhook, now time.Time) ([][]byte, error) {
	newest, err := s.unseal(w.ID, w.Secret)
	if err != nil {
		return nil, err
	}
	all := [][]byte{newest}
	if w.OldSecret == nil || w.OldSecretEndsAt == nil || !now.Before(*w.OldSecretEndsAt) {
		return all, nil
	}
	old, err := s.unseal(w.ID, w.OldSecret)
	return append(all, old), err
}

// sign returns the header webhook-signature: a signature for each secret, separated by spaces.
func sign(secrets [][]byte, messageID string, at time.Time, body []byte) string {
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(messageID + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
