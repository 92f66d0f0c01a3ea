// Package secrets protects what clients and copies of the database must not read or forge. Box
// encrypts the secrets that the server itself has to know, such as those of webhooks and
// authenticator apps and the tokens of imports. Each names the key that has sealed it, so that the
// operator can replace the key: Store finds the keys in use, and seals all secrets again. Signer
// signs the grants in URLs.
package secrets

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Place is a column of sealed secrets.
type Place int

// The places. Each has a line in columns.
const (
	WebhookSecret Place = iota
	WebhookOldSecret
	TaskSecret
	TOTPSecret
	ACMEFile
)

// columns are the tables and columns of the places, and the columns that identify the rows. The rows of some can be
// obtained again.
var columns = [...]struct {
	table, column, id string
	isObtainable      bool
}{
	WebhookSecret:    {"webhooks", "secret", "id", false},
	WebhookOldSecret: {"webhooks", "old_secret", "id", false},
	TaskSecret:       {"tasks", "secret", "id", false},
	TOTPSecret:       {"totp", "secret", "account_id", false},
	ACMEFile:         {"acme_files", "value", "name", true},
}

// A sealed secret is mark, the identifier of its key, a nonce, and the text.
const (
	mark            = "sealed1:"
	identifierBytes = 8
)

// identifier returns the identifier of a key: the first bytes of its SHA-256.
func identifier(key []byte) []byte {
	sum := sha256.Sum256(key)
	return sum[:identifierBytes]
}

// Box seals secrets with a key of 32 bytes. Without a key it is empty, and returns Forbidden.
type Box struct {
	Key []byte
	// Previous are keys that open secrets, and seal none.
	Previous [][]byte
}

// IsEmpty reports whether the box has no key.
func (b Box) IsEmpty() bool { return len(b.Key) == 0 }

// errEmpty is the error of an empty box.
var errEmpty = errs.New(errs.Forbidden,
	"This server cannot encrypt secrets. Ask the operator to set LINKFORGE_ENCRYPTION_KEY.")

// Seal encrypts a secret with AES-256-GCM. Open needs the same place and id, those of the row that
// has the secret.
func (b Box) Seal(p Place, id string, secret []byte) ([]byte, error) {
	if b.IsEmpty() {
		return nil, errEmpty
	}
	c, err := newCipher(b.Key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, c.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return c.Seal(append(prefix(b.Key), nonce...), nonce, secret, p.owner(id)), nil
}

// Open returns the secret that Seal has encrypted.
func (b Box) Open(p Place, id string, value []byte) (secret []byte, err error) {
	if b.IsEmpty() {
		return nil, errEmpty
	}
	err = errors.New("its key is missing")
	for _, key := range b.keys() {
		if text, isOfKey := bytes.CutPrefix(value, prefix(key)); isOfKey {
			if secret, err = open(key, p.owner(id), text); err == nil {
				return secret, nil
			}
		}
	}
	return nil, fmt.Errorf("opening a secret with LINKFORGE_ENCRYPTION_KEY and LINKFORGE_ENCRYPTION_KEY_PREVIOUS: %w",
		err)
}

func open(key, owner, text []byte) ([]byte, error) {
	c, err := newCipher(key)
	if err != nil {
		return nil, err
	}
	if len(text) < c.NonceSize() {
		return nil, errors.New("it is too short")
	}
	return c.Open(nil, text[:c.NonceSize()], text[c.NonceSize():], owner)
}

func newCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// keys are all keys that open secrets.
func (b Box) keys() [][]byte { return append([][]byte{b.Key}, b.Previous...) }

// prefix returns the first bytes of the secrets that a key has sealed.
func prefix(key []byte) []byte { return append([]byte(mark), identifier(key)...) }

// owner returns the associated data of a secret in a row: table.column.id.
func (p Place) owner(id string) []byte {
	return []byte(columns[p].table + "." + columns[p].column + "." + id)
}
