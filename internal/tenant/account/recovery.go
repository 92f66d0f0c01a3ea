package account

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// crockford is Crockford's base32, which has no letters that look like others.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// recoveryCodes is how many codes an account gets at once.
const recoveryCodes = 10

// recoveryCode is the row of a code; only the hash is stored.
type recoveryCode struct {
	bun.BaseModel `bun:"table:recovery_codes"`

	Hash      []byte `bun:",pk"`
	AccountID string
}

// replaceRecoveryCodes replaces the account's codes. A code has 24 characters in groups of six.
func replaceRecoveryCodes(ctx context.Context, tx bun.Tx, accountID string) (codes []string, err error) {
	var rows []recoveryCode
	for range recoveryCodes {
		var random [15]byte
		_, _ = rand.Read(random[:]) // never fails
		text := crockford.EncodeToString(random[:])
		codes = append(codes, text[:6]+"-"+text[6:12]+"-"+text[12:18]+"-"+text[18:])
		rows = append(rows, recoveryCode{Hash: HashSecret(text), AccountID: accountID})
	}
	if _, err := tx.NewDelete().Model((*recoveryCode)(nil)).Where("account_id = ?", accountID).Exec(ctx); err != nil {
		return nil, err
	}
	_, err = tx.NewInsert().Model(&rows).Exec(ctx)
	return codes, err
}

// recoveryHash returns the hash of a code as a person types it: its case and what separates its
// groups do not matter, and letters that look like digits are digits.
func recoveryHash(code string) []byte {
	return HashSecret(strings.NewReplacer("O", "0", "I", "1", "L", "1").
		Replace(strings.ToUpper(validate.Typed(code))))
}

// RenewRecoveryCodes replaces the recovery codes, and ends the actor's other sessions. It returns
// BadCredentials, Conflict or RateLimited.
func (s *Store) RenewRecoveryCodes(ctx context.Context, actor Actor, p Proof, address string) ([]string, error) {
	a, spent, err := s.requireFactor(ctx, actor, p, address)
	if err != nil {
		return nil, err
	}
	var codes []string
	err = s.changeFactors(ctx, actor, spent, func(ctx context.Context, tx bun.Tx) (err error) {
		codes, err = replaceRecoveryCodes(ctx, tx, a.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replacing recovery codes: %w", err)
	}
	s.notify(ctx, a, "Your recovery codes were replaced",
		"The recovery codes of your account on %s were replaced. Earlier ones are invalid.")
	return codes, nil
}

// noteRecovery tells the user how many recovery codes are left, after one was spent.
func (s *Store) noteRecovery(ctx context.Context, a *Account, spent proven) {
	if spent.method != RecoveryCode {
		return
	}
	f, err := s.FactorsOf(ctx, a.ID)
	if err != nil {
		s.Log.Log(ctx, errs.LogLevel(err), "counting recovery codes failed", "error", err)
		return
	}
	s.notify(ctx, a, "A recovery code was used", "A recovery code of your account on %s was used; %d are left.",
		f.RecoveryCodes)
}
