package link

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/validate"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// keyLife is how long an idempotency key is remembered.
	keyLife = 24 * time.Hour
	// maxKey is the longest idempotency key, in characters.
	maxKey = 255
)

// errKeyTaken says that another call with the same key has been answered in the meantime.
var errKeyTaken = errors.New("the idempotency key is taken")

// key is an idempotency key with what was asked under it.
type key struct {
	name string
	hash []byte
}

// keyRow is what a call with an idempotency key was answered.
type keyRow struct {
	bun.BaseModel `bun:"table:idempotency_keys"`

	WorkspaceID string `bun:",pk"`
	ActorID     string `bun:",pk"`
	Name        string `bun:",pk"`
	InputHash   []byte
	Answer      string
	CreatedAt   time.Time
}

// remembered is a Result as it is kept.
type remembered struct {
	LinkID  string   `json:"link,omitempty"`
	Created bool     `json:"created,omitempty"`
	Code    string   `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Field   []string `json:"field,omitempty"`
}

// newKey reads the batch's key; nil means none. It returns InvalidInput.
func newKey(in Batch) (*key, error) {
	if in.IdempotencyKey == nil {
		return nil, nil
	}
	name, err := validate.Opaque("The idempotency key", *in.IdempotencyKey, 1, maxKey)
	if err != nil {
		return nil, errs.From(err).At("idempotencyKey")
	}
	in.IdempotencyKey = nil
	asked, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("writing down what was asked: %w", err)
	}
	hash := sha256.Sum256(asked)
	return &key{name: name, hash: hash[:]}, nil
}

// recall is the answer that a call with the key had; nil when there was none. It returns
// IdempotencyConflict when the call was another one.
func (s *Store) recall(ctx context.Context, m workspace.Membership, k *key) ([]Result, error) {
	if k == nil {
		return nil, nil
	}
	var row keyRow
	err := s.DB.NewSelect().Model(&row).
		Where("workspace_id = ?", m.ID()).Where("actor_id = ?", m.ActorID()).Where("name = ?", k.name).
		Where("created_at > ?", s.now().Add(-keyLife)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an idempotency key: %w", err)
	}
	if !slices.Equal(row.InputHash, k.hash) {
		return nil, errs.New(errs.IdempotencyConflict,
			"This key was used for something else within the last 24 hours. Use a new one.").
			At("idempotencyKey")
	}
	var answer []remembered
	if err := json.Unmarshal([]byte(row.Answer), &answer); err != nil {
		return nil, fmt.Errorf("reading a remembered answer: %w", err)
	}
	return s.again(ctx, m, answer)
}

// again gives a remembered answer, with the links as they are now.
func (s *Store) again(ctx context.Context, m workspace.Membership, answer []remembered) ([]Result, error) {
	ids := make([]string, 0, len(answer))
	for _, a := range answer {
		ids = append(ids, a.LinkID)
	}
	var links []*Link
	err := s.DB.NewSelect().Model(&links).Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).
		Where("purged_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading remembered links: %w", err)
	}
	found := byID(m, links)
	results := make([]Result, 0, len(answer))
	for _, a := range answer {
		r := Result{Link: found[a.LinkID], Created: a.Created}
		if a.Code != "" {
			r.Err = errs.New(errs.Coded(a.Code), "%s", a.Message).At(a.Field...)
		} else if r.Link == nil {
			r = Result{Err: errNotFound()}
		}
		results = append(results, r)
	}
	return results, nil
}

// remember keeps the answer of a batch that has come to a link, together with its links. It returns
// errKeyTaken when the key has an answer already.
func (b *batch) remember(ctx context.Context, tx bun.Tx) error {
	if b.key == nil || !slices.ContainsFunc(b.rows, func(r *row) bool { return r.attempt.Link != nil }) {
		return nil
	}
	answer := make([]remembered, 0, len(b.rows))
	for _, r := range b.rows {
		answer = append(answer, r.remembered())
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("writing down an answer: %w", err)
	}
	row := keyRow{
		WorkspaceID: b.member.ID(), ActorID: b.member.ActorID(), Name: b.key.name,
		InputHash: b.key.hash, Answer: string(text), CreatedAt: b.now,
	}
	result, err := tx.NewInsert().Model(&row).On("CONFLICT (workspace_id, actor_id, name) DO UPDATE").
		Set("input_hash = excluded.input_hash").Set("answer = excluded.answer").Set("created_at = excluded.created_at").
		Where("?TableAlias.created_at <= ?", b.now.Add(-keyLife)).Returning("NULL").Exec(ctx)
	if err != nil {
		return fmt.Errorf("keeping an idempotency key: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return errKeyTaken
}

// remembered is what the row has come to, within the transaction.
func (r *row) remembered() remembered {
	first := r
	if r.same != nil {
		first = r.same
	}
	err := first.Err
	if err == nil {
		err = first.attempt.Err
	}
	if err != nil {
		e := errs.From(err)
		return remembered{Code: e.Kind.Code(), Message: e.Public(), Field: e.Field}
	}
	return remembered{LinkID: first.attempt.Link.ID, Created: r.same == nil && first.attempt.Created}
}
