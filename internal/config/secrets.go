package config

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MinSecretBytes is the minimum length of a secret: the strength of HMAC-SHA256 (RFC 7518, section 3.2).
const MinSecretBytes = 32

// FillSecrets gives an embedded instance the secrets that were not configured: made once, kept in the data
// folder, readable by its owner only. A secret file that is too short is refused, never replaced: tokens and
// codes depend on it.
func (c *Config) FillSecrets() error {
	var err error
	if c.JWTSecret, err = c.keptSecret(c.JWTSecret, "jwt.secret"); err != nil {
		return err
	}
	if c.CodeSecrets != nil {
		return nil
	}
	codeSecret, err := c.keptSecret(nil, "code.secret")
	c.CodeSecrets = SplitSecrets(codeSecret)
	return err
}

// SplitSecrets reads a list of secrets, one a line or separated by commas, without the white space around them. It is a
// list only if each part has MinSecretBytes: a single secret may have commas of its own. The last entries are the value and
// its parts as a version without lists read them, so that these stay known.
func SplitSecrets(value []byte) [][]byte {
	for _, separator := range []string{"\n", ","} {
		parts := splitSecrets(value, separator)
		if len(parts) < 2 {
			continue
		}
		for _, part := range parts[1:] {
			parts = append(parts, append(bytes.Clone(part), '\n')) // a file may have ended so
		}
		return append(parts, value)
	}
	return [][]byte{value}
}

// splitSecrets returns nil if a part is too short to be a secret. Empty parts are skipped.
func splitSecrets(value []byte, separator string) (parts [][]byte) {
	for part := range bytes.SplitSeq(value, []byte(separator)) {
		part = bytes.Trim(part, ", \t\r\n")
		if len(part) == 0 {
			continue
		}
		if len(part) < MinSecretBytes {
			return nil
		}
		parts = append(parts, part)
	}
	return parts
}

func (c *Config) keptSecret(given []byte, name string) ([]byte, error) {
	if given != nil {
		return given, nil
	}
	path := filepath.Join(c.DataDir, name)
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeSecret(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a secret of the data folder: %w", err)
	}
	if len(secret) < MinSecretBytes {
		return nil, fmt.Errorf("%s holds fewer than %d bytes: restore it from a backup, or remove it to have another one made", path, MinSecretBytes)
	}
	return secret, nil
}

// makeSecret writes the file whole or not at all: a half-written secret would be a different one.
func makeSecret(path string) ([]byte, error) {
	var raw [48]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, fmt.Errorf("making a secret: %w", err)
	}
	secret := []byte(base64.RawURLEncoding.EncodeToString(raw[:]))
	temporary := path + ".new"
	if err := writeSynced(temporary, secret); err != nil {
		return nil, fmt.Errorf("keeping a secret: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, fmt.Errorf("keeping a secret: %w", err)
	}
	return secret, nil
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
