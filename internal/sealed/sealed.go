// Package sealed encrypts the secrets of workspaces that the server has to know itself, as those of webhooks and the tokens of
// imports. Packages webhook and task store them.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/errs"
)

// Box seals secrets with a key of 32 bytes. Without a key it is empty, and returns Forbidden.
type Box struct{ Key []byte }

// IsEmpty reports whether the box has no key.
func (b Box) IsEmpty() bool { return len(b.Key) == 0 }

func (b Box) cipher() (cipher.AEAD, error) {
	if b.IsEmpty() {
		return nil, errs.New(errs.Forbidden, "This server cannot encrypt secrets. Ask the operator to set LINKFORGE_ENCRYPTION_KEY.")
	}
	block, err := aes.NewCipher(b.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal encrypts a secret with AES-256-GCM. Open needs the same owner, the id of the object that has the secret.
func (b Box) Seal(owner string, secret []byte) ([]byte, error) {
	c, err := b.cipher()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, c.NonceSize(), c.NonceSize()+len(secret)+c.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return c.Seal(nonce, nonce, secret, []byte(owner)), nil
}

// Open returns the secret that Seal has encrypted.
func (b Box) Open(owner string, text []byte) ([]byte, error) {
	c, err := b.cipher()
	if err != nil {
		return nil, err
	}
	if len(text) < c.NonceSize() {
		return nil, errors.New("a sealed secret is too short")
	}
	secret, err := c.Open(nil, text[:c.NonceSize()], text[c.NonceSize():], []byte(owner))
	if err != nil {
		return nil, fmt.Errorf("opening a sealed secret: LINKFORGE_ENCRYPTION_KEY differs: %w", err)
	}
	return secret, nil
}
