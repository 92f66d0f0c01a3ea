package account

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// The kinds of flows.
const (
	kindVerifyEmail   = "VERIFY_EMAIL"
	kindChangeEmail   = "CHANGE_EMAIL"
	kindResetPassword = "RESET_PASSWORD"
	kindLogin         = "LOGIN"
	kindSSO           = "SSO"
)

// flow is an operation that has begun, and that the bearer of a token ends, once. Only the hash of
// the token is stored.
type flow struct {
	bun.BaseModel `bun:"table:auth_flows"`

	Hash      []byte `bun:",pk"`
	Kind      string
	AccountID string `bun:",nullzero"`
	// Data is the new address of CHANGE_EMAIL, the pendingLogin of LOGIN in JSON, and the redirect
	// URI of SSO.
	Data string
	// Tries is how many proofs were presented to a LOGIN.
	Tries     int
	ExpiresAt time.Time
}

// newFlow stores a flow if the account exists and is enabled.
func (s *Store) newFlow(ctx context.Context, conn bun.IDB, token string, f flow) error {
	enabled := conn.NewSelect().Model((*Account)(nil)).ColumnExpr("?, ?, id, ?, ?", HashSecret(token), f.Kind, f.Data,
		db.Instant(f.ExpiresAt)).
		Where("id = ?", f.AccountID).Where("deleted_at IS NULL").Where("disabled_at IS NULL")
	// The lock waits for a transaction that disables the account.
	_, err := conn.NewRaw("INSERT INTO auth_flows (hash, kind, account_id, data, expires_at) ?",
		s.DB.ForKeyShare(enabled)).Exec(ctx)
	return err
}

// consume deletes the flow of a token, which only one of several concurrent calls can. It returns
// sql.ErrNoRows for a token that is unknown, expired or of another kind.
func (s *Store) consume(ctx context.Context, tx bun.Tx, hash []byte, kinds ...string) (f flow, err error) {
	_, err = tx.NewDelete().Model(&f).Where("hash = ?", hash).Where("kind IN (?)", bun.In(kinds)).
		Where("expires_at > ?", s.now()).
		Returning("*").Exec(ctx, &f)
	return f, err
}

// dropFlows deletes the account's flows of the kinds.
func dropFlows(ctx context.Context, conn bun.IDB, accountID string, kinds ...string) error {
	_, err := conn.NewDelete().Model((*flow)(nil)).Where("account_id = ?", accountID).
		Where("kind IN (?)", bun.In(kinds)).Exec(ctx)
	return err
}
