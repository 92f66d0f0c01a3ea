package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/link/history"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/stores"
)

// linksCommand is `linkforge links …`: create to pull are clients of the API, the others work on the
// database while servers run. Changes take effect within a second.
type linksCommand struct {
	Create  linksCreate  `cmd:"" help:"Create a short URL, or one for each line of standard input."`
	List    linksList    `cmd:"" help:"List or search the links of a workspace, newest first."`
	Show    linksShow    `cmd:"" help:"Show a link by its short URL."`
	Stats   linksStats   `cmd:"" help:"Show the clicks of a link, by day or by country, referrer and more."`
	Delete  linksDelete  `cmd:"" help:"Delete a link: its short URL responds 404."`
	Import  linksImport  `cmd:"" help:"Import links of another service, from a file, a pipe or its API."`
	Undo    linksUndo    `cmd:"" help:"Undo an import or a bulk call by its operation; exit status 2 if links remain as they are."`
	Parity  linksParity  `cmd:"" help:"Compare the short URLs of imported links at their source with those here."`
	Plan    linksPlan    `cmd:"" help:"Print how links differ from a manifest; exit status 2 if they do."`
	Apply   linksApply   `cmd:"" help:"Make the links of an owner those of a manifest."`
	Pull    linksPull    `cmd:"" help:"Write the manifest of links that exist."`
	Find    linksFind    `cmd:"" help:"Find links in any workspace, as the operator."`
	Codes   linksCodes   `cmd:"" help:"List the candidate codes of a URL in a workspace, and the links that have them, as the operator."`
	Disable linksDisable `cmd:"" help:"Disable a link for abuse, as the operator: it responds 410, and members cannot restore it."`
	Enable  linksEnable  `cmd:"" help:"Enable disabled links again, as the operator."`
	Verify  linksVerify  `cmd:"" help:"Compare links with their versions and events, as the operator; exit status 1 if they differ."`
}

type (
	linksFind struct {
		listing
		Limit int    `default:"100" help:"Maximum number, 1 to 10000, newest first."`
		What  string `arg:"" help:"A short URL, destination, code, id, or words of a title, note or URL."`
	}
	linksCodes struct {
		listing
		Workspace string `required:"" placeholder:"SLUG" help:"The workspace's slug, or its id."`
		URL       string `arg:"" name:"url" help:"The URL."`
	}
	linksDisable struct {
		listing
		Link string `arg:"" help:"The link's short URL, code or id."`
	}
	linksEnable struct {
		listing
		Link string `arg:"" help:"The link's short URL, code or id."`
	}
	linksVerify struct{}
)

// linkRow is a link in a list.
type linkRow struct {
	ID          string         `json:"id"`
	WorkspaceID string         `json:"workspaceId"`
	Slug        string         `json:"slug"`
	Code        string         `json:"code"`
	ShortURL    string         `json:"shortUrl"`
	OriginalURL string         `json:"originalUrl"`
	Status      routing.Status `json:"status"`
	CreatedAt   time.Time      `json:"createdAt"`
}

func linkRowOf(l moderation.OperatorLink, now time.Time) linkRow {
	return linkRow{l.ID, l.WorkspaceID, l.Slug, l.ShownCode(), l.ShortURL, l.OriginalURL, l.Status(now),
		l.CreatedAt.UTC()}
}

// Run finds links.
func (l linksFind) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(l.Limit); err != nil {
		return err
	}
	return withStores(f, func(s *stores.Stores) error {
		found, err := s.Moderation.FindLinks(ctx, l.What, l.Limit)
		if err != nil {
			return err
		}
		now, rows := time.Now(), make([]linkRow, 0, len(found))
		for _, one := range found {
			rows = append(rows, linkRowOf(one, now))
		}
		return show(io, l.listing, "ID\tWORKSPACE\tSHORT URL\tSTATUS\tCREATED\tLEADS TO", rows,
			func(r linkRow) []string {
				location := strconv.Quote(urlnorm.Location(r.OriginalURL))
				return []string{r.ID, r.Slug, r.ShortURL, string(r.Status), instant(&r.CreatedAt), location}
			})
	})
}

// codeRow is a candidate code of a URL, with one link that holds it.
type codeRow struct {
	Code  string     `json:"code"`
	State string     `json:"state"` // FREE, RESERVED or TAKEN
	Link  *holderRow `json:"link,omitempty"`
}

// holderRow is a linkRow that may be of a purged link.
type holderRow struct {
	linkRow
	Strategy string `json:"strategy"`
	Purged   bool   `json:"purged"`
}

// Run lists the codes that a URL can get, and their holders.
func (l linksCodes) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		w, err := s.Workspaces.AdminGet(ctx, l.Workspace)
		if err != nil {
			return err
		}
		candidates, err := s.Moderation.CodeHolders(ctx, w.ID, l.URL)
		if err != nil {
			return err
		}
		var rows []codeRow
		for _, c := range candidates {
			rows = append(rows, codeRows(c, time.Now())...)
		}
		return show(io, l.listing, "CODE\tSTATE\tHELD BY\tWORKSPACE\tSTATUS\tSTRATEGY\tURL", rows, codeRow.columns)
	})
}

func codeRows(c moderation.CodeCandidate, now time.Time) (rows []codeRow) {
	for _, l := range c.Holders {
		held := &holderRow{linkRowOf(l, now), string(l.Strategy), l.PurgedAt != nil}
		rows = append(rows, codeRow{c.Code, "TAKEN", held})
	}
	switch {
	case c.Reserved:
		rows = append(rows, codeRow{c.Code, "RESERVED", nil})
	case len(rows) == 0:
		rows = append(rows, codeRow{c.Code, "FREE", nil})
	}
	return rows
}

func (r codeRow) columns() []string {
	if r.Link == nil {
		return []string{r.Code, r.State, "-", "-", "-", "-", "-"}
	}
	status := string(r.Link.Status)
	if r.Link.Purged {
		status = "PURGED"
	}
	return []string{r.Code, r.State, r.Link.ID, r.Link.Slug, status, r.Link.Strategy,
		strconv.Quote(r.Link.OriginalURL)}
}

// Run disables a link.
func (l linksDisable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return setDisabled(ctx, f, io, l.listing, l.Link, true)
}

// Run enables a link.
func (l linksEnable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return setDisabled(ctx, f, io, l.listing, l.Link, false)
}

func setDisabled(ctx context.Context, f *config.Flags, io IO, out listing, name string, disabled bool) error {
	return withStores(f, func(s *stores.Stores) error {
		l, changed, err := s.Moderation.SetDisabled(ctx, name, disabled)
		if err != nil {
			return err
		}
		hosts, _, err := s.Moderation.Reasons(ctx, l.ID)
		if err != nil {
			return err
		}
		said := map[[2]bool]string{
			{true, true}: "disabled %s: it answers 410", {true, false}: "%s was disabled already",
			{false, true}: "enabled %s", {false, false}: "%s was not disabled",
		}[[2]bool{disabled, changed}]
		if !disabled && l.DisabledAt != nil {
			said = "%s stays disabled because of " + strings.Join(hosts, ", ") + ": linkforge block enable"
		}
		return showOne(io, out, struct {
			ID          string         `json:"id"`
			WorkspaceID string         `json:"workspaceId"`
			Code        string         `json:"code"`
			Status      routing.Status `json:"status"`
			Changed     bool           `json:"changed"`
			Hosts       []string       `json:"disabledHosts"`
		}{l.ID, l.WorkspaceID, l.ShownCode(), l.Status(time.Now()), changed, hosts}, said, l.ID)
	})
}

// Run compares links with their versions and events.
func (linksVerify) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		differences := 0
		n, err := (&history.Store{Store: s.Links}).Verify(ctx, func(d history.Difference) {
			differences++
			fmt.Fprintf(io.Out, "%s: %s\n", d.LinkID, d.Text)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "%d links, %d differences\n", n, differences)
		if differences > 0 {
			return ExitStatus(1)
		}
		return nil
	})
}
