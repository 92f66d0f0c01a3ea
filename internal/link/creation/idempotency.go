package creation

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

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// savedResult is a Result under an idempotency key.
type savedResult struct {
	LinkID      string     `json:"link,omitempty"`
	Created     bool       `json:"created,omitempty"`
	Ignored     []string   `json:"ignored,omitempty"`
	Dropped     []string   `json:"dropped,omitempty"`
	OperationID string     `json:"operation,omitempty"`
	Errors      errs.Saved `json:"errors,omitempty"`
}

// newKey returns the batch's idempotency key without results, or nil. Calls with the same key must
// have inputs with the same JSON. It returns InvalidInput.
func (s *Store) newKey(m workspace.Membership, in Batch) (*keyRow, error) {
	if in.IdempotencyKey == nil {
		return nil, nil
	}
	name, err := validate.Opaque("The idempotency key", *in.IdempotencyKey, 1, maxName)
	if err != nil {
		return nil, errs.From(err).At("idempotencyKey")
	}
	in.IdempotencyKey = nil
	var passwords []string
	for _, l := range in.Links {
		if p := s.Fingerprint(l.Fields.Routing.To); p != "" {
			passwords = append(passwords, p)
		}
	}
	text, err := json.Marshal(struct {
		Batch
		Passwords []string `json:",omitempty"`
	}{in, passwords})
	if err != nil {
		return nil, fmt.Errorf("encoding a call's input: %w", err)
	}
	hash := sha256.Sum256(text)
	return &keyRow{WorkspaceID: m.ID(), ActorID: m.ActorID(), Name: name, InputHash: hash[:]}, nil
}

// savedResults returns the results saved under the key, with the links in their current state, and
// reports whether there are any. It returns IdempotencyConflict when a call with another input saved
// them.
func (s *Store) savedResults(
	ctx context.Context, m workspace.Membership, key *keyRow,
) (results []link.Result, found bool, err error) {
	row := *key
	err = s.DB.NewSelect().Model(&row).WherePK().Where("created_at > ?", s.expiry()).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("selecting an idempotency key: %w", err)
	}
	if !slices.Equal(row.InputHash, key.InputHash) {
		return nil, false, errs.New(errs.IdempotencyConflict,
			"This key was used for something else within the last 24 hours. Use a new one.").At("idempotencyKey")
	}
	var saved []savedResult
	if err := json.Unmarshal([]byte(row.Answer), &saved); err != nil {
		return nil, false, fmt.Errorf("decoding saved results: %w", err)
	}
	ids := make([]string, 0, len(saved))
	for _, r := range saved {
		ids = append(ids, r.LinkID)
	}
	links, err := s.Load(ctx, m, ids...) // a key may create links and read none
	if err != nil {
		return nil, false, err
	}
	for _, r := range saved {
		switch l := links[r.LinkID]; {
		case len(r.Errors) > 0:
			results = append(results, link.Result{Err: r.Errors.Error()})
		case l == nil:
			results = append(results, link.Result{OperationID: r.OperationID, Err: link.ErrNotFound()})
		default:
			results = append(results, link.Result{Link: l, Created: r.Created, Ignored: r.Ignored, Dropped: r.Dropped,
				OperationID: r.OperationID})
		}
	}
	return results, true, nil
}

// saveResults saves the results of a batch with a link under its idempotency key, if it has one, so
// that a repeated call within 24 hours returns them. It returns errKeyTaken when there are saved
// results already.
func (b *batch) saveResults(ctx context.Context, tx bun.Tx) error {
	if b.calls[0].key == nil || !slices.ContainsFunc(b.items, func(it *item) bool { return it.result().Link != nil }) {
		return nil
	}
	saved := make([]savedResult, 0, len(b.items))
	for _, it := range b.items {
		saved = append(saved, it.savedResult())
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return fmt.Errorf("encoding a call's results: %w", err)
	}
	row := *b.calls[0].key
	row.Answer, row.CreatedAt = string(text), b.now
	n, err := db.Affected(tx.NewInsert().Model(&row).On("CONFLICT (workspace_id, actor_id, name) DO UPDATE").
		Set("input_hash = excluded.input_hash").Set("answer = excluded.answer").Set("created_at = excluded.created_at").
		Where("?TableAlias.created_at <= ?", b.store.expiry()).Returning("NULL").Exec(ctx))
	if err != nil {
		return fmt.Errorf("saving an idempotency key: %w", err)
	}
	if n == 0 {
		return errKeyTaken
	}
	return nil
}

// savedResult returns the item's result within the transaction.
func (it *item) savedResult() savedResult {
	r := it.result()
	if r.Err != nil {
		return savedResult{Errors: errs.Save(r.Err)}
	}
	return savedResult{LinkID: r.Link.ID, Created: r.Created, Ignored: r.Ignored, Dropped: r.Dropped,
		OperationID: r.OperationID}
}

const (
	// lifetime is how long a key is stored.
	lifetime = 24 * time.Hour
	// maxName is the length limit of a key, in characters.
	maxName = 255
)

// errKeyTaken means that another call with the same key has saved its results meanwhile.
var errKeyTaken = errors.New("the idempotency key is taken")

// keyRow is an idempotency key of an actor in a workspace, with the hash of the call's input, and
// with its results once the transaction that creates the links has saved them.
type keyRow struct {
	bun.BaseModel `bun:"table:idempotency_keys"`

	WorkspaceID string `bun:",pk"`
	ActorID     string `bun:",pk"`
	Name        string `bun:",pk"`
	InputHash   []byte
	Answer      string
	CreatedAt   time.Time
}

// expiredKeysBatch is how many expired keys a statement deletes.
const expiredKeysBatch = 500

// CleanUp deletes expired idempotency keys, in batches.
func (s *Store) CleanUp(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	expiry := s.expiry()
	deleted, err := db.InBatches(expiredKeysBatch, func() (int64, error) {
		batch := s.DB.NewSelect().Model((*keyRow)(nil)).Column("workspace_id", "actor_id", "name").
			Where("created_at <= ?", expiry).Order("created_at").Limit(expiredKeysBatch)
		return db.Affected(s.DB.NewDelete().Model((*keyRow)(nil)).
			Where("(workspace_id, actor_id, name) IN (?)", batch).Where("created_at <= ?", expiry).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("deleting expired idempotency keys: %w", err)
	}
	if deleted > 0 {
		s.Log.InfoContext(ctx, "deleting expired idempotency keys", "count", deleted)
	}
	return nil
}

// PurgeWorkspace deletes all idempotency keys of a workspace.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	_, err := s.DB.NewDelete().Model((*keyRow)(nil)).Where("workspace_id = ?", workspaceID).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("deleting the idempotency keys of a workspace: %w", err)
	}
	return nil
}

// expiry returns the instant at or before which keys have expired.
func (s *Store) expiry() time.Time { return s.now().Add(-lifetime) }
