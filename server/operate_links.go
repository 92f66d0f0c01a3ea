package main

import (
	"context"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// linksCommand is `linkforge links find|disable|enable`. It works beside running servers, which obey within a second.
type linksCommand struct {
	Find    linksFind    `cmd:"" help:"Find links in any workspace."`
	Disable linksDisable `cmd:"" help:"Disable a link for abuse: it answers 410, and no member can bring it back."`
	Enable  linksEnable  `cmd:"" help:"Take back a disable."`
}

type (
	linksFind struct {
		listing
		Limit int    `default:"100" help:"How many at most, 1 to 10000, the newest first."`
		What  string `arg:"" help:"A short URL, a URL, a code, an id, or words in a title, note or URL."`
	}
	linksDisable struct {
		listing
		ID string `arg:"" help:"The link's id, as links find tells it."`
	}
	linksEnable struct {
		listing
		ID string `arg:"" help:"The link's id."`
	}
)

// linkRow is a link in a list.
type linkRow struct {
	ID          string      `json:"id"`
	WorkspaceID string      `json:"workspaceId"`
	Slug        string      `json:"slug"`
	Code        string      `json:"code"`
	ShortURL    string      `json:"shortUrl"`
	OriginalURL string      `json:"originalUrl"`
	Status      link.Status `json:"status"`
	CreatedAt   time.Time   `json:"createdAt"`
}

// Run finds links.
func (l linksFind) Run(ctx context.Context, f *config.Flags, io stdio) error {
	if err := checkLimit(l.Limit); err != nil {
		return err
	}
	return withLinks(f, func(links *link.Store) error {
		found, err := links.Find(ctx, l.What, l.Limit)
		if err != nil {
			return err
		}
		now, rows := time.Now(), make([]linkRow, 0, len(found))
		for _, one := range found {
			rows = append(rows, linkRow{
				one.ID, one.WorkspaceID, one.Slug, one.Code, one.ShortURL, one.OriginalURL, one.Status(now), one.CreatedAt.UTC(),
			})
		}
		return show(io, l.listing, "ID\tWORKSPACE\tSHORT URL\tSTATUS\tCREATED\tLEADS TO", rows, func(r linkRow) []string {
			location := strconv.Quote(urlnorm.Location(r.OriginalURL))
			return []string{r.ID, r.Slug, r.ShortURL, string(r.Status), instant(&r.CreatedAt), location}
		})
	})
}

// Run disables a link.
func (l linksDisable) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return setDisabled(ctx, f, io, l.listing, l.ID, true)
}

// Run enables a link.
func (l linksEnable) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return setDisabled(ctx, f, io, l.listing, l.ID, false)
}

func setDisabled(ctx context.Context, f *config.Flags, io stdio, out listing, linkID string, disabled bool) error {
	return withLinks(f, func(links *link.Store) error {
		l, changed, err := links.SetDisabled(ctx, linkID, disabled)
		if err != nil {
			return err
		}
		said := map[[2]bool]string{
			{true, true}: "disabled %s: it answers 410", {true, false}: "%s was disabled already",
			{false, true}: "enabled %s", {false, false}: "%s was not disabled",
		}
		return tellOf(io, out, struct {
			ID          string      `json:"id"`
			WorkspaceID string      `json:"workspaceId"`
			Code        string      `json:"code"`
			Status      link.Status `json:"status"`
			Changed     bool        `json:"changed"`
		}{l.ID, l.WorkspaceID, l.Code, l.Status(time.Now()), changed}, said[[2]bool{disabled, changed}], l.ID)
	})
}
