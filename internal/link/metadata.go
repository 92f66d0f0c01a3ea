package link

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/validate"
)

const (
	// maxPairs is a number of pairs, maxPairValue a length in characters.
	maxPairs     = 20
	maxPairValue = 500
)

// Pair is a pair of the caller's own data.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metadata is the caller's own data of a link: JSON with the pairs in the order of their keys, so that
// equal data is equal text. Empty means none.
type Metadata string

var pairKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,50}$`)

// newMetadata checks pairs. It returns InvalidInput.
func newMetadata(pairs []*Pair) (Metadata, error) {
	if len(pairs) > maxPairs {
		return "", errs.New(errs.InvalidInput, "A link can have %d pairs of metadata; these are %d.", maxPairs, len(pairs)).
			At("metadata")
	}
	sorted := slices.SortedFunc(slices.Values(pairs), func(a, b *Pair) int { return cmp.Compare(a.Key, b.Key) })
	for i, p := range sorted {
		p, err := CheckPair(p)
		if err != nil {
			return "", errs.From(err).At("metadata")
		}
		sorted[i] = p
		if i > 0 && sorted[i-1].Key == p.Key {
			return "", errs.New(errs.InvalidInput, "The key %s occurs twice in the metadata. Keys must be distinct.", p.Key).
				At("metadata")
		}
	}
	if len(sorted) == 0 {
		return "", nil
	}
	text, err := json.Marshal(sorted)
	return Metadata(text), err
}

// CheckPair checks one pair and returns it with the validate.Normal form of its value. It returns InvalidInput.
func CheckPair(p *Pair) (*Pair, error) {
	p = &Pair{Key: p.Key, Value: validate.Normal(p.Value)}
	if !pairKey.MatchString(p.Key) {
		return nil, errs.New(errs.InvalidInput, "A key of metadata must have 1 to 50 of the characters A-Z, a-z, 0-9, _, . and -.")
	}
	if !utf8.ValidString(p.Value) || strings.ContainsRune(p.Value, 0) {
		return nil, errs.New(errs.InvalidInput, "The value of %s must be text.", p.Key)
	}
	if n := utf8.RuneCountInString(p.Value); n > maxPairValue {
		return nil, errs.New(errs.InvalidInput, "The value of %s must have at most %d characters; it has %d.", p.Key,
			maxPairValue, n)
	}
	return p, nil
}

// Pairs returns the pairs in the order of their keys.
func (m Metadata) Pairs() ([]*Pair, error) {
	pairs := []*Pair{}
	if m == "" {
		return pairs, nil
	}
	if err := json.Unmarshal([]byte(m), &pairs); err != nil {
		return nil, fmt.Errorf("decoding metadata: %w", err)
	}
	return pairs, nil
}

// MarshalJSON returns the pairs as an array.
func (m Metadata) MarshalJSON() ([]byte, error) {
	return []byte(cmp.Or(m, "[]")), nil
}

// UnmarshalJSON reads what MarshalJSON returns.
func (m *Metadata) UnmarshalJSON(text []byte) error {
	if *m = Metadata(text); *m == "[]" {
		*m = ""
	}
	return nil
}

// metadataRow is a pair in the table that filters use.
type metadataRow struct {
	bun.BaseModel `bun:"table:link_metadata"`

	LinkID      string `bun:",pk"`
	Key         string `bun:",pk"`
	WorkspaceID string
	Value       string
}

// writeMetadata replaces the pairs of links whose metadata has changed.
func writeMetadata(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var stale []string
	var rows []metadataRow
	for _, c := range rewrites {
		if c.Before.Metadata == c.After.Metadata {
			continue
		}
		if c.Before.Metadata != "" {
			stale = append(stale, c.After.ID)
		}
		pairs, err := c.After.Metadata.Pairs()
		if err != nil {
			return err
		}
		for _, p := range pairs {
			rows = append(rows, metadataRow{LinkID: c.After.ID, Key: p.Key, WorkspaceID: c.After.WorkspaceID, Value: p.Value})
		}
	}
	if len(stale) > 0 {
		_, err := tx.NewDelete().Model((*metadataRow)(nil)).Where("link_id IN (?)", bun.In(stale)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("removing metadata: %w", err)
		}
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, rows); err != nil {
		return fmt.Errorf("adding metadata: %w", err)
	}
	return nil
}
