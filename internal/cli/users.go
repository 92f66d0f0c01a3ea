package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/config"
)

// usersCommand is `linkforge users list|logout`. It works while servers run.
type usersCommand struct {
	List   usersList   `cmd:"" help:"List the accounts, oldest first."`
	Logout usersLogout `cmd:"" help:"End all sessions of an account on all servers within a second. API keys stay valid."`
}

type (
	usersList struct {
		listing
		pageFlags
		Email string `help:"Only addresses that contain this text."`
	}
	usersLogout struct {
		listing
		Email string `arg:"" help:"The account's address."`
	}
)

// userRow is an account in a list.
type userRow struct {
	ID              string     `json:"id"`
	Email           string     `json:"email"`
	Name            string     `json:"name"`
	CreatedAt       time.Time  `json:"createdAt"`
	EmailVerifiedAt *time.Time `json:"emailVerifiedAt"`
	Sessions        int64      `json:"sessions"`
}

// Run lists accounts.
func (u usersList) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(u.Limit); err != nil {
		return err
	}
	return withAccounts(f, func(accounts *account.Store) error {
		found, err := accounts.People(ctx, u.Email, u.After, u.Limit)
		if err != nil {
			return err
		}
		rows := make([]userRow, 0, len(found))
		for _, p := range found {
			rows = append(rows, userRow{p.ID, p.Email, p.Name, p.CreatedAt.UTC(), utc(p.EmailVerifiedAt), p.Sessions})
		}
		err = show(io, u.listing, "ID\tEMAIL\tNAME\tCREATED\tVERIFIED\tSESSIONS", rows, func(r userRow) []string {
			return []string{r.ID, quoted(r.Email), quoted(r.Name), instant(&r.CreatedAt), instant(r.EmailVerifiedAt),
				strconv.FormatInt(r.Sessions, 10)}
		})
		u.printNext(io, len(rows), func() string { return rows[len(rows)-1].ID })
		return err
	})
}

// Run ends sessions.
func (u usersLogout) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withAccounts(f, func(accounts *account.Store) error {
		a, n, err := accounts.EndSessions(ctx, u.Email)
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
