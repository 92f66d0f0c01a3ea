package workspace

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

const (
	// invitationLife is how long an invitation can be accepted.
	invitationLife = 7 * 24 * time.Hour
	// invitationPrefix tells an invitation's token from other secrets, for people and for scanners of leaked ones.
	invitationPrefix = "invite_"
)

// invitationsPerWorkspace is how many people a workspace may have written to.
var invitationsPerWorkspace = ratelimit.Rate{Name: "invitations", Attempts: 100, Window: time.Hour}

// Invitation asks whoever has an address, or the token, to become a member.
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

// Invite asks an address to become a member, and answers with the token that accepts it, which is told this once.
// Inviting it again takes the earlier invitation's place. It returns InvalidInput, AlreadyMember, RateLimited or
// Forbidden.
func (s *Store) Invite(ctx context.Context, m Membership, email string, role Role) (_ *Invitation, token string, err error) {
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
	if err := s.Limits.Charge(ctx, invitationsPerWorkspace, m.ID()); err != nil {
		return nil, "", err
	}
	now := s.now()
	token = invitationPrefix + rand.Text()
	i := &Invitation{
		ID: id.New(id.Invitation), WorkspaceID: m.ID(), Email: email, Role: role, TokenHash: account.HashSecret(token), InvitedBy: m.accountID,
		CreatedAt: now, ExpiresAt: now.Add(invitationLife),
	}
	err = changeMembers(ctx, s.DB, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayTouch(m, role); err != nil {
			return err
		}
		return s.keepInvitation(ctx, tx, m, i)
	})
	if err != nil {
		return nil, "", err
	}
	s.mailInvitation(ctx, m, i, token)
	return i, token, nil
}

func (s *Store) keepInvitation(ctx context.Context, tx bun.Tx, m Membership, i *Invitation) error {
	member, err := tx.NewSelect().Model((*Member)(nil)).Join("JOIN accounts AS account ON account.id = member.account_id").
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

// mailInvitation writes to an address that nobody has proved: the letter has no words of whoever invites.
func (s *Store) mailInvitation(ctx context.Context, m Membership, i *Invitation, token string) {
	if s.Mail == nil {
		return
	}
	s.Mail.Send(ctx, i.Email, "You are invited to a workspace", fmt.Sprintf(
		"You are invited to the workspace %s on %s, as %s.\n\nTo accept, log in with this address and call acceptInvitation with this token:\n\n%s\n\n"+
			"It is good until %s. If you do not know what this is about, do nothing.\n",
		m.Slug(), s.PublicURL, i.Role, token, i.ExpiresAt.Format("2006-01-02 15:04 MST")))
}

// Invitations is one page of the invitations that can still be accepted, newest first. It returns Forbidden.
func (s *Store) Invitations(ctx context.Context, m Membership, r page.Request) (page.Page[*Invitation], error) {
	return s.invitations().List(ctx, m, r)
}

// InvitationsByID returns the invitations with the ids that Invitations lists. It returns
// Forbidden.
func (s *Store) InvitationsByID(ctx context.Context, m Membership, ids ...string) ([]*Invitation, error) {
	return s.invitations().ByID(ctx, m, ids...)
}

func (s *Store) invitations() Collection[Invitation] {
	return Collection[Invitation]{
		DB: s.DB, Permission: WriteMembers, Prefix: id.Invitation, Column: "id",
		Where: "accepted_at IS NULL AND expires_at > ?", Args: []any{s.now()},
		Missing: "There is no such invitation, or it has been accepted.",
	}
}

// WorkspaceOfInvitation returns the workspace of an invitation, without a check of permissions. It
// returns NotFound.
func (s *Store) WorkspaceOfInvitation(ctx context.Context, invitationID string) (string, error) {
	return s.invitations().WorkspaceOf(ctx, invitationID)
}

// RevokeInvitation takes an invitation back. It returns NotFound, also for one that has been accepted, or Forbidden.
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
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.invitations().NotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("revoking an invitation: %w", err)
	}
	return revoked, nil
}

// Accept makes the actor a member. However many come with the token at once, one of them is let in. Where mail is sent,
// the actor's address must be the invited one, and proved. It returns NotFound, Expired, AlreadyMember or Forbidden.
func (s *Store) Accept(ctx context.Context, a account.Actor, token string) (Membership, error) {
	email, verified, err := s.People.Emails(ctx, a)
	if err != nil {
		return Membership{}, err
	}
	var i Invitation
	// Nobody is a member yet: this sees all workspaces, and finds one by a secret.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		i = Invitation{}
		_, err := tx.NewUpdate().Model(&i).Set("accepted_at = ?", s.now()).Set("accepted_by = ?", a.AccountID).
			Where("token_hash = ?", account.HashSecret(token)).Where("accepted_at IS NULL").Returning("*").Exec(ctx)
		if errors.Is(err, sql.ErrNoRows) || err == nil && i.ID == "" {
			return errNoToken()
		}
		if err != nil {
			return err
		}
		if !s.now().Before(i.ExpiresAt) {
			return errs.New(errs.Expired, "The invitation has expired. Ask for another one.").At("token")
		}
		if s.sendsMail() && (email != i.Email || !verified) {
			return errs.New(errs.Forbidden, "Only whoever owns the invited address can accept: log in with it, and prove it by verifyEmail.")
		}
		return s.join(ctx, tx, a, &i)
	})
	if err != nil {
		return Membership{}, fmt.Errorf("accepting an invitation: %w", err)
	}
	return s.Require(ctx, a, i.WorkspaceID)
}

func (s *Store) join(ctx context.Context, tx bun.Tx, a account.Actor, i *Invitation) error {
	there, err := tx.NewSelect().Model((*Workspace)(nil)).Where("id = ?", i.WorkspaceID).Where("deleted_at IS NULL").Exists(ctx)
	if err != nil {
		return err
	}
	if !there {
		return errNoToken()
	}
	joined := &Member{WorkspaceID: i.WorkspaceID, AccountID: a.AccountID, Role: i.Role, CreatedAt: s.now()}
	result, err := tx.NewInsert().Model(joined).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errAlreadyMember().At("token"))
	}
	// After the row is there, which waits for whoever deletes the account.
	alive, err := tx.NewSelect().Table("accounts").Where("id = ?", a.AccountID).Where("deleted_at IS NULL").Exists(ctx)
	if err != nil {
		return err
	}
	if !alive {
		return errs.New(errs.Unauthenticated, "There is no such account any more. Register anew.")
	}
	return audit.Write(ctx, tx, audit.New(i.WorkspaceID, a.AccountID, audit.MemberJoined, a.AccountID, audit.Details{"role": i.Role, "invitation": i.ID}, s.Now()))
}

// withdraw takes back those invitations of a workspace that the condition finds and that nobody has accepted.
func (s *Store) withdraw(ctx context.Context, tx bun.Tx, workspaceID, actorID, condition string, args ...any) error {
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

// forgetInvited removes every invitation of an account's address, or that the account has accepted: they hold the address.
func (s *Store) forgetInvited(ctx context.Context, tx bun.Tx, accountID string) error {
	_, err := tx.NewDelete().Model((*Invitation)(nil)).
		Where("accepted_by = ? OR email = (?)", accountID, s.ownAddress(accountID)).Exec(ctx)
	return err
}

// ownAddress asks for an account's address, unless it may be somebody else's: where mail is sent, it must be proved.
func (s *Store) ownAddress(accountID string) *bun.SelectQuery {
	q := s.DB.NewSelect().Table("accounts").Column("email").Where("id = ?", accountID)
	if s.sendsMail() {
		q = q.Where("email_verified_at IS NOT NULL")
	}
	return q
}

func (s *Store) sendsMail() bool { return s.Mail != nil && s.Mail.Configured() }

// CleanUp removes invitations that were over long ago.
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
	return errs.New(errs.AlreadyMember, "This person is a member already.")
}
