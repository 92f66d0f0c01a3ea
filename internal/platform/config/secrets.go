package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// MinSecretBytes is the minimum length of a secret: the strength of HMAC-SHA256 (RFC 7518, section
// 3.2).
const MinSecretBytes = 32

// readSecrets reads the settings that decode leaves out.
func (r *reader) readSecrets() {
	if secret := r.secret("LINKFORGE_JWT_SECRET"); secret != nil {
		r.JWTSecrets = SplitSecrets(secret)
	}
	if secret := r.secret("LINKFORGE_CODE_SECRET"); secret != nil {
		r.CodeSecrets = SplitSecrets(secret)
	}
}

// encryptionKeyBytes is the length of a key for AES-256.
const encryptionKeyBytes = 32

// Keys are several keys for AES-256.
type Keys [][]byte

// parseKey reads a key in base64 or hexadecimal.
func parseKey(text string) ([]byte, error) {
	line := strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if key, err := decode(line); err == nil && len(key) == encryptionKeyBytes {
			return key, nil
		}
	}
	return nil, fmt.Errorf("must be %d bytes in base64; this makes a good one: openssl rand -base64 %d",
		encryptionKeyBytes, encryptionKeyBytes)
}

// secret returns nil for a secret that stores.FillSecrets creates.
func (r *reader) secret(env string) []byte {
	value := r.texts[env]
	if value == "" && r.Embedded() {
		return nil
	}
	if value == "" {
		r.report(env, "is required with a database URL: every node needs the same one, of at least %d bytes",
			MinSecretBytes)
	} else if len(value) < MinSecretBytes {
		r.report(env, "must be at least %d bytes long; this makes a good one: openssl rand -base64 48", MinSecretBytes)
	}
	return []byte(value)
}

// WithoutLineEnd returns a setting, or the content of a file with a secret, without the line ends
// that editors, echo and templates add to it: they are no part of any setting.
func WithoutLineEnd(text string) string { return strings.TrimRight(text, "\r\n") }

// SplitSecrets reads a list of secrets, one a line or separated by commas, without the white space
// around them. It is a list only if each part has MinSecretBytes: a single secret may have commas
// of its own.
func SplitSecrets(value []byte) [][]byte {
	value = []byte(WithoutLineEnd(string(value)))
	for _, separator := range []string{"\n", ","} {
		if parts := splitSecrets(value, separator); len(parts) > 1 {
			return parts
		}
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
