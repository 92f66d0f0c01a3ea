package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

type (
	// linksList is `linkforge links list`, linksShow `links show`, linksStats `links stats` and
	// linksDelete `links delete`, clients of the API.
	linksList struct {
		listing
		Client
		Search string   `placeholder:"WORDS" help:"Words of the title, note, URL or code, or a short URL."`
		Tag    []string `help:"Links with any of these tags."`
		Limit  int      `default:"100" help:"Maximum number, 1 to 10000."`
		After  string   `placeholder:"CURSOR" help:"Continue after this cursor, which the previous page has named."`
	}
	// linkArg is the link of a command.
	linkArg struct {
		listing
		Client
		ShortURL string `arg:"" help:"The link's short URL, also without its scheme."`
	}
	linksShow   struct{ linkArg }
	linksDelete struct{ linkArg }
	linksStats  struct {
		linkArg
		Days     int    `default:"30" help:"The last days, with today."`
		From     string `placeholder:"DATE" help:"The first day, instead of --days: a date, or a time ago as 90d."`
		By       string `placeholder:"DIMENSION" help:"Clicks by COUNTRY, REFERRER, DEVICE, BROWSER, OS, LANGUAGE, UTM_SOURCE and so on, instead of days."`
		Timezone string `default:"UTC" help:"IANA time zone of the days, such as Europe/Berlin."`
	}
)

// apiLink is a link as the API returns it, and as it is printed.
type apiLink struct {
	ID          string     `json:"id"`
	ShortURL    string     `json:"shortUrl"`
	OriginalURL string     `json:"originalUrl"`
	Status      string     `json:"status"`
	Title       *string    `json:"title"`
	Note        *string    `json:"note"`
	Tags        []string   `json:"tags"`
	StartsAt    *time.Time `json:"startsAt"`
	ExpiresAt   *time.Time `json:"expiresAt"`
	CreatedAt   time.Time  `json:"createdAt"`
}

const apiLinkFields = "id shortUrl originalUrl status title note tags startsAt expiresAt createdAt"

// Run lists links, by as many calls as that takes.
func (l linksList) Run(ctx context.Context, io IO) error {
	if err := checkLimit(l.Limit); err != nil {
		return err
	}
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	links, next, err := readLinks[apiLink](ctx, l.Client, linkQuery{
		workspaceID: workspaceID, filter: map[string]any{"search": optional.Of(l.Search), "tags": l.Tag},
		selection: apiLinkFields, size: linksPerPage, limit: l.Limit, after: optional.Of(l.After),
	})
	if err != nil {
		return err
	}
	err = show(io, l.listing, "SHORT URL\tSTATUS\tCREATED\tTITLE\tLEADS TO", links, func(a apiLink) []string {
		return []string{cell(a.ShortURL), cell(a.Status), instant(&a.CreatedAt), cell(optional.Value(a.Title)),
			cell(a.OriginalURL)}
	})
	if next != nil {
		fmt.Fprintln(io.Err, "there are more: --after", *next)
	}
	return err
}

// linkQuery selects links of a workspace.
type linkQuery struct {
	workspaceID          string
	filter               map[string]any
	selection, fragments string
	// size is the number of links of a query, which is halved while the server refuses it as too
	// large, and limit that of all.
	size, limit int
	// after is the cursor after which the list begins; nil: it begins with the first link.
	after *string
}

// readLinks reads links by as many queries as that takes. It returns the cursor of the last one if
// there are more.
func readLinks[T any](ctx context.Context, c Client, q linkQuery) (links []T, next *string, err error) {
	query := `query ($w: ID!, $n: Int!, $after: String, $filter: LinkFilter!) { workspace(by: {id: $w}) {
		links(first: $n, after: $after, filter: $filter) { nodes { ` + q.selection + ` } ` + pageFields + ` } } }` +
		q.fragments
	for {
		var got struct{ Workspace struct{ Links page[T] } }
		err := c.doWithRetry(ctx, &got, query, map[string]any{"w": q.workspaceID,
			"n": min(q.size, q.limit-len(links)), "after": q.after, "filter": q.filter})
		if isTooLarge(err) && q.size > 1 {
			q.size /= 2
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		links = append(links, got.Workspace.Links.Nodes...)
		p := got.Workspace.Links.PageInfo
		if q.after = p.EndCursor; !p.HasNextPage {
			return links, nil, nil
		}
		if len(links) >= q.limit {
			return links, p.EndCursor, nil
		}
	}
}

// readLink returns the selected fields of the link of the command.
func readLink[T any](ctx context.Context, l linkArg, declared, selection string, variables map[string]any) (*T, error) {
	if l.Key == "" {
		return nil, errNoKey
	}
	var got struct{ Link *T }
	variables["url"] = l.ShortURL
	err := l.doWithRetry(ctx, &got, `query ($url: String!`+declared+`) { link(by: {shortUrl: $url}) { `+selection+
		` } }`, variables)
	if err == nil && got.Link == nil {
		err = fmt.Errorf("there is no link %s, or the key is not of its workspace", quoted(l.ShortURL))
	}
	return got.Link, err
}

// Run shows a link.
func (l linksShow) Run(ctx context.Context, io IO) error {
	a, err := readLink[apiLink](ctx, l.linkArg, "", apiLinkFields, map[string]any{})
	if err != nil {
		return err
	}
	if l.JSON {
		return writeJSON(io.Out, a)
	}
	return show(io, l.listing, "FIELD\tVALUE", [][]string{
		{"short URL", cell(a.ShortURL)}, {"leads to", cell(a.OriginalURL)}, {"status", cell(a.Status)},
		{"title", cell(optional.Value(a.Title))}, {"note", cell(optional.Value(a.Note))},
		{"tags", quotedList(a.Tags)}, {"starts", instant(a.StartsAt)}, {"expires", instant(a.ExpiresAt)},
		{"created", instant(&a.CreatedAt)}, {"id", cell(a.ID)},
	}, func(row []string) []string { return row })
}

// Run deletes a link.
func (l linksDelete) Run(ctx context.Context, io IO) error {
	found, err := readLink[struct {
		ID, ShortURL string
		Workspace    struct{ ID string }
	}](ctx, l.linkArg, "", "id shortUrl workspace { id }", map[string]any{})
	if err != nil {
		return err
	}
	got, err := mutate[changedLinks](ctx, l.Client, "deleteLinks", map[string]any{"workspaceId": found.Workspace.ID,
		"ids": []string{found.ID}}, "results { link { id } errors { message field } } operationId")
	if err != nil {
		return err
	}
	for _, r := range got.Results {
		if err := r.Errors.First(); err != nil {
			return err
		}
	}
	sentence := "deleted %s: it responds 404; to undo this: linkforge links undo %s"
	if got.OperationID == nil {
		sentence = "%s was deleted already%s"
	}
	return showOne(io, l.listing, struct {
		ID          string  `json:"id"`
		ShortURL    string  `json:"shortUrl"`
		OperationID *string `json:"operationId"`
	}{found.ID, found.ShortURL, got.OperationID}, sentence, cell(found.ShortURL), optional.Value(got.OperationID))
}

// linkStats are the clicks of a link, as the API returns them and as they are printed.
type linkStats struct {
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	Clicks    int64      `json:"clicks"`
	Visitors  int64      `json:"visitors"`
	Bots      int64      `json:"bots"`
	Series    []statsRow `json:"series,omitempty"`
	Breakdown []statsRow `json:"breakdown,omitempty"`
}

// statsRow is a day, or a value of a dimension.
type statsRow struct {
	Start    *time.Time `json:"start,omitempty"`
	Value    *string    `json:"value,omitempty"`
	Label    *string    `json:"label,omitempty"`
	IsOther  bool       `json:"isOther,omitempty"`
	Clicks   int64      `json:"clicks"`
	Visitors int64      `json:"visitors"`
	Bots     int64      `json:"bots"`
}

// name describes the row on a clock.
func (r statsRow) name(zone *time.Location) string {
	switch {
	case r.Start != nil:
		return r.Start.In(zone).Format(time.DateOnly)
	case r.IsOther:
		return "all others"
	case r.Label != nil:
		return cell(*r.Label)
	case *r.Value == "":
		return "unknown"
	}
	return cell(*r.Value)
}

// Run shows the clicks of a link.
func (l linksStats) Run(ctx context.Context, io IO) error {
	zone := routing.LoadZone(l.Timezone)
	if zone == nil {
		return errors.New("--timezone must be the IANA name of a time zone, such as Europe/Berlin")
	}
	from, to, err := l.period(time.Now().In(zone))
	if err != nil {
		return err
	}
	declared, selection := "", "series(interval: DAY) { start clicks visitors bots }"
	variables := map[string]any{"range": map[string]any{"from": from, "to": to}, "zone": l.Timezone}
	if l.By != "" {
		declared = ", $by: Dimension!"
		selection = "breakdown(by: $by, first: 20) { value label isOther clicks visitors bots }"
		variables["by"] = strings.ToUpper(l.By)
	}
	got, err := readLink[struct{ Stats linkStats }](ctx, l.linkArg, ", $range: TimeRange!, $zone: String!"+declared,
		"stats(range: $range, timezone: $zone) { from to clicks visitors bots "+selection+" }", variables)
	if err != nil {
		return err
	}
	s := got.Stats
	if l.JSON {
		return writeJSON(io.Out, s)
	}
	head := "DAY"
	if l.By != "" {
		head = strings.ToUpper(l.By)
	}
	err = show(io, l.listing, head+"\tCLICKS\tVISITORS\tBOTS", append(s.Series, s.Breakdown...),
		func(r statsRow) []string {
			return []string{r.name(zone), strconv.FormatInt(r.Clicks, 10), strconv.FormatInt(r.Visitors, 10),
				strconv.FormatInt(r.Bots, 10)}
		})
	fmt.Fprintf(io.Err, "%d clicks, %d visitors, %d clicks by bots from %s to %s\n", s.Clicks, s.Visitors, s.Bots,
		s.From.In(zone).Format(time.RFC3339), s.To.In(zone).Format(time.RFC3339))
	return err
}

// period returns the range of the stats, which begins with a day.
func (l linksStats) period(now time.Time) (from, to time.Time, err error) {
	if l.Days < 1 || l.Days > maxDays {
		return from, to, fmt.Errorf("--days must be from 1 to %d", maxDays)
	}
	from = now.AddDate(0, 0, 1-l.Days)
	if l.From != "" {
		if from, err = parseInstant("--from", l.From, now, -1); err != nil {
			return from, to, err
		}
	}
	return time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, now.Location()), now, nil
}
