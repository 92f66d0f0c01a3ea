package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
)

// usersCommand is `linkforge users
// list|create|reset-password|reset-factors|logout|disable|enable|delete`. It works while servers
// run.
type usersCommand struct {
	List          usersList          `cmd:"" help:"List the accounts, oldest first."`
	Create        usersCreate        `cmd:"" help:"Create an account, and print a link that sets its password, valid for a day."`
	ResetPassword usersResetPassword `cmd:"" help:"Print a link that sets the password of an account, valid once for a day."`
	ResetFactors  usersResetFactors  `cmd:"" help:"Remove the second factors of an account, whose owner has lost them, and end its sessions."`
	Logout        usersLogout        `cmd:"" help:"End all sessions of an account on all servers within a second. API keys stay valid."`
	Disable       usersDisable       `cmd:"" help:"End the sessions of an account, and refuse its log-ins; lists the API keys that it created."`
	Enable        usersEnable        `cmd:"" help:"Allow log-ins of a disabled account again."`
	Delete        usersDelete        `cmd:"" help:"Delete an account with its personal data. This cannot be undone."`
}

type (
	usersList struct {
		listing
		pageFlags
		Email string `help:"Only addresses that contain this text."`
	}
	// userArg is the account of a command.
	userArg struct {
		listing
		Email string `arg:"" help:"The account's address."`
	}
	usersCreate struct {
		userArg
		Name    string `help:"The displayed name, 1 to 100 characters; the part of the address before the @ without it."`
		OwnerOf string `placeholder:"SLUG" help:"Make the account an owner of the workspace with this slug or id."`
	}
	usersResetPassword struct{ userArg }
	usersResetFactors  struct {
		userArg
		asking
	}
	usersLogout  struct{ userArg }
	usersDisable struct{ userArg }
	usersEnable  struct{ userArg }
	usersDelete  struct {
		userArg
		asking
	}
)

// userRow is an account in a list.
type userRow struct {
	ID              string     `json:"id"`
	Email           string     `json:"email"`
	Name            string     `json:"name"`
	CreatedAt       time.Time  `json:"createdAt"`
	EmailVerifiedAt *time.Time `json:"emailVerifiedAt"`
	DisabledAt      *time.Time `json:"disabledAt"`
	Sessions        int64      `json:"sessions"`
}

// Run lists accounts.
func (u usersList) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(u.Limit); err != nil {
		return err
	}
	return withStores(f, func(s *stores.Stores) error {
		found, err := s.Accounts.AdminList(ctx, u.Email, u.After, u.Limit)
		if err != nil {
			return err
		}
		rows := make([]userRow, 0, len(found))
		for _, p := range found {
			rows = append(rows, userRow{p.ID, p.Email, p.Name, p.CreatedAt.UTC(), utc(p.EmailVerifiedAt),
				utc(p.DisabledAt), p.Sessions})
		}
		err = show(io, u.listing, "ID\tEMAIL\tNAME\tCREATED\tVERIFIED\tDISABLED\tSESSIONS", rows,
			func(r userRow) []string {
				return []string{r.ID, quoted(r.Email), quoted(r.Name), instant(&r.CreatedAt),
					instant(r.EmailVerifiedAt),
					instant(r.DisabledAt), strconv.FormatInt(r.Sessions, 10)}
			})
		u.printNext(io, len(rows), func() string { return rows[len(rows)-1].ID })
		return err
	})
}

// Run ends sessions.
func (u usersLogout) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		a, n, err := s.Accounts.EndSessions(ctx, u.Email)
		if err != nil {
			return err
		}
		return showOne(io, u.listing, struct {
			ID       string `json:"id"`
			Email    string `json:"email"`
			Sessions int64  `json:"endedSessions"`
		}{a.ID, a.Email, n}, "ended %d sessions of %s (%s)", n, quoted(a.Email), a.ID)
	})
}

// userLink is an account with a link that sets its password.
type userLink struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (u userArg) showLink(io IO, what string, a *account.Account, link account.PasswordLink) error {
	return showOne(io, u.listing, userLink{a.ID, a.Email, link.URL, link.ExpiresAt.UTC()},
		"%s %s (%s); this page sets the password, once until %s:\n%s", what, quoted(a.Email), a.ID,
		link.ExpiresAt.UTC().Format(time.RFC3339), link.URL)
}

// Run creates an account.
func (u usersCreate) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		join := func(ctx context.Context, tx bun.Tx, accountID string) error {
			if u.OwnerOf == "" {
				return nil
			}
			return s.Workspaces.AdminAddOwner(ctx, tx, u.OwnerOf, accountID)
		}
		a, link, err := s.Accounts.AdminCreate(ctx, u.Email, u.Name, join)
		if err != nil {
			return err
		}
		return u.showLink(io, "created", a, link)
	})
}

// Run prints a link that sets a password.
func (u usersResetPassword) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		a, link, err := s.Accounts.AdminReset(ctx, u.Email)
		if err != nil {
			return err
		}
		return u.showLink(io, "found", a, link)
	})
}

// Run removes second factors, and notifies the owner by e-mail.
func (u usersResetFactors) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		found, err := s.Accounts.AdminGet(ctx, u.Email)
		if err != nil {
			return err
		}
		if err := u.confirm(io, fmt.Sprintf("Remove the second factors of %s (%s), and end its sessions? "+
			"This cannot be undone.", quoted(found.Email), found.ID)); err != nil {
			return err
		}
		a, err := s.Accounts.ResetFactors(ctx, u.Email)
		if err != nil {
			return err
		}
		sent, stop := context.WithCancel(ctx)
		stop() // Run sends the queued messages
		if err := s.Mailer.Run(sent); err != nil {
			return fmt.Errorf("the second factors were removed, but the e-mail was not sent: %w", err)
		}
		return showOne(io, u.listing, struct {
			ID    string `json:"id"`
			Email string `json:"email"`
		}{a.ID, a.Email}, "removed the second factors of %s (%s), and ended its sessions", quoted(a.Email), a.ID)
	})
}

// disabledRow is an account that was disabled or enabled.
type disabledRow struct {
	ID         string            `json:"id"`
	Email      string            `json:"email"`
	DisabledAt *time.Time        `json:"disabledAt"`
	Sessions   int64             `json:"endedSessions"`
	APIKeys    []apikey.Exported `json:"apiKeys"`
}

// Run disables an account.
func (u usersDisable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return u.setDisabled(ctx, f, io, true)
}

// Run enables an account.
func (u usersEnable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return u.setDisabled(ctx, f, io, false)
}

func (u userArg) setDisabled(ctx context.Context, f *config.Flags, io IO, disabled bool) error {
	return withStores(f, func(s *stores.Stores) error {
		a, n, err := s.Accounts.SetDisabled(ctx, u.Email, disabled)
		if err != nil {
			return err
		}
		keys, err := s.APIKeys.Active(ctx, a.ID)
		if err != nil {
			return err
		}
		row := disabledRow{a.ID, a.Email, utc(a.DisabledAt), n, keys}
		if !disabled {
			return showOne(io, u.listing, row,
				"enabled %s (%s); its webhooks stay disabled until a member enables them",
				quoted(a.Email), a.ID)
		}
		text := fmt.Sprintf("disabled %s (%s) and ended %d sessions", quoted(a.Email), a.ID, n)
		if len(keys) > 0 {
			text += "; these API keys that it created belong to their workspaces, and stay valid:"
		}
		for _, k := range keys {
			text += fmt.Sprintf("\n  %s  %s  %s", k.ID, k.WorkspaceID, quoted(k.Name))
		}
		return showOne(io, u.listing, row, "%s", text)
	})
}

// Run deletes an account.
func (u usersDelete) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		found, err := s.Accounts.AdminGet(ctx, u.Email)
		if err != nil {
			return err
		}
		if err := u.confirm(io, fmt.Sprintf("Delete %s (%s) with its personal data? This cannot be undone.",
			quoted(found.Email), found.ID)); err != nil {
			return err
		}
		a, err := s.Accounts.AdminDelete(ctx, u.Email, s.Workspaces.LeaveAll)
		if err != nil {
			return err
		}
		return showOne(io, u.listing, struct {
			ID      string `json:"id"`
			Email   string `json:"email"`
			Deleted bool   `json:"deleted"`
		}{a.ID, a.Email, true}, "deleted %s (%s)", quoted(a.Email), a.ID)
	})
}
