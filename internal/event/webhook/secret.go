package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// newSecret returns a random secret of a webhook, and its text for the creator.
func newSecret() (raw []byte, shown string) {
	raw = make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails
	return raw, secretPrefix + base64.StdEncoding.EncodeToString(raw)
}

// Secrets returns the secrets that sign at an instant, the newest first.
func (s *Store) Secrets(w *Webhook, now time.Time) ([][]byte, error) {
	newest, err := s.Sealed.Open(secrets.WebhookSecret, w.ID, w.Secret)
	if err != nil {
		return nil, err
	}
	all := [][]byte{newest}
	if w.OldSecret == nil || w.OldSecretEndsAt == nil || !now.Before(*w.OldSecretEndsAt) {
		return all, nil
	}
	old, err := s.Sealed.Open(secrets.WebhookOldSecret, w.ID, w.OldSecret)
	return append(all, old), err
}

// maxOverlap is how long an old secret may sign, defaultOverlap how long it does.
const (
	maxOverlap     = 7 * 24 * time.Hour
	defaultOverlap = 24 * time.Hour
)

// Overlap returns how long an old secret signs, too, from a number of seconds; nil means a day. It
// returns InvalidInput.
func Overlap(seconds *int) (time.Duration, error) {
	if seconds == nil {
		return defaultOverlap, nil
	}
	if *seconds < 0 || *seconds > int(maxOverlap.Seconds()) {
		return 0, errs.New(errs.InvalidInput, "overlapSeconds must be from 0 to %d.", int(maxOverlap.Seconds())).
			At("overlapSeconds")
	}
	return time.Duration(*seconds) * time.Second, nil
}

// Rotate replaces the secret of a webhook; the old one signs for the overlap, too. It returns the
// new secret, or NotFound or Forbidden.
func (s *Store) Rotate(
	ctx context.Context, m workspace.Membership, webhookID string, overlap time.Duration,
) (w *Webhook, secret string, err error) {
	if ctx, err = m.Enter(ctx, workspace.WriteWebhooks); err != nil {
		return nil, "", err
	}
	raw, secret := newSecret()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		if err := CheckReads(ctx, m, w); err != nil {
			return err
		}
		w.OldSecret, w.OldSecretEndsAt = nil, nil
		if overlap > 0 {
			old, err := s.Sealed.Open(secrets.WebhookSecret, w.ID, w.Secret)
			if err != nil {
				return err
			}
			if w.OldSecret, err = s.Sealed.Seal(secrets.WebhookOldSecret, w.ID, old); err != nil {
				return err
			}
			w.OldSecretEndsAt = new(s.now().Add(overlap))
		}
		if w.Secret, err = s.Sealed.Seal(secrets.WebhookSecret, w.ID, raw); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model(w).Column("secret", "old_secret", "old_secret_ends_at").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(s.now(), audit.WebhookSecretRotated, w.ID, audit.Details{"name": w.Name}).
			WithChanges([]*audit.FieldChange{{Field: "secret", Omitted: true}}))
	})
	if err != nil {
		return nil, "", db.NoRowsAs(s.Rows().NotFound(), err, "rotating the secret of a webhook")
	}
	return w, secret, nil
}
