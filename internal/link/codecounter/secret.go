package codecounter

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Each code secret has its own counter, an epoch, so that a secret can be replaced while nodes
// still run with the previous one. The counter of the database's first secret is named firstEpoch,
// later ones epochPrefix and the secret's fingerprint.
const (
	firstEpoch  = "code"
	epochPrefix = "code:"
	allEpochs   = "name = 'code' OR name LIKE 'code:%'"
)

// Pin records the cell, and the first secret as the key of new codes, and starts an epoch if it is
// new. It returns an error when the cell differs or a secret of earlier codes is missing: a code
// could be issued twice.
func (c *Counter) Pin(ctx context.Context) error {
	_, err := c.pin(ctx)
	return err
}

// pin returns the fingerprint of the database's first code secret.
func (c *Counter) pin(ctx context.Context) (first string, err error) {
	if len(c.epochs) == 0 {
		return "", errors.New("no code secret is configured")
	}
	if err := c.pinCell(ctx); err != nil {
		return "", err
	}
	current := c.epochs[0].fingerprint
	if first, err = c.keep(ctx, "code_secret_fingerprint", current); err != nil {
		return "", err
	}
	var used []string
	err = c.db.NewSelect().Table("counters").Column("name").Where("name LIKE ?", epochPrefix+"%").Scan(ctx, &used)
	if err != nil {
		return "", fmt.Errorf("reading the code secrets' fingerprints: %w", err)
	}
	for _, name := range append(used, epochPrefix+first) {
		if !slices.ContainsFunc(c.epochs, func(e epoch) bool { return epochPrefix+e.fingerprint == name }) {
			return "", errors.New("LINKFORGE_CODE_SECRET lacks a secret that this database's codes were made with: " +
				"restore it, or append it to the new one after a comma")
		}
	}
	if current == first {
		return first, nil
	}
	// The new counter starts at the highest of the others. After a restore of an older backup,
	// which may lack this epoch, AfterRestore has advanced them beyond every issued code.
	_, err = c.db.NewRaw(`INSERT INTO counters (name, next) SELECT ?, COALESCE(MAX(next), ?)
		FROM counters WHERE `+allEpochs+` ON CONFLICT DO NOTHING`, epochPrefix+current, firstOf(c.cell)).Exec(ctx)
	if err != nil {
		return "", fmt.Errorf("starting an epoch of codes: %w", err)
	}
	return first, nil
}

// keep stores a value of the instance, unless it has one of the name, and returns the one that it
// has.
func (c *Counter) keep(ctx context.Context, name string, value any) (kept string, err error) {
	_, err = c.db.NewRaw("INSERT INTO instance (name, value) SELECT ?, ? WHERE TRUE ON CONFLICT DO NOTHING", name,
		value).
		Exec(ctx)
	if err == nil {
		err = c.db.NewSelect().Table("instance").Column("value").Where("name = ?", name).Scan(ctx, &kept)
	}
	if err != nil {
		return "", fmt.Errorf("keeping the %s of the instance: %w", name, err)
	}
	return kept, nil
}

func fingerprintOf(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("linkforge: fingerprint of the code secret"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
