package stores

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/files"
	"github.com/linkforge/linkforge/internal/platform/secrets"
)

// FillSecrets sets the secrets of an embedded instance that are not configured. They are created
// once and stored in the data folder, readable only by their owner. A file that is too short is an
// error and is never replaced: tokens and codes depend on it.
func FillSecrets(c *config.Config) error {
	if c.JWTSecrets == nil {
		secret, err := storedSecret(c.DataDir, JWTSecretName)
		if err != nil {
			return err
		}
		c.JWTSecrets = config.SplitSecrets(secret)
	}
	if c.CodeSecrets == nil {
		secret, err := storedSecret(c.DataDir, CodeSecretName)
		if err != nil {
			return err
		}
		c.CodeSecrets = config.SplitSecrets(secret)
	}
	return FillEncryptionKey(c)
}

// FillEncryptionKey does so for the key that seals secrets.
func FillEncryptionKey(c *config.Config) error {
	if c.EncryptionKey != nil {
		return nil
	}
	secret, err := storedSecret(c.DataDir, EncryptionKeyName)
	if err != nil {
		return err
	}
	key := sha256.Sum256(secret) // the file has the form of the other secrets
	c.EncryptionKey = key[:]
	return nil
}

// Box returns the box of the keys that seal secrets.
func Box(c config.Config) secrets.Box {
	return secrets.Box{Key: c.EncryptionKey, Previous: c.EncryptionKeysPrevious}
}

func storedSecret(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createSecret(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a secret of the data folder: %w", err)
	}
	if secret = []byte(config.WithoutLineEnd(string(secret))); len(secret) < config.MinSecretBytes {
		return nil, fmt.Errorf("%s holds fewer than %d bytes: restore it from a backup, "+
			"or delete it to create a new one", path, config.MinSecretBytes)
	}
	return secret, nil
}

// createSecret writes the whole file or none: a partial secret would be a different one.
func createSecret(path string) ([]byte, error) {
	var raw [48]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, fmt.Errorf("creating a secret: %w", err)
	}
	secret := []byte(base64.RawURLEncoding.EncodeToString(raw[:]))
	if err := files.Replace(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("storing a secret: %w", err)
	}
	return secret, nil
}
