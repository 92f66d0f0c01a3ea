package linkfield

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	// MaxPairs is a number of pairs, MaxPairValue a length in characters.
	MaxPairs     = 20
	MaxPairValue = 500
)

// Pair is a pair of the caller's own data.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metadata is the caller's own data of a link: JSON with the pairs in the order of their keys, so
// that equal data is equal text. Empty means none.
type Metadata string

var pairKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,50}$`)

// NewMetadata checks pairs. It returns InvalidInput.
func NewMetadata(pairs []*Pair) (Metadata, error) {
	if len(pairs) > MaxPairs {
		return "", errs.New(errs.InvalidInput, "A link can have %d pairs of metadata; these are %d.", MaxPairs,
			len(pairs))
	}
	known := map[string]bool{}
	sorted, err := errs.Map(pairs, func(p *Pair) (*Pair, error) {
		checked, err := CheckPair(p)
		if known[p.Key] && err == nil {
			err = errs.New(errs.InvalidInput, "The key %s occurs twice in the metadata. Keys must be distinct.", p.Key).
				At("key")
		}
		known[p.Key] = true
		return checked, err
	})
	if len(sorted) == 0 || err != nil {
		return "", err
	}
	slices.SortFunc(sorted, func(a, b *Pair) int { return cmp.Compare(a.Key, b.Key) })
	text, err := json.Marshal(sorted)
	return Metadata(text), err
}

// CheckPair checks one pair and returns it with the validate.Normal form of its value. It returns
// InvalidInput.
func CheckPair(p *Pair) (*Pair, error) {
	p = &Pair{Key: p.Key, Value: validate.Normal(p.Value)}
	var key, value error
	if !pairKey.MatchString(p.Key) {
		key = errs.New(errs.InvalidInput,
			"A key of metadata must have 1 to 50 of the characters A-Z, a-z, 0-9, _, . and -.").At("key")
	}
	if n := utf8.RuneCountInString(p.Value); !utf8.ValidString(p.Value) || strings.ContainsRune(p.Value, 0) {
		value = errs.New(errs.InvalidInput, "The value of %s must be text.", p.Key).At("value")
	} else if n > MaxPairValue {
		value = errs.New(errs.InvalidInput, "The value of %s must have at most %d characters; it has %d.", p.Key,
			MaxPairValue, n).At("value")
	}
	return p, errs.All(key, value)
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
