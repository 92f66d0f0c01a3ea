package workspace

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

const (
	// invitationLife is how long an invitation can be accepted.
	invitationLife = 7 * 24 * time.Hour
	// invitationPrefix identifies invitation tokens to users and secret scanners.
	invitationPrefix = "invite_"
)

// The rates of invitations bound the mail that a workspace and an account cause, and the mail that
// a recipient receives.
var (
	invitationsPerWorkspace = ratelimit.Rate{Name: "invitations", Attempts: 100, Window: time.Hour}
	invitationsPerAccount   = ratelimit.Rate{Name: "invitations-account", Attempts: 50, Window: time.Hour}
	invitationsPerRecipient = ratelimit.Rate{Name: "invitations-recipient", Attempts: 5, Window: 24 * time.Hour}
)

// Invitation makes the bearer of its token, or the owner of its address, a member.
type Invitation struct {
	bun.BaseModel `bun:"table:invitations"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Email       string // in lower case
	Role        Role
	TokenHash   []byte
	InvitedBy   string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	AcceptedAt  *time.Time
	AcceptedBy  *string
}

func (*Invitation) IsEntity() {} // an entity of Apollo Federation

// Invite invites an address and returns the token that accepts the invitation, which cannot be read
// again. It replaces an earlier invitation of the address. It returns InvalidInput, AlreadyMember,
// RateLimited or Forbidden.
func (s *Store) Invite(
	ctx context.Context, m Membership, email string, role Role,
) (_ *Invitation, token string, err error) {
	needed := WriteMembers
	if role == Owner {
		needed = WriteOwners
	}
	ctx, err = m.Enter(ctx, needed)
	if err != nil {
		return nil, "", err
	}
	if email, err = account.CheckEmail(email); err != nil {
		return nil, "", err
	}
	if err := s.chargeInvitation(ctx, m, email); err != nil {
		return nil, "", err
	}
	now := s.now()
	token = invitationPrefix + rand.Text()
	i := &Invitation{
		ID: id.New(id.Invitation), WorkspaceID: m.ID(), Email: email, Role: role, TokenHash: account.HashSecret(token),
		InvitedBy: m.accountID, CreatedAt: now, ExpiresAt: now.Add(invitationLife),
	}
	err = changeMembers(ctx, s.DB, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayTouch(m, role); err != nil {
			return err
		}
		return s.insertInvitation(ctx, tx, m, i)
	})
	if err != nil {
		return nil, "", err
	}
	s.mailInvitation(ctx, m, i, token)
	return i, token, nil
}

// chargeInvitation returns RateLimited.
func (s *Store) chargeInvitation(ctx context.Context, m Membership, email string) error {
	for _, c := range []struct {
		rate    ratelimit.Rate
		subject string
	}{{invitationsPerWorkspace, m.ID()}, {invitationsPerAccount, m.accountID}, {invitationsPerRecipient, email}} {
		if err := s.Limits.Charge(ctx, c.rate, c.subject); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) insertInvitation(ctx context.Context, tx bun.Tx, m Membership, i *Invitation) error {
	member, err := tx.NewSelect().Model((*Member)(nil)).
		Join("JOIN accounts AS account ON account.id = member.account_id").
		Where("member.workspace_id = ?", m.ID()).Where("account.email = ?", i.Email).Exists(ctx)
	if err != nil {
		return err
	}
	if member {
		return errAlreadyMember().At("email")
	}
	if err := s.withdraw(ctx, tx, m.ID(), m.ActorID(), "email = ?", i.Email); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(i).Exec(ctx); err != nil {
		return err
	}
	return m.Audit(ctx, tx, s.Now(), audit.MemberInvited, i.ID, audit.Details{"role": i.Role})
}

// InvitationPage is the path of the page that accepts an invitation with the token in the fragment
// of its URL. The server has its handler.
const InvitationPage = "/invitation"

// mailInvitation sends no user-supplied text, because the address is not verified.
func (s *Store) mailInvitation(ctx context.Context, m Membership, i *Invitation, token string) {
	if s.Mail == nil {
		return
	}
	s.Mail.Send(ctx, i.Email, "You are invited to a workspace", fmt.Sprintf(
		"You are invited to the workspace %s on %s, as %s.\n\n"+
			"To accept, open this page:\n\n%s\n\n"+
			"It is good until %s. If you do not know what this is about, do nothing.\n",
		m.Slug(), s.PublicURL, i.Role, s.PublicURL+InvitationPage+"#"+token,
		i.ExpiresAt.Format("2006-01-02 15:04 MST")))
}

// Invitations returns the invitations that can be accepted at the time of the call, newest first.
func (s *Store) Invitations() Collection[Invitation] {
	return Collection[Invitation]{
		DB: s.DB, Permission: WriteMembers, Prefix: id.Invitation, Column: "id",
		Where: "accepted_at IS NULL AND expires_at > ?", Args: []any{s.now()},
		Missing: "There is no such invitation, or it has been accepted.",
	}
}

// RevokeInvitation revokes an invitation. It returns NotFound, also for an accepted one, or
// Forbidden.
func (s *Store) RevokeInvitation(ctx context.Context, m Membership, invitationID string) (*Invitation, error) {
	ctx, err := m.Enter(ctx, WriteMembers)
	if err != nil {
		return nil, err
	}
	revoked := &Invitation{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model(revoked).Where("workspace_id = ?", m.ID()).Where("id = ?", invitationID).
			Where("accepted_at IS NULL").Returning("*").Exec(ctx)
		if err == nil && revoked.ID == "" {
			err = sql.ErrNoRows
		}
		if err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.InvitationRevoked, invitationID, nil)
	})
	if err != nil {
		return nil, db.NoRowsAs(s.Invitations().NotFound(), err, "revoking an invitation")
	}
	return revoked, nil
}

// IsInvited reports whether a workspace has invited the address.
func (s *Store) IsInvited(ctx context.Context, email string) (bool, error) {
	invited, err := usable(s.DB.NewSelect().Model((*Invitation)(nil)), "email = ?", email).
		Where("expires_at > ?", s.now()).Exists(db.AsSystem(ctx))
	if err != nil {
		return false, fmt.Errorf("looking up the invitations of an address: %w", err)
	}
	return invited, nil
}

// Accept makes the actor a member. Of concurrent calls with the token, one succeeds. If mail is
// sent, the actor's verified address must be the invited one. It returns NotFound, Expired,
// AlreadyMember or Forbidden.
func (s *Store) Accept(ctx context.Context, a account.Actor, token string) (Membership, error) {
	email, verified, err := s.Accounts.Emails(ctx, a)
	if err != nil {
		return Membership{}, err
	}
	var i Invitation
	// The actor is not a member yet: the system's scope finds the workspace by the token.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		i = Invitation{}
		_, err := usable(tx.NewUpdate().Model(&i), byToken, account.HashSecret(token)).Set("accepted_at = ?", s.now()).
			Set("accepted_by = ?", a.AccountID).Returning("*").Exec(ctx)
		if err := s.checkFound(&i, err); err != nil {
			return err
		}
		if s.sendsMail() && (email != i.Email || !verified) {
			return errs.New(errs.Forbidden,
				"Only the owner of the invited address can accept: log in with that address, and verify it "+
					"by verifyEmail.")
		}
		return s.join(ctx, tx, a.AccountID, &i)
	})
	if err != nil {
		return Membership{}, fmt.Errorf("accepting an invitation: %w", err)
	}
	return s.Require(ctx, a, i.WorkspaceID)
}

// byToken is the condition of the invitation with the hash of a token.
const byToken = "token_hash = ?"

// usable restricts a statement to the invitations that match the condition, unless they have been
// accepted, their workspace was deleted, or the operator has disabled the account that sent them.
func usable[Q interface{ Where(string, ...any) Q }](q Q, where string, arg any) Q {
	return q.Where(where, arg).Where("accepted_at IS NULL").
		Where("EXISTS (SELECT 1 FROM workspaces WHERE workspaces.id = workspace_id AND workspaces.deleted_at IS NULL)").
		Where("NOT EXISTS (SELECT 1 FROM accounts WHERE accounts.id = invited_by AND accounts.disabled_at IS NOT NULL)")
}

// checkFound returns the error of a statement with usable, NotFound if it found none, or Expired.
func (s *Store) checkFound(i *Invitation, err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && i.ID == "":
		return errNoToken()
	case err == nil && !s.now().Before(i.ExpiresAt):
		return errs.New(errs.Expired, "The invitation has expired. Request a new one.").At("token")
	}
	return err
}

// InvitedAddress returns the address that an invitation was sent to. It returns NotFound or Expired.
func (s *Store) InvitedAddress(ctx context.Context, token string) (string, error) {
	var i Invitation
	err := usable(s.DB.NewSelect().Model(&i), byToken, account.HashSecret(token)).Scan(db.AsSystem(ctx))
	return i.Email, s.checkFound(&i, err)
}

// Presented returns the invitation with the token, for a new account: only one with the invited
// address can accept it.
func (s *Store) Presented(token string) account.Invitation { return presented{s, token} }

type presented struct {
	store *Store
	token string
}

// Check implements account.Invitation.
func (p presented) Check(ctx context.Context, email string) error {
	invited, err := p.store.InvitedAddress(ctx, p.token)
	if err != nil {
		return err
	}
	return sameAddress(invited, email)
}

// Accept implements account.Invitation.
func (p presented) Accept(ctx context.Context, tx bun.Tx, a *account.Account) error {
	var i Invitation
	_, err := usable(tx.NewUpdate().Model(&i), byToken, account.HashSecret(p.token)).Set("accepted_at = ?",
		p.store.now()).
		Set("accepted_by = ?", a.ID).Returning("*").Exec(ctx)
	if err := p.store.checkFound(&i, err); err != nil {
		return err
	}
	if err := sameAddress(i.Email, a.Email); err != nil {
		return err
	}
	return p.store.join(ctx, tx, a.ID, &i)
}

// sameAddress returns Forbidden if an invitation was sent to another address.
func sameAddress(invited, email string) error {
	if email != invited {
		return errs.New(errs.Forbidden, "The invitation is for another e-mail address. Register with that one.")
	}
	return nil
}

// join makes an account a member, in the transaction that has accepted the invitation.
func (s *Store) join(ctx context.Context, tx bun.Tx, accountID string, i *Invitation) error {
	joined := &Member{WorkspaceID: i.WorkspaceID, AccountID: accountID, Role: i.Role, CreatedAt: s.now()}
	n, err := db.Affected(tx.NewInsert().Model(joined).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	if err != nil {
		return err
	}
	if n == 0 {
		return errAlreadyMember().At("token")
	}
	// After the insert, which waits for a transaction that deletes the account.
	if err := requireAccount(ctx, tx, accountID); err != nil {
		return err
	}
	return audit.Write(ctx, tx, audit.New(i.WorkspaceID, accountID, audit.MemberJoined, accountID,
		audit.Details{"role": i.Role, "invitation": i.ID}, s.Now()))
}

// withdraw revokes the workspace's pending invitations that match the condition.
func (s *Store) withdraw(
	ctx context.Context, tx bun.Tx, workspaceID, actorID, condition string, args ...any,
) error {
	var ids []string
	_, err := tx.NewDelete().Model((*Invitation)(nil)).Where("workspace_id = ?", workspaceID).Where(condition, args...).
		Where("accepted_at IS NULL").Returning("id").Exec(ctx, &ids)
	events := make([]*audit.Event, 0, len(ids))
	for _, invitationID := range ids {
		events = append(events, audit.New(workspaceID, actorID, audit.InvitationRevoked, invitationID, nil, s.Now()))
	}
	if err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// forgetInvited deletes invitations that contain the account's address: invitations to it, and
// invitations that it accepted.
func (s *Store) forgetInvited(ctx context.Context, tx bun.Tx, accountID string) error {
	_, err := tx.NewDelete().Model((*Invitation)(nil)).
		Where("accepted_by = ? OR email = (?)", accountID, s.ownAddress(accountID)).Exec(ctx)
	return err
}

// ownAddress selects an account's address. If mail is sent, the address must be verified.
func (s *Store) ownAddress(accountID string) *bun.SelectQuery {
	q := s.DB.NewSelect().Table("accounts").Column("email").Where("id = ?", accountID)
	if s.sendsMail() {
		q = q.Where("email_verified_at IS NOT NULL")
	}
	return q
}

func (s *Store) sendsMail() bool { return s.Mail != nil && s.Mail.Configured() }

// CleanUp deletes invitations that expired longer ago than Undo.
func (s *Store) CleanUp(ctx context.Context) error {
	_, err := s.DB.NewDelete().Model((*Invitation)(nil)).Where("expires_at <= ?", s.now().Add(-Undo)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("removing invitations: %w", err)
	}
	return nil
}

func errNoToken() error {
	return errs.New(errs.NotFound, "There is no invitation with this token, or it has been accepted.").At("token")
}

func errAlreadyMember() *errs.Error {
	return errs.New(errs.AlreadyMember, "This user is already a member.")
}
