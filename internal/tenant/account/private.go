package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Private is what only the user of an account may see.
type Private struct {
	// PendingEmail is the new address that waits for its verification; empty without one.
	PendingEmail string
	Factors      Factors
	// Identities are those at identity providers, newest first.
	Identities []*Identity
}

// PrivateOf returns what only the users of the accounts may see, by account ID.
func (s *Store) PrivateOf(ctx context.Context, accountIDs ...string) (map[string]*Private, error) {
	found := make(map[string]*Private, len(accountIDs))
	for _, accountID := range accountIDs {
		p := &Private{}
		var err error
		if p.Factors, err = s.FactorsOf(ctx, accountID); err != nil {
			return nil, err
		}
		err = s.DB.NewSelect().Model((*flow)(nil)).Column("data").Where("account_id = ?", accountID).
			Where("kind = ?", kindChangeEmail).
			Where("expires_at > ?", s.now()).Scan(ctx, &p.PendingEmail)
		if err == nil || errors.Is(err, sql.ErrNoRows) {
			err = s.DB.NewSelect().Model(&p.Identities).Where("account_id = ?", accountID).
				Order("created_at DESC", "subject").Scan(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("reading private data of an account: %w", err)
		}
		found[accountID] = p
	}
	return found, nil
}
