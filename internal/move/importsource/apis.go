package importsource

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// api describes the requests of a source. Its items have the source's JSON format.
type api struct {
	// base is the address; empty for that of a self-hosted source.
	base   string
	header func(*Settings) map[string]string
	// accounts returns the accounts whose items are read one after the other, and records about
	// them. It may be nil.
	accounts func(context.Context, *Fetcher) (accounts []string, records [][]byte, err error)
	// page returns the resource of a page of an account; the first page is empty.
	page func(s *Settings, account, page string) string
	// next returns the page that follows a body; empty after the last one.
	next func(f *Fetcher, at *cursor, body []byte, items [][]byte) (string, error)
	// detail returns the resource of the property of an item, and what to pick from an object;
	// empty if the item needs none. It may be nil.
	detail func(s *Settings, item []byte) (resource, name, pick string)
	// drops is a property that must not be stored.
	drops string
	// shifts means that items move to later pages meanwhile, so that each is returned once by its
	// id.
	shifts bool
	id     string
}

func bearer(s *Settings) map[string]string {
	return map[string]string{"Authorization": "Bearer " + s.Token}
}

// header returns a function for a header with the token.
func header(name string) func(*Settings) map[string]string {
	return func(s *Settings) map[string]string { return map[string]string{name: s.Token} }
}

// parse decodes a part of a response.
func parse[T any](body []byte) (part T, err error) {
	if err := json.Unmarshal(body, &part); err != nil {
		return part, errs.New(errs.InvalidInput, "The source returned a response of another form.").Because(err)
	}
	return part, nil
}

// required returns the position of the next page, which must not be empty.
func required(page string) (string, error) {
	if page == "" {
		return "", errAnotherForm()
	}
	return page, nil
}

// apis are the APIs of the sources.
var apis = map[Source]*api{
	Bitly: {
		base: "https://api-ssl.bitly.com/v4", header: bearer,
		accounts: func(ctx context.Context, f *Fetcher) ([]string, [][]byte, error) {
			if f.settings.Account != "" {
				return []string{f.settings.Account}, nil, nil
			}
			body, err := f.get(ctx, "/groups")
			if err != nil {
				return nil, nil, err
			}
			all, err := parse[struct{ Groups []struct{ GUID string } }](body)
			accounts := make([]string, 0, len(all.Groups))
			for _, g := range all.Groups {
				accounts = append(accounts, g.GUID)
			}
			return accounts, nil, err
		},
		page: func(_ *Settings, account, page string) string {
			parameters := []string{"size", "100", "archived", "both"}
			if page != "" {
				parameters = append(parameters, "search_after", page)
			}
			return "/groups/" + url.PathEscape(account) + "/bitlinks" + query(parameters...)
		},
		next: func(_ *Fetcher, _ *cursor, body []byte, _ [][]byte) (string, error) {
			type pagination struct {
				Next  string
				After string `json:"search_after"`
			}
			all, err := parse[struct{ Pagination pagination }](body)
			if all.Pagination.Next == "" || err != nil {
				return "", err
			}
			return required(all.Pagination.After)
		},
		detail: func(s *Settings, item []byte) (resource, name, pick string) {
			id := field(item, "id")
			if !s.ClickTotals || id == "" {
				return "", "", ""
			}
			return "/bitlinks/" + escapePath(id) + "/clicks/summary?unit=day&units=-1", "total_clicks", "total_clicks"
		},
	},
	Dub: {
		base: "https://api.dub.co", header: bearer,
		accounts: func(ctx context.Context, f *Fetcher) ([]string, [][]byte, error) {
			folders, err := f.get(ctx, "/folders")
			if err != nil {
				return nil, nil, err
			}
			record, err := with([]byte("{}"), "folders", folders)
			return []string{""}, [][]byte{record}, err
		},
		page: func(_ *Settings, _, page string) string {
			parameters := []string{"pageSize", "100", "showArchived", "true"}
			if page != "" {
				parameters = append(parameters, "startingAfter", page)
			}
			return "/links" + query(parameters...)
		},
		next: nextByID,
	},
	Kutt: {
		header: header("X-API-KEY"),
		page: func(_ *Settings, _, page string) string {
			if page == "" {
				page = "0"
			}
			return "/api/v2/links" + query("limit", "50", "skip", page)
		},
		next: func(_ *Fetcher, at *cursor, body []byte, items [][]byte) (string, error) {
			all, err := parse[struct{ Total int }](body)
			skip, _ := strconv.Atoi(at.Page)
			if skip += len(items); len(items) == 0 || err != nil {
				return "", err
			}
			if all.Total == 0 {
				return "", errAnotherForm()
			}
			if skip >= all.Total {
				return "", nil
			}
			return strconv.Itoa(skip), err
		},
	},
	Rebrandly: {
		base: "https://api.rebrandly.com/v1",
		header: func(s *Settings) map[string]string {
			h := map[string]string{"apikey": s.Token}
			if s.Account != "" {
				h["workspace"] = s.Account
			}
			return h
		},
		page: func(_ *Settings, _, page string) string {
			parameters := []string{"limit", "25", "orderBy", "createdAt", "orderDir", "asc"}
			if page != "" {
				parameters = append(parameters, "last", page)
			}
			return "/links" + query(parameters...)
		},
		next: nextByID,
	},
	Shlink: {
		header: header("X-Api-Key"),
		page: func(_ *Settings, _, page string) string {
			if page == "" {
				page = "1"
			}
			return "/rest/v3/short-urls" + query("page", page, "itemsPerPage", "100", "orderBy", "dateCreated-ASC")
		},
		next: func(_ *Fetcher, at *cursor, body []byte, items [][]byte) (string, error) {
			type list struct{ Pagination struct{ PagesCount int } }
			all, err := parse[struct{ ShortURLs list }](body)
			page := 1
			if at.Page != "" {
				page, _ = strconv.Atoi(at.Page)
			}
			pages := all.ShortURLs.Pagination.PagesCount
			switch {
			case len(items) == 0 || err != nil:
				return "", err
			case pages == 0:
				return "", errAnotherForm()
			case page >= pages:
				return "", nil
			}
			return strconv.Itoa(page + 1), err
		},
		detail: func(_ *Settings, item []byte) (resource, name, pick string) {
			link, err := parse[struct {
				ShortCode, Domain string
				HasRedirectRules  bool
			}](item)
			if err != nil || !link.HasRedirectRules {
				return "", "", ""
			}
			resource = "/rest/v3/short-urls/" + escapePath(link.ShortCode) + "/redirect-rules"
			if link.Domain != "" {
				resource += query("domain", link.Domain)
			}
			return resource, "redirectRules", "redirectRules"
		},
	},
	ShortIO: {
		base: "https://api.short.io", header: header("Authorization"),
		accounts: func(ctx context.Context, f *Fetcher) ([]string, [][]byte, error) {
			body, err := f.get(ctx, "/api/domains")
			if err != nil {
				return nil, nil, err
			}
			all, err := parse[[]struct{ ID json.Number }](body)
			if err != nil {
				return nil, nil, err
			}
			var accounts []string
			for _, d := range all {
				if f.settings.Account == "" || f.settings.Account == d.ID.String() {
					accounts = append(accounts, d.ID.String())
				}
			}
			record, err := with([]byte("{}"), "domains", body)
			return accounts, [][]byte{record}, err
		},
		page: func(_ *Settings, account, page string) string {
			parameters := []string{"domain_id", account, "limit", "100", "dateSortOrder", "asc"}
			if page != "" {
				parameters = append(parameters, "pageToken", page)
			}
			return "/api/links" + query(parameters...)
		},
		next: func(_ *Fetcher, _ *cursor, body []byte, _ [][]byte) (string, error) {
			all, err := parse[struct{ NextPageToken string }](body)
			return all.NextPageToken, err
		},
		detail: func(_ *Settings, item []byte) (resource, name, pick string) {
			id := field(item, "idString")
			if id == "" {
				return "", "", ""
			}
			return "/link_country/" + url.PathEscape(id), "countries", ""
		},
	},
	Sink: {
		header: bearer,
		page: func(_ *Settings, _, page string) string {
			if page == "" {
				return "/api/link/export"
			}
			return "/api/link/export" + query("cursor", page)
		},
		next: func(_ *Fetcher, _ *cursor, body []byte, _ [][]byte) (string, error) {
			all, err := parse[struct {
				Cursor     string
				IsComplete bool `json:"list_complete"`
			}](body)
			if all.IsComplete || err != nil {
				return "", err
			}
			return required(all.Cursor)
		},
	},
	YOURLS: {
		header: func(*Settings) map[string]string { return nil },
		page: func(s *Settings, _, page string) string {
			if page == "" {
				page = "0"
			}
			return "/yourls-api.php" +
				query("signature", s.Token, "format", "json", "action", "stats", "filter", "last",
					"limit", "100", "start", page)
		},
		next:  nextYOURLS,
		drops: "ip", shifts: true, id: "shorturl",
	},
}

// nextYOURLS returns the next page. It begins again, at most twice, if fewer links were seen than
// there are.
func nextYOURLS(f *Fetcher, at *cursor, body []byte, items [][]byte) (string, error) {
	const passes = 3
	type stats struct {
		Total json.Number `json:"total_links"`
	}
	all, err := parse[struct{ Stats stats }](body)
	if err != nil {
		return "", err
	}
	start, _ := strconv.Atoi(at.Page)
	total, err := all.Stats.Total.Int64()
	if err != nil && len(items) > 0 {
		return "", errAnotherForm().Because(err)
	}
	if start += len(items); len(items) > 0 && int64(start) < total {
		return strconv.Itoa(start), nil
	}
	if at.Pass++; at.Pass < passes && int64(len(f.seen)) < total {
		return "0", nil
	}
	return "", nil
}

// escapePath escapes the segments of a path.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return strings.Join(segments, "/")
}
