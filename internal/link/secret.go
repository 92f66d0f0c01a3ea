package link

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/db"
)

// PinCodeSecret ties the database to the secret that codes are made with: the first server leaves the secret's
// fingerprint, and one with another secret is refused, because it would make codes that are taken.
func PinCodeSecret(ctx context.Context, d *db.DB, secret []byte) error {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("linkforge: fingerprint of the code secret"))
	fingerprint := hex.EncodeToString(mac.Sum(nil)[:16])
	_, err := d.NewRaw(`INSERT INTO instance (name, value) VALUES ('code_secret_fingerprint', ?)
		ON CONFLICT DO NOTHING`, fingerprint).Exec(ctx)
	if err != nil {
		return fmt.Errorf("keeping the code secret's fingerprint: %w", err)
	}
	var kept string
	err = d.NewSelect().Table("instance").Column("value").Where("name = 'code_secret_fingerprint'").Scan(ctx, &kept)
	if err != nil {
		return fmt.Errorf("reading the code secret's fingerprint: %w", err)
	}
	if kept != fingerprint {
		return errors.New("LINKFORGE_CODE_SECRET is not the one that this database's codes were made with: restore the old one")
	}
	return nil
}
