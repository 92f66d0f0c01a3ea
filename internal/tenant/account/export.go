package account

import (
	"context"
	"fmt"
	"time"
)

// Export is the personal data of an account.
type Export struct {
	Account       ExportedAccount   `json:"account"`
	Sessions      []ExportedSession `json:"sessions"`
	SSOIdentities []*Identity       `json:"ssoIdentities"`
}

// ExportedAccount is the account of an Export.
type ExportedAccount struct {
	ID              string     `json:"id"`
	Email           string     `json:"email"`
	Name            string     `json:"name"`
	CreatedAt       time.Time  `json:"createdAt"`
	EmailVerifiedAt *time.Time `json:"emailVerifiedAt"`
	PendingEmail    string     `json:"pendingEmail,omitempty"`
	TOTPSince       *time.Time `json:"totpSince"`
	RecoveryCodes   int        `json:"recoveryCodes"`
}

// ExportedSession is a session of an Export.
type ExportedSession struct {
	ID              string     `json:"id"`
	Agent           string     `json:"agent"`
	Methods         Methods    `json:"methods"`
	AuthenticatedAt time.Time  `json:"authenticatedAt"`
	CreatedAt       time.Time  `json:"createdAt"`
	UsedAt          time.Time  `json:"usedAt"`
	ExpiresAt       time.Time  `json:"expiresAt"`
	RevokedAt       *time.Time `json:"revokedAt"`
}

// Export returns the personal data of the actor. It returns Unauthenticated.
func (s *Store) Export(ctx context.Context, a Actor) (Export, error) {
	account, err := s.Enabled(ctx, a.AccountID)
	if err != nil {
		return Export{}, err
	}
	private, err := s.PrivateOf(ctx, account.ID)
	if err != nil {
		return Export{}, err
	}
	own := private[account.ID]
	e := Export{Sessions: []ExportedSession{}, SSOIdentities: append([]*Identity{}, own.Identities...),
		Account: ExportedAccount{
			ID: account.ID, Email: account.Email, Name: account.Name, CreatedAt: account.CreatedAt,
			EmailVerifiedAt: account.EmailVerifiedAt, PendingEmail: own.PendingEmail,
			TOTPSince: own.Factors.TOTPSince, RecoveryCodes: own.Factors.RecoveryCodes,
		}}
	err = s.DB.NewSelect().Model((*Session)(nil)).
		Column("id", "agent", "methods", "authenticated_at", "created_at", "used_at", "expires_at", "revoked_at").
		Where("account_id = ?", account.ID).Order("id").Scan(ctx, &e.Sessions)
	if err != nil {
		return Export{}, fmt.Errorf("exporting sessions: %w", err)
	}
	return e, nil
}
