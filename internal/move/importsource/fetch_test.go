package importsource_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// server answers by the part of the URL after the host, with each of the responses once and then
// the last.
type server struct {
	responses map[string][]string
	requests  []string
}

func (s *server) fetch(_ context.Context, r importsource.Request) (importsource.Response, error) {
	_, rest, _ := strings.Cut(r.URL, "://")
	_, resource, _ := strings.Cut(rest, "/")
	s.requests = append(s.requests, resource)
	known := s.responses[resource]
	if len(known) == 0 {
		return importsource.Response{Status: 404}, nil
	}
	if len(known) > 1 {
		s.responses[resource] = known[1:]
	}
	status := 200
	if _, err := fmt.Sscanf(known[0], "status %d", &status); err == nil {
		return importsource.Response{Status: status}, nil
	}
	return importsource.Response{Status: status, Body: []byte(known[0])}, nil
}

// yourls is the request of a page of YOURLS, without its start.
const yourls = "yourls-api.php?signature=secret-token&format=json&action=stats&filter=last&limit=100&start="

func settings(source importsource.Source) *importsource.Settings {
	s := &importsource.Settings{Source: source, Token: "secret-token", ClickTotals: true, Now: now}
	if slices.Contains([]importsource.Source{importsource.Kutt, importsource.Shlink, importsource.Sink,
		importsource.YOURLS}, source) {
		s.BaseURL = "https://s.example/"
	}
	return s
}

// TestFetcher_ReturnsErrors that name the request, and never the token.
func TestFetcher_ReturnsErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		responses []string
		kind      errs.Kind
		requests  int
	}{
		"refused token":   {[]string{"status 403"}, errs.InvalidInput, 1},
		"redirect":        {[]string{"status 302"}, errs.InvalidInput, 1},
		"not found":       {[]string{"status 404"}, errs.InvalidInput, 1},
		"rate":            {[]string{"status 429"}, errs.Unavailable, 1},
		"outage":          {[]string{"status 502"}, errs.Unavailable, 1},
		"no JSON":         {[]string{"<html>"}, errs.InvalidInput, 3},
		"JSON in the end": {[]string{"<html>", "", `{"links":{},"stats":{"total_links":"0"}}`}, 0, 3},
		"another form":    {[]string{`{"error":"x"}`}, errs.InvalidInput, 1},
		"another total":   {[]string{`{"links":{},"stats":{"total_links":{}}}`}, errs.InvalidInput, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{responses: map[string][]string{yourls + "0": c.responses}}
			f := must.Value(importsource.NewFetcher(settings(importsource.YOURLS), s.fetch))(t)
			start := must.Value(f.Next(t.Context(), ""))(t)
			_, err := f.Next(t.Context(), start.Next)
			if c.kind == 0 && err != nil || c.kind != 0 && !errs.Is(err, c.kind) || len(s.requests) != c.requests {
				t.Errorf("%d requests, error %v, want %d, %v", len(s.requests), err, c.requests, c.kind)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
	broken := errors.New("broken")
	f := must.Value(importsource.NewFetcher(settings(importsource.Dub),
		func(context.Context, importsource.Request) (importsource.Response, error) {
			return importsource.Response{}, broken
		}))(t)
	if _, err := f.Next(t.Context(), ""); !errors.Is(err, broken) {
		t.Errorf("the error is %v, want %v", err, broken)
	}
	if _, err := f.Next(t.Context(), "x"); !errs.Is(err, errs.InvalidInput) {
		t.Errorf("a wrong cursor: %v", err)
	}
	for _, s := range []*importsource.Settings{
		{Source: importsource.CSV, Token: "x"}, {Source: importsource.Kutt, Token: "x"}, {Source: importsource.Dub},
	} {
		if _, err := importsource.NewFetcher(s, nil); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestFetcher_Pages lists the requests of each source, their responses, and the ids of the items.
func TestFetcher_Pages(t *testing.T) {
	t.Parallel()
	const kutt, dub, domains = "api/v2/links?limit=50&skip=", "links?pageSize=100&showArchived=true", "api/domains"
	const shlink = "rest/v3/short-urls?page=1&itemsPerPage=100&orderBy=dateCreated-ASC"
	const shortIO = "api/links?domain_id=1&limit=100&dateSortOrder=asc"
	const bitly, summary = "v4/groups/g/bitlinks?size=100&archived=both", "/clicks/summary?unit=day&units=-1"
	long := strings.Repeat("x", importsource.MaxItem)
	for name, c := range map[string]struct {
		source    importsource.Source
		account   string
		exchanges [][2]string
		ids       []string
		err       bool
	}{
		"Kutt returns fewer than asked for": {importsource.Kutt, "", [][2]string{
			{kutt + "0", `{"total":3,"data":[{"id":"a"},{"id":"b"}]}`}, {kutt + "2", `{"total":3,"data":[{"id":"c"}]}`},
		}, []string{"a", "b", "c"}, false},
		"Kutt ends before its total": {importsource.Kutt, "", [][2]string{{kutt + "0", `{"total":3,"data":[]}`}}, nil,
			false},
		"Kutt without a total": {importsource.Kutt, "", [][2]string{{kutt + "0", `{"data":[{"id":"a"}]}`}}, nil, true},
		"Shlink without a number of pages": {importsource.Shlink, "", [][2]string{
			{shlink, `{"shortUrls":{"data":[{"shortCode":"a"}]}}`},
		}, nil, true},
		"Sink without its cursor": {importsource.Sink, "", [][2]string{
			{"api/link/export", `{"version":"1.0","links":[{"id":"a"}],"list_complete":false}`},
		}, nil, true},
		"Bitly without its cursor": {importsource.Bitly, "g", [][2]string{
			{bitly, `{"links":[{"id":"bit.ly/a"}],"pagination":{"next":"https://x"}}`},
			{"v4/bitlinks/bit.ly/a" + summary, "status 404"},
		}, nil, true},
		"Dub without the last id": {importsource.Dub, "", [][2]string{
			{"folders", `[]`}, {dub, `[{"id":"a"},{"key":"b"}]`},
		}, nil, true},
		"Dub with a last item that is too large": {importsource.Dub, "", [][2]string{
			{"folders", `[]`}, {dub, `[{"id":"a","x":"` + long + `"}]`}, {dub + "&startingAfter=a", `[]`},
		}, []string{"line:1"}, false},
		"Short.io with a detail that is too large": {importsource.ShortIO, "1", [][2]string{
			{domains, `[{"id":1}]`}, {shortIO, `{"links":[{"idString":"a"}]}`}, {"link_country/a", `["` + long + `"]`},
		}, []string{"line:1"}, false},
		"a cursor that is too large": {importsource.ShortIO, "1", [][2]string{
			{domains, `[{"id":1}]`}, {shortIO, `{"links":[],"nextPageToken":"` + strings.Repeat("x", 64<<10) + `"}`},
		}, nil, true},
		"YOURLS without identities": {importsource.YOURLS, "", [][2]string{
			{yourls + "0", `{"links":{"1":{"url":"https://a.example/"},"2":{"url":"https://b.example/"}},` +
				`"stats":{"total_links":"0"}}`},
		}, []string{"url:befde498a45b6c82084a07709548fe6f", "url:5d1dd98498cb9c1e0fa2a79db2aa6f6c"}, false},
		"the same page twice": {importsource.Dub, "", [][2]string{
			{"folders", `[]`}, {dub, `[{"id":"a"}]`}, {dub + "&startingAfter=a", `[{"id":"a"}]`},
		}, []string{"a"}, true},
		"Bitly of one group, with a link deleted meanwhile": {importsource.Bitly, "g/1", [][2]string{
			{strings.Replace(bitly, "/g/", "/g%2F1/", 1), `{"links":[{"id":"bit.ly/a b"}],"pagination":{"next":""}}`},
			{"v4/bitlinks/bit.ly/a%20b" + summary, "status 404"},
		}, []string{"bit.ly/a b"}, false},
		"Bitly without a group": {importsource.Bitly, "", [][2]string{{"v4/groups", `{"groups":[]}`}}, nil, true},
		"Short.io of one domain": {importsource.ShortIO, "2", [][2]string{
			{domains, `[{"id":1},{"id":2}]`}, {strings.Replace(shortIO, "=1", "=2", 1), `{"links":[]}`},
		}, nil, false},
		"Shlink of a domain": {importsource.Shlink, "", [][2]string{
			{shlink, `{"shortUrls":{"data":[{"id":"x",` +
				`"shortCode":"a/b?","domain":"c.d","hasRedirectRules":true}],"pagination":{"pagesCount":1}}}`},
			{"rest/v3/short-urls/a/b%3F/redirect-rules?domain=c.d", `{"redirectRules":[]}`},
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &server{responses: map[string][]string{}}
			var requests, ids []string
			for _, e := range c.exchanges {
				server.responses[e[0]], requests = append(server.responses[e[0]], e[1]), append(requests, e[0])
			}
			s := settings(c.source)
			s.Account = c.account
			items, err := fetchUntilError(t, s, server.fetch)
			if (err != nil) != c.err {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(requests, server.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			s.Fetched = true
			for _, row := range read(t, s, bytes.Join(items, []byte("\n"))) {
				ids = append(ids, row.SourceID)
			}
			if diff := cmp.Diff(c.ids, ids); diff != "" && c.source != importsource.Shlink { // which has no ids
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

func fetchUntilError(t *testing.T, s *importsource.Settings, fetch importsource.Fetch) (items [][]byte, err error) {
	t.Helper()
	f := must.Value(importsource.NewFetcher(s, fetch))(t)
	for cursor := ""; ; {
		page, err := f.Next(t.Context(), cursor)
		items = append(items, page.Items...)
		if cursor = page.Next; err != nil || cursor == "" {
			return items, err
		}
	}
}

// TestFetcher_RepeatsPassesOfYOURLS until all links were seen, at most three times. Each link is
// returned once and without the address of its creator.
func TestFetcher_RepeatsPassesOfYOURLS(t *testing.T) {
	t.Parallel()
	page := func(total int, codes ...string) string {
		var links []string
		for i, code := range codes {
			links = append(links, fmt.Sprintf(`"link_%d":{"shorturl":"https:\/\/s.example\/%s",`+
				`"url":"https://example.com/?<&>","ip":"192.0.2.1"}`, i+1, code))
		}
		return fmt.Sprintf(`{"links":{%s},"stats":{"total_links":"%d"}}`, strings.Join(links, ","), total)
	}
	for name, c := range map[string]struct {
		responses map[string][]string
		codes     []string
		requests  int
	}{
		"one pass": {map[string][]string{"0": {page(3, "c", "b")}, "2": {page(3, "a")}}, []string{"c", "b", "a"},
			2},
		"shifted pages": {map[string][]string{"0": {page(3, "c", "b"), page(4, "d", "c")}, "2": {page(4, "b", "a")}},
			[]string{"c", "b", "a", "d"}, 4},
		"deleted link": {map[string][]string{"0": {page(3, "c", "b"), page(2, "b", "a")}, "2": {page(3)}},
			[]string{"c", "b", "a"}, 3},
		"missing always": {map[string][]string{"0": {page(3, "c", "b")}, "2": {page(3)}}, []string{"c", "b"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &server{responses: map[string][]string{}}
			for start, responses := range c.responses {
				server.responses[yourls+start] = responses
			}
			s := settings(importsource.YOURLS)
			items := fetchAll(t, s, server.fetch)
			s.Fetched = true
			var codes []string
			for _, row := range read(t, s, bytes.Join(items, []byte("\n"))) {
				codes = append(codes, row.Code)
			}
			if diff := cmp.Diff(c.codes, codes); diff != "" || len(server.requests) != c.requests {
				t.Errorf("%d requests, codes (-want +got):\n%s", len(server.requests), diff)
			}
			if bytes.Contains(bytes.Join(items, nil), []byte("192.0.2.1")) {
				t.Error("the items have addresses")
			}
		})
	}
}

// FuzzFetcher answers all requests with the same body: the items of any response can be read as a
// file.
func FuzzFetcher(f *testing.F) {
	sources := []importsource.Source{importsource.Bitly, importsource.Dub, importsource.Kutt, importsource.Rebrandly,
		importsource.Shlink,
		importsource.ShortIO, importsource.Sink, importsource.YOURLS}
	for i := range sources {
		f.Add(uint8(i),
			`{"groups":[{"guid":"g"}],"links":[{"id":"a"}],"data":[{"id":1}],"total":3,`+
				`"shortUrls":{"data":[{"shortCode":"a",`+
				`"hasRedirectRules":true}],"pagination":{"pagesCount":2}},"redirectRules":[],"version":"1.0",`+
				`"cursor":"c","total_clicks":3}`)
		f.Add(uint8(i), `[{"id":1,"hostname":"a.b","idString":"x"},[],7]`)
	}
	f.Fuzz(func(t *testing.T, source uint8, body string) {
		const mostPages = 5
		s := settings(sources[int(source)%len(sources)])
		fetcher := must.Value(
			importsource.NewFetcher(s, func(context.Context, importsource.Request) (importsource.Response, error) {
				return importsource.Response{Status: 200, Body: []byte(body)}, nil
			}))(t)
		file := bytes.Buffer{}
		for i, cursor := 0, ""; i == 0 || cursor != "" && i < mostPages; i++ {
			page, err := fetcher.Next(t.Context(), cursor)
			if err != nil {
				if !errs.Is(err, errs.InvalidInput) || strings.Contains(err.Error(), s.Token) &&
					!strings.Contains(body, s.Token) {
					t.Fatalf("the error is %v", err)
				}
				break
			}
			for _, item := range page.Items {
				if bytes.ContainsAny(item, "\n") {
					t.Fatalf("the item %q is more than a line", item)
				}
				file.Write(append(item, '\n'))
			}
			cursor = page.Next
		}
		s.Fetched = true
		for _, row := range read(t, s, file.Bytes()) {
			checkRow(t, row)
		}
	})
}
