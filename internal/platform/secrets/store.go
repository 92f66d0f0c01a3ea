package secrets

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// Store finds the sealed secrets of all places, and seals them again.
type Store struct {
	DB  *db.DB
	Box Box
}

// State states whether the box can use the secrets of a key.
type State string

// The states.
const (
	Current  State = "CURRENT"
	Previous State = "PREVIOUS"
	Missing  State = "MISSING"
)

// Use is how many secrets a key has sealed.
type Use struct {
	// Key is the identifier of the key in hexadecimal.
	Key     string `json:"key"`
	State   State  `json:"state"`
	Secrets int64  `json:"secrets"`
}

// InUse returns the keys of all secrets, by identifier.
func (s Store) InUse(ctx context.Context) (uses []Use, err error) {
	ctx = db.AsSystem(ctx)
	count := map[string]int64{}
	for _, c := range columns {
		var found []struct {
			Key     []byte
			Secrets int64
		}
		err := s.DB.NewSelect().TableExpr("?", bun.Ident(c.table)).
			ColumnExpr("substr(?, ?, ?) AS key", bun.Ident(c.column), len(mark)+1, identifierBytes).
			ColumnExpr("count(*) AS secrets").Where("? IS NOT NULL", bun.Ident(c.column)).GroupExpr("1").
			Scan(ctx, &found)
		if err != nil {
			return nil, fmt.Errorf("counting the secrets in %s: %w", c.table, err)
		}
		for _, f := range found {
			count[string(f.Key)] += f.Secrets
		}
	}
	for key, n := range count {
		uses = append(uses, Use{Key: hex.EncodeToString([]byte(key)), State: s.Box.state([]byte(key)), Secrets: n})
	}
	slices.SortFunc(uses, func(a, b Use) int { return strings.Compare(a.Key, b.Key) })
	return uses, nil
}

func (b Box) state(key []byte) State {
	isKey := func(k []byte) bool { return bytes.Equal(identifier(k), key) }
	switch {
	case b.IsEmpty():
		return Missing
	case isKey(b.Key):
		return Current
	case slices.ContainsFunc(b.Previous, isKey):
		return Previous
	}
	return Missing
}

// Check returns an error if a key that is in use is missing: accounts and webhooks would lose their
// secrets without notice.
func (s Store) Check(ctx context.Context) error {
	uses, err := s.InUse(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for _, u := range uses {
		if u.State == Missing {
			missing = append(missing, fmt.Sprintf("%s (%d secrets)", u.Key, u.Secrets))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("LINKFORGE_ENCRYPTION_KEY and LINKFORGE_ENCRYPTION_KEY_PREVIOUS lack keys of secrets in this " +
		"database: " +
		strings.Join(missing, ", ") + ": set them; for a key that is lost, run: linkforge secrets rewrap --lost KEY")
}

// rewrapBatch is how many secrets one statement reads.
const rewrapBatch = 500

// Rewrap seals all secrets again that another key than the first one has sealed, while servers run:
// a secret that changes meanwhile stays as it is. Secrets that no key opens stay, too, except those
// of the lost key, the identifier of a Use: random ones replace them, and rows that can be obtained
// again are deleted. It returns Forbidden if the box is empty.
func (s Store) Rewrap(ctx context.Context, lost string) error {
	if s.Box.IsEmpty() {
		return errEmpty
	}
	ctx, current := db.AsSystem(ctx), prefix(s.Box.Key)
	for i, c := range columns {
		last := ""
		_, err := db.InBatches(rewrapBatch, func() (int64, error) {
			var rows []struct {
				ID    string
				Value []byte
			}
			err := s.DB.NewSelect().TableExpr("?", bun.Ident(c.table)).
				ColumnExpr("? AS id", bun.Ident(c.id)).ColumnExpr("? AS value", bun.Ident(c.column)).
				Where("? > ?", bun.Ident(c.id), last).Where("substr(?, 1, ?) <> ?", bun.Ident(c.column), len(current),
				current).
				OrderExpr("?", bun.Ident(c.id)).Limit(rewrapBatch).Scan(ctx, &rows)
			if err != nil {
				return 0, err
			}
			for _, row := range rows {
				last = row.ID
				secret, err := s.Box.Open(Place(i), row.ID, row.Value)
				if err != nil && (lost == "" || lost != identifierOf(row.Value)) {
					continue
				}
				if err != nil && c.isObtainable {
					_, err := s.DB.NewRaw("DELETE FROM ? WHERE ? = ? AND ? = ?", bun.Ident(c.table), bun.Ident(c.id),
						row.ID, bun.Ident(c.column), row.Value).Exec(ctx)
					if err != nil {
						return 0, err
					}
					continue
				}
				if err != nil {
					secret = make([]byte, 32)
					_, _ = rand.Read(secret) // never fails
				}
				value, err := s.Box.Seal(Place(i), row.ID, secret)
				if err != nil {
					return 0, err
				}
				_, err = s.DB.NewRaw("UPDATE ? SET ? = ? WHERE ? = ? AND ? = ?", bun.Ident(c.table),
					bun.Ident(c.column), value,
					bun.Ident(c.id), row.ID, bun.Ident(c.column), row.Value).Exec(ctx)
				if err != nil {
					return 0, err
				}
			}
			return int64(len(rows)), nil
		})
		if err != nil {
			return fmt.Errorf("rewrapping the secrets in %s: %w", c.table, err)
		}
	}
	return nil
}

// identifierOf returns the identifier of the key of a secret as Use has it.
func identifierOf(value []byte) string {
	key := bytes.TrimPrefix(value, []byte(mark))
	return hex.EncodeToString(key[:min(identifierBytes, len(key))])
}
