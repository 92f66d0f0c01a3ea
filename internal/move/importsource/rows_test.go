package importsource_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// summaries returns one line for each row: its id, and its error or code; then the error that ends
// the file.
func summaries(source importsource.Source, file string) (lines []string) {
	for row, err := range importsource.Rows(&importsource.Settings{Source: source, Now: now}, strings.NewReader(file)) {
		switch {
		case err != nil:
			lines = append(lines, "end: "+errs.From(err).Kind.Code())
		case row.Err != nil:
			lines = append(lines, row.SourceID+" "+row.Err.Kind.Code())
		default:
			lines = append(lines, row.SourceID+" "+row.Code)
		}
	}
	return lines
}

func TestRows_SurviveMalformedFiles(t *testing.T) {
	t.Parallel()
	const a, b = `{"id":"a","address":"a","target":"https://example.com/"}`, `{"id":"b","address":"b",` +
		`"target":"https://example.com/"}`
	long := `{"id":"` + strings.Repeat("x", importsource.MaxItem) + `"}`
	for name, c := range map[string]struct {
		source importsource.Source
		file   string
		want   []string
	}{
		"array":           {importsource.Kutt, `[` + a + `,` + b + `]`, []string{"a a", "b b"}},
		"object":          {importsource.Kutt, `{"total":2,"data":[` + a + ` , ` + b + "]}\n", []string{"a a", "b b"}},
		"byte order mark": {importsource.Kutt, "\ufeff[" + a + "]", []string{"a a"}},
		"malformed item":  {importsource.Kutt, `[{"id":"x",},` + b + `]`, []string{"line:1 INVALID_INPUT", "b b"}},
		"items that are no object": {importsource.Kutt, `[1,null,"x",[],` + b + `]`,
			[]string{"line:1 INVALID_INPUT", "line:2 INVALID_INPUT", "line:3 INVALID_INPUT", "line:4 INVALID_INPUT",
				"b b"}},
		"control characters": {importsource.Kutt,
			"[{\"id\":\"a\",\"address\":\"a\",\"description\":\"one\ntwo\tthree\"," +
				"\"target\":\"https://example.com/\"}]", []string{"a a"}},
		"invalid UTF-8": {importsource.Kutt, "[{\"id\":\"a\xff\"}," + b + "]", []string{"line:1 INVALID_INPUT", "b b"}},
		"lone surrogate": {importsource.Kutt, `[{"id":"a\ud800"},` + b + `]`,
			[]string{"line:1 INVALID_INPUT", "b b"}},
		"long item": {importsource.Kutt, `[` + long + `,` + b + `]`, []string{"line:1 INVALID_INPUT", "b b"}},
		"id of control characters": {importsource.Kutt, `[{"id":"a\u0000","target":"https://example.com/"},` + b + `]`,
			[]string{"line:1 INVALID_INPUT", "b b"}},
		"id too long": {importsource.Kutt, `[{"id":"` + strings.Repeat("x", 2000) +
			`","target":"https://example.com/"}]`, []string{"line:1 INVALID_INPUT"}},
		"end inside of a text":   {importsource.Kutt, `[` + a + `,{"id":"b`, []string{"a a", "end: INVALID_INPUT"}},
		"end inside of an array": {importsource.Kutt, `[` + a, []string{"a a", "end: INVALID_INPUT"}},
		"comma at the end":       {importsource.Kutt, `[` + a + `,]`, []string{"a a", "end: INVALID_INPUT"}},
		"missing comma":          {importsource.Kutt, `[` + a + b + `]`, []string{"a a", "end: INVALID_INPUT"}},
		"more after the end":     {importsource.Kutt, `[` + a + `] x`, []string{"a a", "end: INVALID_INPUT"}},
		"empty file":             {importsource.Kutt, ``, []string{"end: INVALID_INPUT"}},
		"empty array":            {importsource.Kutt, `[]`, nil},
		"no list":                {importsource.Kutt, `{"error":"denied"}`, []string{"end: INVALID_INPUT"}},
		"list of another kind":   {importsource.Kutt, `{"data":"x"}`, []string{"end: INVALID_INPUT"}},
		"no JSON":                {importsource.Kutt, `id,address`, []string{"end: INVALID_INPUT"}},
		"unknown source":         {"X", `[]`, []string{"end: INVALID_INPUT"}},

		"Sink pages": {importsource.Sink,
			`[{"version":"1.0","links":[{"id":"a","url":"https://example.com/"}]},{"links":[],"version":"1.0"}]`,
			[]string{"a "}},
		"Sink of version 2":  {importsource.Sink, `{"version":"2.0","links":[]}`, []string{"end: INVALID_INPUT"}},
		"Sink of no version": {importsource.Sink, `{"links":[]}`, []string{"end: INVALID_INPUT"}},

		"lines": {importsource.JSONLines,
			"{\"id\":\"a\",\"url\":\"https://example.com/\"}\r\n\r\n{\"ID\":7,\"Long URL\":\"https://example.com/\"}",
			[]string{"a ", "7 "}},
		"line numbers": {importsource.JSONLines, "\n[]\n{\"id\":\"a\"",
			[]string{"line:2 INVALID_INPUT", "line:3 INVALID_INPUT"}},
		"long line": {importsource.JSONLines, long + "\n" + `{"id":"a","url":"https://example.com/"}`,
			[]string{"line:1 INVALID_INPUT", "a "}},
		"no lines": {importsource.JSONLines, "", nil},
		"code of a URL": {importsource.JSONLines, `{"url":"https://example.com/","code":42}`,
			[]string{"url:0f115db062b7c0dd030b16878c99dea5 INVALID_INPUT"}},

		"an empty first cell and tabs": {importsource.CSV, "\n\tURL\tCode\n1\thttps://example.com/\ta",
			[]string{"/a a"}},
		"tabs and CRLF": {importsource.CSV,
			"URL\tCode\r\nhttps://example.com/\ta\r\n\r\nhttps://example.com/\tb", []string{"/a a", "/b b"}},
		"quotation marks": {importsource.CSV,
			"\"url\",\"code\"\n\"https://example.com/\",\"a,b\"\n\"https://example.com/\",\"say \"\"x\"\"\"",
			[]string{"/a,b a,b", `/say "x" say "x"`}},
		"bare quotation mark": {importsource.CSV,
			"url,code\nhttps://example.com/,a\"b\nhttps://example.com/,c", []string{"line:1 INVALID_INPUT", "/c c"}},
		"short record": {importsource.CSV, "code,url\na\nb,https://example.com/,,",
			[]string{"/a INVALID_URL", "/b b"}},
		"long record": {importsource.CSV, "code,url\na,https://example.com/,x",
			[]string{"line:1 INVALID_INPUT"}},
		"Latin-1": {importsource.CSV,
			"code,url,title\na,https://example.com/,\xfc\nb,https://example.com/,u",
			[]string{"line:1 INVALID_INPUT", "/b b"}},
		"open quotation mark": {importsource.CSV, "code,url\na,\"" +
			strings.Repeat("x", 2*importsource.MaxItem), []string{"end: INVALID_INPUT"}},
		"cells without text": {importsource.CSV, "code,url\n,\na,https://example.com/\n , \n,,",
			[]string{"/a a"}},
		"lines that end with CR": {importsource.CSV, "url,code\rhttps://example.com/,a\r",
			[]string{"end: INVALID_INPUT"}},
		"quotation marks and CR": {importsource.CSV, "\"code\",\"u\rrl\",\"url\"\r\na,,https://example.com/",
			[]string{"/a a"}},
		"no column of a URL": {importsource.CSV, "a,b\n1,2", []string{"end: INVALID_INPUT"}},
		"many columns": {importsource.CSV, "url" + strings.Repeat(",", 1000) + "\n",
			[]string{"end: INVALID_INPUT"}},
		"UTF-16": {importsource.CSV, "\xff\xfeu\x00r\x00l\x00", []string{"end: INVALID_INPUT"}},
		"short URL": {importsource.CSV,
			"url,short url\nhttps://example.com/,go.example.com/a%20b?x\n" +
				"https://example.com/,https://go.example.com/\nhttps://example.com/," +
				"ftp://a/b", []string{"go.example.com/a b a b", "url:0f115db062b7c0dd030b16878c99dea5 INVALID_INPUT",
				"url:0f115db062b7c0dd030b16878c99dea5 INVALID_INPUT"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, summaries(c.source, c.file)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// one returns the row of an item.
func one(t *testing.T, source importsource.Source, item string) *importsource.Row {
	t.Helper()
	s := &importsource.Settings{Source: source, Label: "go.example.com", Fetched: true, Now: now}
	file := []byte(item)
	if source == importsource.Linkforge {
		file = archive(t, map[string]string{"links/00001.jsonl": item})
	}
	rows := read(t, s, file)
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	return rows[0]
}

func reasons(row *importsource.Row) (list []string) {
	for _, l := range row.Losses {
		list = append(list, l.Field+" "+string(l.Reason))
	}
	return list
}

// TestRows_ReportValuesOfOtherTypes: a value of the wrong type costs only its field.
func TestRows_ReportValuesOfOtherTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source importsource.Source
		item   string
		want   []string
	}{
		{importsource.Bitly,
			`{"id":"a.b/c","long_url":"https://example.com/","title":[1],"tags":{"a":1},"created_at":"x",` +
				`"archived":"maybe"}`,
			[]string{"title INVALID", "tags INVALID", "archived INVALID", "created_at INVALID"}},
		{importsource.Bitly,
			`{"id":"a.b/c","long_url":"https://example.com/","tags":["a",1],"new":{"x":1},"old":[],"z":0,` +
				`"total_clicks":-1}`,
			[]string{"tags INVALID", "total_clicks INVALID", "new UNSUPPORTED"}},
		{importsource.Dub,
			`{"id":"a","url":"https://example.com/","geo":"DE","tags":[{"id":1}],"folderId":"f","expiresAt":1e400,` +
				`"clicks":1.5,"testVariants":[{"url":1}],"expiredUrl":"ftp://x/"}`,
			[]string{"tags INVALID", "folderId UNSUPPORTED", "expiresAt INVALID", "expiredUrl INVALID", "geo INVALID",
				"testVariants INVALID", "clicks INVALID"}},
		{importsource.Dub,
			`{"id":"a","url":"https://example.com/","geo":{"DE":1,"XX":"https://example.com/",` +
				`"":"https://example.com/"},"ios":"mailto:a@example.com","externalId":"","tenantId":7}`,
			[]string{"tenantId INVALID", "ios INVALID", "geo INVALID"}},
		{importsource.Shlink,
			`{"shortCode":"a","shortUrl":"https://s.example/a","longUrl":"https://example.com/",` +
				`"meta":{"validSince":"x","maxVisits":null,"other":1},"visitsSummary":3,"redirectRules":{"a":1}}`,
			[]string{"validSince INVALID", "meta.other UNSUPPORTED", "visitsSummary INVALID", "redirectRules INVALID"}},
		{importsource.ShortIO,
			`{"idString":"a","path":"a","originalURL":"https://example.com/","splitURL":"https://example.com/b",` +
				`"splitPercent":101,"redirectType":"303","ttl":5,"countries":[{"country":"DE"}],"utmSource":{"a":1}}`,
			[]string{"redirectType INVALID", "ttl UNSUPPORTED", "countries INVALID", "splitURL INVALID",
				"utmSource INVALID"}},
		{importsource.ShortIO, `{"idString":"a","path":"a","originalURL":"https://example.com/","ttl":"86400000"}`,
			[]string{"ttl UNSUPPORTED"}},
		{importsource.Sink,
			`{"id":"a","slug":"a","url":"https://example.com/","description":"x","image":"y","expiration":-5,` +
				`"createdAt":99999999999999999999}`,
			[]string{"expiration INVALID", "createdAt INVALID", "description UNSUPPORTED", "image UNSUPPORTED"}},
		{importsource.JSONLines,
			`{"url":"https://example.com/","domain":"a b","code":"c","shorturl":"x://y","clicks":true,` +
				`"Comment":"a","comments":"b"}`,
			[]string{"domain INVALID", "shorturl INVALID", "comments UNSUPPORTED", "clicks INVALID"}},
	} {
		row := one(t, c.source, c.item)
		if row.Err != nil {
			t.Errorf("%s fails: %v", c.item, row.Err)
		}
		if row.Routing.To != nil && len(row.Routing.To.Rules.To) > 0 {
			t.Errorf("%s has rules", c.item)
		}
		if diff := cmp.Diff(c.want, reasons(row)); diff != "" {
			t.Errorf("losses of %s (-want +got):\n%s", c.item, diff)
		}
	}
}

// TestRows_ProtectionFailsClosed: no link that a source protects is reachable without protection.
func TestRows_ProtectionFailsClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source importsource.Source
		item   string
	}{
		{importsource.Dub, `"id":"a","url":"https://example.com/","password":"short"`},
		{importsource.Dub, `"id":"a","url":"https://example.com/","password":["long enough"]`},
		{importsource.Dub, `"id":"a","url":"https://example.com/","disabledAt":true`},
		{importsource.Kutt, `"id":"a","target":"https://example.com/","password":true`},
		{importsource.Kutt, `"id":"a","target":"https://example.com/","password":"hash"`},
		{importsource.Kutt, `"id":"a","target":"https://example.com/","banned":"yes"`},
		{importsource.Rebrandly, `"id":"a","destination":"https://example.com/","status":"trashed"`},
		{importsource.Rebrandly, `"id":"a","destination":"https://example.com/","status":["active"]`},
		{importsource.Shlink, `"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":0}`},
		{importsource.Shlink, `"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":"many"}`},
		{importsource.Shlink,
			`"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":5},"visitsSummary":{"total":5}`},
		{importsource.ShortIO, `"idString":"a","path":"a","originalURL":"https://example.com/","hasPassword":1`},
		{importsource.ShortIO, `"idString":"a","path":"a","originalURL":"https://example.com/","password":"x"`},
		{importsource.ShortIO, `"idString":"a","path":"a","originalURL":"https://example.com/","clicksLimit":-1`},
		{importsource.Sink, `"id":"a","slug":"a","url":"https://example.com/","password":"hash"`},
		{importsource.JSONLines, `"url":"https://example.com/","maxClicks":"1e3"`},
		{importsource.JSONLines, `"url":"https://example.com/","Max visits":10,"Clicks":12`},
		{importsource.JSONLines, `"url":"https://example.com/","clicks left":0`},
	} {
		row := one(t, c.source, "{"+c.item+"}")
		if row.Err != nil || !row.Deleted || len(row.Losses) == 0 || row.MaxClicks.To != nil {
			t.Errorf("%s: deleted %v, losses %v, error %v", c.item, row.Deleted, row.Losses, row.Err)
		}
		for _, l := range row.Losses {
			if strings.Contains(l.Field, "password") && l.Value != "" {
				t.Errorf("%s: the loss has the secret %s", c.item, l.Value)
			}
		}
	}
	if gate := one(t, importsource.Sink, `{"id":"a","slug":"a","url":"https://example.com/","unsafe":1}`).
		Routing.To.Gate.To; gate == nil ||
		gate.Confirm.To == nil || !*gate.Confirm.To || !gate.Password.Set {
		t.Errorf("the gate of an unsafe link is %+v", gate)
	}
	if p := one(t, importsource.Dub, `{"id":"a","url":"https://example.com/","password":"long enough"}`).
		Routing.To.NewPassword(); p == nil ||
		p.Text != "long enough" {
		t.Errorf("the password is %+v", p)
	}
}

// TestRows_ProtectFilesOfOnesOwn: a column of passwords or blocks keeps its links from redirecting,
// and its values out of reports.
func TestRows_ProtectFilesOfOnesOwn(t *testing.T) {
	t.Parallel()
	file := "url,code,Passwd,enabled,Disabled\nhttps://example.com/,a,hunter22,,\nhttps://example.com/,b,,false,\n" +
		"https://example.com/,c,,,yes\nhttps://example.com/,d,,true,no\nhttps://example.com/,e,0,,false\n"
	var got []string
	for row, err := range importsource.Rows(&importsource.Settings{Source: importsource.CSV, Now: now},
		strings.NewReader(file)) {
		got = append(got, fmt.Sprint(row.Code, " ", row.Deleted, " ", row.Losses, " ", err))
		if strings.Contains(fmt.Sprint(row.Losses), "hunter22") {
			t.Errorf("a report has the password: %v", row.Losses)
		}
	}
	want := []string{"a true [{Passwd UNSUPPORTED  }] <nil>", `b true [{enabled UNSUPPORTED "false" }] <nil>`,
		`c true [{Disabled UNSUPPORTED "yes" }] <nil>`, "d false [] <nil>", "e false [] <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestRows_MapLimits maps limits of clicks without totals, and limits in a user's own file.
func TestRows_MapLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source importsource.Source
		item   string
		want   int64
		losses []string
	}{
		{importsource.Shlink, `{"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":5}}`, 5,
			[]string{"maxVisits APPROXIMATED"}},
		{importsource.Shlink,
			`{"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":5},"visitsSummary":{"total":2}}`, 3,
			nil},
		{importsource.JSONLines, `{"url":"https://example.com/","maxClicks":5}`, 5, nil},
		{importsource.JSONLines, `{"url":"https://example.com/","maxClicks":5,"clicks":2}`, 3, nil},
		{importsource.JSONLines, `{"url":"https://example.com/","clicks_left":5,"clicks":7}`, 5, nil},
		{importsource.JSONLines, `{"url":"https://a.b/","max_visits":9,"remaining_clicks":5,"visits":6}`, 3, nil},
	} {
		row := one(t, c.source, c.item)
		if got := optional.Value(row.MaxClicks.To); got != c.want || row.Deleted || !cmp.Equal(reasons(row), c.losses) {
			t.Errorf("%s: %d clicks, losses %v, want %d, %v", c.item, got, row.Losses, c.want, c.losses)
		}
	}
}

// TestRows_MapCountries to one rule for each URL, in the order of the countries, and at most 50
// rules after those of systems.
func TestRows_MapCountries(t *testing.T) {
	t.Parallel()
	row := one(t, importsource.Dub, `{"id":"a","url":"https://example.com/","geo":{"fr":"https://example.com/eu",`+
		`"DE":"https://example.com/eu","AT":"https://example.com/at"},"android":"https://example.com/android"}`)
	var got []string
	for _, rule := range row.Routing.To.Rules.To {
		got = append(got, fmt.Sprintf("%v %v %s", rule.When[0].OS, rule.When[0].Country, *rule.Targets[0].URL))
	}
	want := []string{"[Android] [] https://example.com/android", "[] [AT] https://example.com/at",
		"[] [DE FR] https://example.com/eu"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var all []string
	for _, country := range strings.Fields("AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI " +
		"BJ BL BM BN BO BQ " +
		"BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW") {
		all = append(all, fmt.Sprintf(`"%s":"https://example.com/%s"`, country, country))
	}
	row = one(t, importsource.Dub, `{"id":"a","url":"https://example.com/","geo":{`+strings.Join(all, ",")+`}}`)
	if n := len(row.Routing.To.Rules.To); n != 50 || !cmp.Equal(reasons(row), []string{"geo TRUNCATED"}) {
		t.Errorf("%d rules, losses %v", n, reasons(row))
	}
	long := strings.Repeat("x", 4000)
	for i, country := range strings.Fields("AD AE AF AG AI AL AM AO") {
		all[i] = fmt.Sprintf(`"%s":"https://example.com/%s%s"`, country, country, long)
	}
	row = one(t, importsource.Dub, `{"id":"a","url":"https://example.com/","geo":{`+strings.Join(all[:8], ",")+`}}`)
	if n := len(row.Routing.To.Rules.To); n == 0 || n == 8 || !cmp.Equal(reasons(row), []string{"geo TRUNCATED"}) {
		t.Errorf("%d long rules, losses %v", n, reasons(row))
	}
}

// TestRows_MapConditions of Shlink. A rule with another condition is dropped as a whole.
func TestRows_MapConditions(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]*routing.Condition{
		`{"type":"device","matchValue":"chromeos"}`:             {OS: []string{"ChromeOS"}},
		`{"type":"device","matchValue":"mobile"}`:               {Device: []string{"mobile"}},
		`{"type":"device","matchValue":"watch"}`:                nil,
		`{"type":"browser","matchValue":"safari"}`:              {Browser: []string{"Safari"}},
		`{"type":"browser","matchValue":"android_browser"}`:     nil,
		`{"type":"ip-address","matchValue":"1.2.3.4"}`:          {Network: []string{"1.2.3.4"}},
		`{"type":"ip-address","matchValue":"1.*.*.*"}`:          {Network: []string{"1.0.0.0/8"}},
		`{"type":"ip-address","matchValue":"1.*.3.*"}`:          nil,
		`{"type":"ip-address","matchValue":"1.2.3*"}`:           nil,
		`{"type":"ip-address","matchValue":"1.2.3.4.*"}`:        nil,
		`{"type":"ip-address","matchValue":""}`:                 nil,
		`{"type":"geolocation-country-code","matchValue":"de"}`: {Country: []string{"DE"}},
		`{"type":"geolocation-country-code","matchValue":null}`: nil,
		`{"type":"before-date","matchValue":"soon"}`:            nil,
		`{"type":"valueless-query-param","matchKey":"a"}`: {
			Query: &routing.QueryCondition{Name: "a", Value: new("")}},
		`{"type":"any-value-query-param","matchKey":"a"}`: {
			Query: &routing.QueryCondition{Name: "a"}},
		`{"type":"moon-phase","matchValue":"full"}`:                             nil,
		`{"type":"device","matchValue":"ios"},{"type":"geolocation-city-name"}`: nil,
		`7`: nil,
	} {
		row := one(t, importsource.Shlink,
			`{"shortCode":"a","longUrl":"https://example.com/","redirectRules":[{"priority":1,"longUrl":`+
				`"https://example.com/b","conditions":[`+condition+`]}]}`)
		rules := row.Routing.To.Rules.To
		switch {
		case want == nil && (len(rules) > 0 || !cmp.Equal(reasons(row), []string{"redirectRules UNSUPPORTED"})):
			t.Errorf("%s: %d rules, losses %v", condition, len(rules), reasons(row))
		case want != nil && (len(rules) != 1 || !cmp.Equal(rules[0].When, []*routing.Condition{want})):
			t.Errorf("%s: %v, losses %v", condition, rules, reasons(row))
		}
	}
}

// TestRows_BoundRules: the work of an item does not grow with the square of its rules.
func TestRows_BoundRules(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	const rule = `{"priority":1,"longUrl":"https://example.com/b","conditions":[{"type":"language","matchValue":"de"}]}`
	item := `{"shortCode":"a","longUrl":"https://example.com/","redirectRules":[` + strings.Repeat(rule+",", 1999) +
		rule + `]}`
	var row *importsource.Row
	if n := testing.AllocsPerRun(1, func() { row = one(t, importsource.Shlink, item) }); n > 500_000 {
		t.Errorf("the row takes %.0f allocations", n)
	}
	want := []string{"redirectRules.language APPROXIMATED", "redirectRules TRUNCATED"}
	if diff := cmp.Diff(want, reasons(row)); diff != "" || len(row.Routing.To.Rules.To) != 50 {
		t.Errorf("%d rules, losses (-want +got):\n%s", len(row.Routing.To.Rules.To), diff)
	}
}

// TestRows_ReadShortURLs of a source: of another text, the short URL follows from the host and the code.
func TestRows_ReadShortURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://go.example.com:8080/k":                        "http://go.example.com:8080/k",
		"Go.example.com/k":                                    "https://Go.example.com/k",
		"ftp://go.example.com/k":                              "https://a.example/k%20k",
		`https://go.example.com/k\u0000`:                      "https://a.example/k%20k",
		"https://user@go.example.com/k":                       "https://a.example/k%20k",
		"https://go.example.com/" + strings.Repeat("k", 9000): "https://a.example/k%20k",
	} {
		row := one(t, importsource.Kutt,
			`{"id":"a","address":"k k","domain":"A.example","target":"https://example.com/","link":"`+text+`"}`)
		if row.SourceURL != want || row.Host != "a.example" || row.Code != "k k" {
			t.Errorf("%.80s is %s of %s and %s, want %s", text, row.SourceURL, row.Host, row.Code, want)
		}
	}
}

// TestRows_ListIgnoredFields: columns that the importer does not know are no losses.
func TestRows_ListIgnoredFields(t *testing.T) {
	t.Parallel()
	s := &importsource.Settings{Source: importsource.CSV}
	row := read(t, s, []byte("url,Owner,URL,,Owner\nhttps://example.com/,,b,c,d"))[0]
	if diff := cmp.Diff([]string{"Owner", "URL"}, row.Ignored); diff != "" || row.Losses != nil ||
		row.URL != "https://example.com/" {
		t.Errorf("ignored (-want +got):\n%s, losses %v, URL %s", diff, row.Losses, row.URL)
	}
}

// TestRows_BoundReports of an item with very many properties.
func TestRows_BoundReports(t *testing.T) {
	t.Parallel()
	item := strings.Builder{}
	item.WriteString(`{"url":"https://example.com/"`)
	for i := range 20_000 {
		fmt.Fprintf(&item, `,"p%d\u0000":1`, i)
	}
	row := one(t, importsource.JSONLines, item.String()+"}")
	if len(row.Losses) != 100 || strings.ContainsFunc(row.Losses[0].Field, unicode.IsControl) {
		t.Errorf("%d losses, the first %+v", len(row.Losses), row.Losses[0])
	}
}

// TestRows_CombineFoldersAndDomains that stand before the items, or in lines of their own.
func TestRows_CombineFoldersAndDomains(t *testing.T) {
	t.Parallel()
	const item = `{"id":"a","url":"https://example.com/","folderId":"f"}`
	s := &importsource.Settings{Source: importsource.Dub}
	for file, want := range map[string]string{
		`{"folders":[{"id":"f","name":"News"}],"links":[` + item +
			`]}`: "News",
		`{"links":[` + item +
			`],"folders":[{"id":"f","name":"News"}]}`: "",
		`{"folders":[` + strings.Repeat(`{"id":"a"},`, 10) + `{"id":"f","name":"News"}],"folders":"x","links":[` +
			item + `]}`: "News",
	} {
		if row := read(t, s, []byte(file))[0]; optional.Value(row.Folder) != want || row.Line != 1 {
			t.Errorf("%s: folder %v, line %d", file, row.Folder, row.Line)
		}
	}
	many := make([]string, 0, 11_000)
	for i := range cap(many) {
		many = append(many, fmt.Sprintf(`{"id":"%d","name":"n"}`, i))
	}
	many = append(many, `{"id":"f","name":"News"}`)
	if row := read(t, s, []byte(`{"folders":[`+strings.Join(many, ",")+`],"links":[`+item+`]}`))[0]; row.Folder != nil {
		t.Errorf("the folder after very many is %s", *row.Folder)
	}
	row := one(t, importsource.Dub, "{\"folders\":[{\"id\":\"f\",\"name\":\"News\"}]}\n"+item)
	if optional.Value(row.Folder) != "News" || row.Line != 1 {
		t.Errorf("folder %v, line %d", row.Folder, row.Line)
	}
	if row := one(t, importsource.Sink, `{"id":"a","slug":"a","url":"https://example.com/"}`); !row.FoldsCase ||
		row.Host != "go.example.com" {
		t.Errorf("Sink: host %s, folds case %v", row.Host, row.FoldsCase)
	}
	for isSensitive, folds := range map[string]bool{"true": false, "false": true, "null": false} {
		row := one(t, importsource.ShortIO, `{"domains":[{"id":1,"hostname":"Go.example.com","caseSensitive":`+
			isSensitive+"}]}\n"+
			`{"idString":"a","path":"a","secureShortURL":"https://go.example.com/a",`+
			`"originalURL":"https://example.com/"}`)
		if row.FoldsCase != folds {
			t.Errorf("caseSensitive %s: folds case %v", isSensitive, row.FoldsCase)
		}
	}
}

// TestRows_Stop ends the file at the first row that the caller does not want, and at an error of the reader.
func TestRows_Stop(t *testing.T) {
	t.Parallel()
	const item = `{"id":"a","url":"https://example.com/"}` + "\n"
	s, n := &importsource.Settings{Source: importsource.JSONLines}, 0
	for range importsource.Rows(s, strings.NewReader(item+item)) {
		n++
		break
	}
	broken := errors.New("broken")
	var last error
	for row, err := range importsource.Rows(s, io.MultiReader(strings.NewReader(item), iotest.ErrReader(broken))) {
		if last = err; row != nil {
			n++
		}
	}
	if n != 2 || !errors.Is(last, broken) {
		t.Errorf("%d rows, then %v", n, last)
	}
}

// TestRows_BoundMemory reads a file of many items, and one of one endless item.
func TestRows_BoundMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	const size, most = 24 << 20, 12 << 20
	item := []byte(`{"id":"a","address":"a","target":"https://example.com/","description":"` +
		strings.Repeat("x", 1000) + `"},`)
	for name, file := range map[string]io.Reader{
		"items":     io.MultiReader(strings.NewReader("["), io.LimitReader(&repeat{text: item}, size)),
		"long item": io.MultiReader(strings.NewReader(`[{"id":"`), io.LimitReader(&repeat{text: []byte("x")}, size)),
		"deep item": io.MultiReader(strings.NewReader(`[`), io.LimitReader(&repeat{text: []byte("[")}, size)),
	} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, peak := 0, uint64(0)
		for row := range importsource.Rows(&importsource.Settings{Source: importsource.Kutt}, file) {
			if n++; row != nil && n%5000 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&after)
				peak = max(peak, after.HeapAlloc)
			}
		}
		runtime.ReadMemStats(&after)
		if peak = max(peak, after.HeapAlloc); peak > before.HeapAlloc+most {
			t.Errorf("%s: %d rows hold %d MiB", name, n, (peak-before.HeapAlloc)>>20)
		}
	}
}

// repeat is an endless reader.
type repeat struct {
	text []byte
	at   int
}

func (r *repeat) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(b), nil
}

// FuzzRows checks what holds for the rows of any file: their texts can be stored, and createLink
// accepts the fields.
func FuzzRows(f *testing.F) {
	all := []importsource.Source{importsource.Bitly, importsource.Dub, importsource.Kutt, importsource.Rebrandly,
		importsource.Shlink,
		importsource.ShortIO, importsource.Sink, importsource.YOURLS, importsource.CSV, importsource.JSONLines,
		importsource.Linkforge}
	for i, seed := range []string{
		`{"links":[{"id":"go.example.com/a","long_url":"https://example.com/",` +
			`"custom_bitlinks":["https://bit.ly/b"]}]}`,
		`[{"id":"a","domain":"b.c","key":"k","url":"https://example.com/","geo":{"DE":"https://example.de"},` +
			`"tags":[{"name":"x"}]}]`,
		`{"data":[{"id":"a","address":"k","target":"https://example.com/","visit_count":1e3}]}`,
		`[{"id":"a","slashtag":"k","domain":{"fullName":"x.y"},"destination":"https://example.com/"}]`,
		`{"shortUrls":{"data":[{"shortCode":"a","longUrl":"https://example.com/","meta":{"maxVisits":3},` +
			`"redirectRules":[{"priority":1,` +
			`"longUrl":"https://example.com/","conditions":[{"type":"ip-address","matchValue":"1.*.*.*"}]}]}]}}`,
		`[{"idString":"a","path":"k","originalURL":"https://example.com/","splitURL":"https://example.com/",` +
			`"splitPercent":5}]`,
		`{"version":"1.0","links":[{"id":"a","slug":"k","url":"https://example.com/","title":"t",` +
			`"image":"https://example.com/"}]}`,
		"keyword,url,title,timestamp,ip,clicks\na,https://example.com/,&amp;,2020-01-01 00:00:00,1.2.3.4,3",
		"\ufeffurl;code;tags\nhttps://example.com/;a;\"x|y\"",
		"{\"url\":\"https://example.com/\",\"short_url\":\"a.b/c\",\"maxClicks\":0}\n\n[",
		`{"id":"a","code":"b","url":"https://example.com/","metadata":{"a":"b"},"routing":{"gate":{"notice":"x"},` +
			`"utm":{"source":"a"},` +
			`"rules":[{"when":[{"bot":true}],"targets":[{"url":"https://example.com/b"}]}]},` +
			`"origins":[{"source":"DUB","label":"","sourceId":"x"}]}`,
	} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, source uint8, file string) {
		s := &importsource.Settings{Source: all[int(source)%len(all)], Label: "a.b", Fetched: source > 127, Now: now}
		if s.Source == importsource.Linkforge {
			file = string(archive(t, map[string]string{"links/00001.jsonl": file}))
		}
		for row, err := range importsource.Rows(s, strings.NewReader(file)) {
			if err != nil {
				if kind := errs.From(err).Kind; kind != errs.InvalidInput {
					t.Fatalf("the file ends with %v", err)
				}
				continue
			}
			checkRow(t, row)
		}
	})
}

func checkRow(t *testing.T, row *importsource.Row) {
	t.Helper()
	storable := []string{row.SourceID, row.Host, row.Code, row.SourceURL}
	for _, l := range row.Losses {
		storable = append(storable, l.Field, l.Value)
	}
	for _, text := range append(storable, row.Ignored...) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("%q is no text", text)
		}
	}
	if row.SourceID == "" || len(row.SourceID) > 1000 || len(row.Losses) > 100 || len(row.Ignored) > 100 {
		t.Errorf("the row has the id %q, %d losses, %d ignored", row.SourceID, len(row.Losses), len(row.Ignored))
	}
	if row.Err != nil || row.Skipped {
		if row.Routing.Set || row.URL != "" || row.Err != nil && row.Skipped || row.Err != nil && row.Losses != nil {
			t.Errorf("a row that is not imported is %+v", row)
		}
		return
	}
	_, urlErr := urlnorm.Canonical(row.URL)
	_, titleErr := linkfield.CheckTitle(row.Title.To)
	_, noteErr := linkfield.CheckNote(row.Note.To)
	_, tagsErr := linkfield.CheckTags(row.Tags.To)
	_, metadataErr := linkfield.NewMetadata(row.Metadata.To)
	_, routingErr := check.Apply(row.Routing.To, nil)
	if err := errors.Join(urlErr, titleErr, noteErr, tagsErr, metadataErr, routingErr); err != nil {
		t.Errorf("createLink refuses the row: %v", err)
	}
	if row.MaxClicks.To != nil && (*row.MaxClicks.To < 1 || row.Deleted && len(row.Losses) == 0) {
		t.Errorf("the limit is %d", *row.MaxClicks.To)
	}
}
