package importsource_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// TestRows_ReadTimes in all spellings that have one reading. Any other one closes the link, as a
// start and as an end, and its loss has the value and the form.
func TestRows_ReadTimes(t *testing.T) {
	t.Parallel()
	want := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	read := func(text string) (*importsource.Row, *importsource.Row) {
		return one(t, importsource.JSONLines, `{"url":"https://a.b/","expiresAt":`+text+`}`),
			one(t, importsource.JSONLines, `{"url":"https://a.b/","startsAt":`+text+`}`)
	}
	for _, text := range []string{`"2031-01-01T01:00:00+01:00"`, `"2031-01-01T00:00:00+0000"`, `"2031-01-01"`,
		`1924992000`, `1924992000000`, `"1924992000"`, `1.924992e9`, `" 2031-01-01T00:00:00.000Z "`,
		`"2031-01-01 00:00:00"`, `"2031-01-01T00:00"`, `"2031-01-01 00:00"`, `"2031-1-1 0:00"`, `"2031/01/01"`,
		`"2031-01-01 00:00:00+00"`, `"2031-01-01 02:00:00.000000+02"`, `"2031-01-01T00:00:00Z"`,
		`"2031-01-01t00:00:00z"`, `"2031-01-01 00:00:00.000 UTC"`, `"2031-01-01 00:00:00 +0000 UTC"`,
		`"2030-12-31 19:00:00 -05:00"`, `"2031-01-01T00:00:00,000"`, `"\u00a02031-01-01\u00a0"`, `"20310101"`,
		`20310101`, `"20310101T000000Z"`, `20310101000000`, `"1924992000.0"`, `1924992000.25`,
		`{"$date":"2031-01-01T00:00:00Z"}`, `{"$date":{"$numberLong":"1924992000000"}}`} {
		end, start := read(text)
		if end.ExpiresAt.To == nil || !end.ExpiresAt.To.Equal(want) || start.StartsAt.To == nil ||
			!start.StartsAt.To.Equal(want) || end.Deleted || start.Deleted {
			t.Errorf("%s is %v and %v", text, end.ExpiresAt.To, start.StartsAt.To)
		}
	}
	for _, text := range []string{`0`, `0.0`, `"0"`, `" 0 "`, `""`, `null`, `false`, `"NULL"`, `"\\N"`, `"None"`,
		`"-"`} {
		end, start := read(text)
		for _, row := range []*importsource.Row{end, start} {
			if row.ExpiresAt.To != nil || row.StartsAt.To != nil || row.Deleted || len(row.Losses) > 0 {
				t.Errorf("%s is %v and %v, losses %v", text, row.ExpiresAt.To, row.StartsAt.To, row.Losses)
			}
		}
	}
	for _, text := range []string{`"tomorrow"`, `true`, `[1]`, `-1`, `-9223372036854775807`, `9223372036854775807`,
		`1e99`, `"2031-13-01"`, `"2031-02-30"`, `"1.5e9"`, `46023`, `"46023"`, // the last are days of a spreadsheet
		`"31.12.2026"`, `"01.12.2027"`, `"12/31/2026"`, `"31/12/2026"`, `"Dec 31, 2026"`, `"31. Dezember 2026"`,
		`"2026-12-31 10:00:00 CET"`, `"2026-12-31 10:00 PM"`, `"2026-12-31T25:00:00Z"`, `"2026-12"`, `"2026-12/31"`,
		`"30 days"`, `3600`, `"3600"`, `{"$date":"soon","x":1}`, `"1924992000000000"`, `"2031-01-01+99"`} {
		end, start := read(text)
		for _, row := range []*importsource.Row{end, start} {
			if row.ExpiresAt.To != nil || row.StartsAt.To != nil || !row.Deleted || len(row.Losses) != 1 {
				t.Errorf("%s is %v and %v, deleted %v, losses %v", text, row.ExpiresAt.To, row.StartsAt.To, row.Deleted,
					row.Losses)
				continue
			}
			if l := row.Losses[0]; l.Reason != importsource.Invalid || l.Value != text ||
				!strings.HasPrefix(l.Form, "2026-12-31T23:59:59Z") {
				t.Errorf("the loss of %s is %+v", text, l)
			}
		}
	}
	// as databases and programs write no time in a column that must have a value
	for _, text := range []string{`"0000-00-00"`, `"0000-00-00 00:00:00"`, `"0001-01-01T00:00:00Z"`} {
		end, start := read(text)
		if end.Deleted || end.ExpiresAt.To != nil || start.Deleted || start.StartsAt.To != nil ||
			!cmp.Equal(reasons(end), []string{"expiresAt INVALID"}) {
			t.Errorf("%s is %v and %v, losses %v", text, end.ExpiresAt.To, start.StartsAt.To, end.Losses)
		}
	}
}

// TestRows_UnreadableTimesClose the links of each source.
func TestRows_UnreadableTimesClose(t *testing.T) {
	t.Parallel()
	for source, item := range map[importsource.Source]string{
		importsource.Bitly:     `"id":"a.b/c","long_url":"https://a.b/","expiration_at":"31.12.2026"`,
		importsource.Dub:       `"id":"a","url":"https://a.b/","expiresAt":"31.12.2026"`,
		importsource.Kutt:      `"id":"a","target":"https://a.b/","expire_in":"2 days"`,
		importsource.Linkforge: `"id":"a","url":"https://a.b/","startsAt":"01.12.2027"`,
		importsource.Rebrandly: `"id":"a","destination":"https://a.b/","expiresAt":"soon"`,
		importsource.Shlink:    `"shortCode":"a","longUrl":"https://a.b/","meta":{"validSince":"01.12.2027"}`,
		importsource.ShortIO:   `"idString":"a","path":"a","originalURL":"https://a.b/","ttl":86400000`,
		importsource.Sink:      `"id":"a","slug":"a","url":"https://a.b/","expiration":-5`,
		importsource.YOURLS:    `"keyword":"a","url":"https://a.b/","expiry":"31.12.2026"`,
		importsource.JSONLines: `"url":"https://a.b/","starts":"01.12.2027"`,
	} {
		if row := one(t, source, "{"+item+"}"); !row.Deleted || len(row.Losses) != 1 || row.Losses[0].Form == "" {
			t.Errorf("%s: deleted %v, losses %v, error %v", source, row.Deleted, row.Losses, row.Err)
		}
	}
}

// TestRows_KnowUsualNames: what closes or limits a link does so by each of its usual names, in a
// file of one's own as in the items of another source. No link is closed without a loss.
func TestRows_KnowUsualNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, names, values string }{
		{"closed", "status state link_status linkState visibility",
			`"disabled","Inactive","BANNED","deleted","suspended","draft","paused","archived","0",false,2,404`},
		{"open", "status state link_status visibility",
			`"active","Enabled"," published ","public",1,"1",true,"NULL","aktiv"`},
		{"closed", "is_active enabled active isEnabled published is_published live isPublic approved link_active",
			`0,false,"0","false","f","N","no","off","0.0","b'0'","\u0000","falsch","faux","maybe",2`},
		{"closed", "banned_until suspendedUntil", `"2031-02-03",true,"soon"`},
		{"open", "banned_until suspendedUntil", `"2021-02-03","NULL",false`},
		{"open", "is_active enabled active published isPublic publish enable active_status",
			`1,true,"1","true","T","Y","yes","on","1.0","b'1'","\u0001","wahr","NULL","active"`},
		{"closed", "is_banned banned isBlocked disabled is_disabled deleted is_deleted deletedAt deleted_at hidden " +
			"suspended suspendedAt is_draft paused pausedAt inactive expired isExpired trashed removed_at private " +
			"revokedAt disabled_reason banned_by_id unsafe one_time login_required flagged ban_status disabled_since",
			`1,true,"1","t","Y","yes","on","b'1'","\u0001","true","ja"`},
		{"closed", "deletedAt disabled_at banned_at suspended_on disabled is_blocked",
			`"2024-01-01 00:00:00","2024-01-01T00:00:00Z",1700000000,"01.02.2024","maybe"`},
		{"open", "is_banned disabled deletedAt deleted_at inactive expired draft private disabled_reason one_time",
			`0,false,null,"","0","f","N","no","off","NULL","\\N","None","b'0'","\u0000","0000-00-00 00:00:00"`},
		{"closed", "password passwd pwd pass has_password hasPassword is_password_protected passwordProtected " +
			"password_hash link_password passcode pin access_code secret_key protected password_enabled my_password",
			`true,"hunter22",1`},
		{"open", "password passwd has_password isPasswordProtected pin protected",
			`false,0,"0","f","false","NULL",""," ",null`},
		{"ends", "expires expiresAt expire_in expires_in expiry expiryDate expiry_date endDate end_date end endsAt " +
			"end_time valid_until validTo expiration expiration_date expirationDate expiration_at expireDate " +
			"expire_on expiredAt date_expires until valid_till deadline not_after link_expires_at active_until ttl " +
			"deactivate_at disabled_at unpublish_at", `"2031-02-03","2031-02-03 00:00:00",1927843200,"1927843200000"`},
		{"closed", "expires expire_in expiry endDate valid_until validTo expiration_date deadline ttl",
			`"31.12.2031","30 days",30,"soon"`},
		{"open", "expires expire_in expiry endDate valid_until",
			`"never","NULL","\\N",0,"0",""," \u00a0",null,"unlimited","infinity",false,"0000-00-00"`},
		{"starts",
			"starts startsAt start_date startTime valid_from validSince activeFrom publish_at published_at goLiveAt " +
				"scheduled_at activation_date begin not_before activates_at available_from launch_date enabled_at",
			`"2031-02-03","2031-02-03T00:00",1927843200`},
		{"closed", "starts start_date valid_from publish_at published_at scheduled_at", `"03.02.2031","soon"`},
		{"limited", "maxClicks max_visits clicksLimit click_limit visit_limit max_hits usage_limit maxUses limit " +
			"clicks_left remaining_clicks max_views", `7,"7","7.0"," 7 "`},
		{"closed", "max_clicks click_limit usage_limit", `"many","1e3",-1,"1.000"`},
		{"open", "max_clicks click_limit usage_limit", `"unlimited","NULL",null,"",false,"∞"`},
		{"archived", "archived is_archived archivedAt archived_at", `true,1,"t","2024-01-01"`},
		{"open", "approved_by status_changed_at expired_url ending publish_reason launchpad_ids pinned stateless " +
			"last_active_at expiration_message blocked_count", `"x"`},
	} {
		for _, name := range strings.Fields(c.names) {
			wantState(t, c.want, name, c.values, func(property string, _ json.RawMessage) []*importsource.Row {
				return []*importsource.Row{one(t, importsource.JSONLines, `{"url":"https://a.b/",`+property+`}`),
					one(t, importsource.Kutt, `{"target":"https://a.b/",`+property+`}`)}
			})
		}
	}
}

// wantState checks what becomes of the link of rows that have a property with each of the values. No
// report has a secret.
func wantState(
	t *testing.T, want, name, values string,
	rowsOf func(property string, value json.RawMessage) []*importsource.Row,
) {
	t.Helper()
	var all []json.RawMessage
	must.NoError(t, json.Unmarshal([]byte("["+values+"]"), &all))
	for _, value := range all {
		property := string(must.Value(json.Marshal(name))(t)) + ":" + string(value)
		for i, row := range rowsOf(property, value) {
			if got := stateOf(row); got != want {
				t.Errorf("%d %s: %s, want %s, losses %v", i, property, got, want, row.Losses)
			}
			if strings.Contains(fmt.Sprint(row.Losses), "hunter") {
				t.Errorf("%s: a report has the secret: %v", property, row.Losses)
			}
		}
	}
}

// stateOf names what keeps the link of a row from redirecting for ever.
func stateOf(row *importsource.Row) string {
	switch {
	case row.Err != nil || row.Deleted && len(row.Losses) == 0:
		return "invalid"
	case row.Deleted:
		return "closed"
	case row.ExpiresAt.To != nil:
		return "ends"
	case row.StartsAt.To != nil:
		return "starts"
	case optional.Value(row.MaxClicks.To) == 7:
		return "limited"
	case row.Archived.To:
		return "archived"
	}
	return "open"
}

// TestRows_CombineUsualNames: of several properties about the same, the narrowest counts.
func TestRows_CombineUsualNames(t *testing.T) {
	t.Parallel()
	row := one(t, importsource.JSONLines, `{"url":"https://a.b/","expiresAt":"2032-01-01","end_date":"2031-01-01",`+
		`"expiry":"2033-01-01","startsAt":"2030-01-01","start_date":"2030-02-01",`+
		`"maxClicks":9,"click_limit":5,"limit":7}`)
	if got := fmt.Sprint(row.ExpiresAt.To, row.StartsAt.To, *row.MaxClicks.To, row.Losses); got !=
		"2031-01-01 00:00:00 +0000 UTC 2030-02-01 00:00:00 +0000 UTC 5 []" {
		t.Error(got)
	}
}

// TestRows_ReadTables as databases and spreadsheets write them: values that are absent, blanks
// around addresses, the delimiter in a line of its own, and lists of tags.
func TestRows_ReadTables(t *testing.T) {
	t.Parallel()
	const nbsp, csv = "\u00a0", importsource.CSV
	const columns = "url,code,domain,title,tags,expires_at,max_clicks,is_active,password,status,clicks,id\n" +
		"https://a.b/,a"
	for name, c := range map[string]struct {
		source     importsource.Source
		file, want string
	}{
		"NULL":            {csv, columns + strings.Repeat(",NULL", 10), "/a []"},
		`\N`:              {csv, columns + strings.Repeat(`,\N`, 10), "/a []"},
		"cells of blanks": {csv, columns + strings.Repeat(",\u00a0NULL ,"+nbsp, 5), "/a []"},
		"NULL of YOURLS": {importsource.YOURLS,
			"keyword,url,title,timestamp,clicks\na,https://a.b/,NULL,NULL,NULL", "/a []"},
		"NULL of Dub": {importsource.Dub,
			"Short link,Destination URL,Tags,Clicks\nd.sh/a,https://a.b/,NULL,NULL", "d.sh/a []"},
		"NULL as code": {csv, "url,code\nhttps://a.b/,NULL", "/ []"},
		"blanks": {csv, nbsp + "URL ,Code" + nbsp + ",domain\n https://a.b/ ," + nbsp + "a\t,\tc.d" +
			nbsp, "c.d/a []"},
		"blanks of short URL": {csv, "url,short url\nhttps://a.b/," + nbsp + "https://c.d/a" + nbsp, "c.d/a []"},
		"escaped blanks":      {csv, "url,short url\nhttps://a.b/,c.d/a%C2%A0%20", "c.d/a []"},
		"zero width":          {csv, "\ufeffurl,code\nhttps://a.b/,\ufeffa\u200b", "/a []"},
		"URL as domain":       {csv, "url,code,domain\nhttps://a.b/,a, https://c.d/ ", "c.d/a []"},
		"code as short URL":   {csv, "long_url,short_url\nhttps://a.b/,abc", "/abc []"},
		"sep=;":               {csv, "sep=;\nurl;tags\nhttps://a.b/;\"a,b\"", "/ [a b]"},
		"sep=, with a mark":   {csv, "\ufeff\"SEP=,\"\r\n\r\nurl,tags;x;y;z\r\nhttps://a.b/,a", "/ []"},
		"sep=| of Dub": {importsource.Dub, "sep=|\nShort link|Destination URL\nd.sh/a|https://a.b/",
			"d.sh/a []"},
		"sep= and a tab":  {importsource.YOURLS, "sep=\t\t\nkeyword\turl\na\thttps://a.b/", "/a []"},
		"semicolons":      {csv, "url,tags\nhttps://a.b/,a; b ;c", "/ [a b c]"},
		"JSON":            {csv, "url,tags\nhttps://a.b/," + `"[""a, b"",""\u00fc""]"`, "/ [a, b ü]"},
		"JSON of objects": {csv, "url,tags\nhttps://a.b/," + `"[{""id"":1,""name"":""a""}]"`, "/ [a]"},
		"PostgreSQL":      {csv, "url,tags\nhttps://a.b/," + `"{a,""b, \""c"",NULL}"`, `/ [a b, "c]`},
		"Python":          {csv, "url,tags\nhttps://a.b/," + `"['a', 'b']"`, "/ [a b]"},
		"no tags":         {csv, "url,tags\nhttps://a.b/,{}", "/ []"},
		"brackets":        {csv, "url,tags\nhttps://a.b/,[wip]", "/ [[wip]]"},
		"JSON in a row":   {csv, "url,tags\nhttps://a.b/," + `"""a"",""b"""`, "/ [a b]"},
		"Python 2":        {csv, "url,tags\nhttps://a.b/," + `"[u'a', u'b']"`, "/ [a b]"},
		"escaped JSON":    {csv, "url,tags\nhttps://a.b/," + `"[\""a\"",\""b\""]"`, "/ [a b]"},
		"arrays in one":   {csv, "url,tags\nhttps://a.b/," + `"{{a,b}, {c,d}}"`, "/ [a b c d]"},
		"sep=; and blank": {csv, "sep=; \nurl;tags\nhttps://a.b/;\"a,b\"", "/ [a b]"},
		"Sep = ;":         {csv, "Sep = ;\r\nurl;tags\r\nhttps://a.b/;a", "/ [a]"},
		"pipes":           {csv, "url|code|tags\nhttps://a.b/|a|b,c", "/a [b c]"},
		"pipe in a name":  {csv, "url,tags|a|b,tags\nhttps://a.b/,,x", "/ [x]"},
		"blank and slash": {csv, "url,code\nhttps://a.b/,x /", "/x []"},
		"slash in a URL":  {csv, "url,short url\nhttps://a.b/,c.d/x%20/", "c.d/x []"},
		"null":            {csv, "url,folder,external_id,title,tags\nhttps://a.b/,null,null,null,null", "/ []"},
		"null as code":    {csv, "url,code\nhttps://a.b/,null", "/null []"},
		"NULL in JSON": {importsource.JSONLines, `{"url":"https://a.b/","title":"NULL","note":"\\N","tags":"NULL",` +
			`"domain":"NULL","folder":"NULL"}`, "/ []"},
		"null in JSON tags": {importsource.JSONLines, `{"url":"https://a.b/","tags":["a",null,["b"]]}`, "/ [a b]"},
		"nested":            {csv, "url,tags\nhttps://a.b/," + `"{a,{b}}"`, "/ [{a {b}}]"},
	} {
		rows := read(t, &importsource.Settings{Source: c.source, Now: now}, []byte(c.file))
		if len(rows) != 1 || stateOf(rows[0]) != "open" || rows[0].Title.To != nil || len(rows[0].Losses) > 0 {
			t.Fatalf("%s: %+v", name, rows)
		}
		if rows[0].Folder != nil || rows[0].ExternalID.To != nil || rows[0].Note.To != nil {
			t.Errorf("%s: %+v", name, rows[0])
		}
		if got := fmt.Sprint(rows[0].Host, "/", rows[0].Code, " ", rows[0].Tags.To); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRows_TrimAddresses of the items of each source.
func TestRows_TrimAddresses(t *testing.T) {
	t.Parallel()
	for source, item := range map[importsource.Source]string{
		importsource.Bitly:     `"id":"~c.d/a~","long_url":"https://a.b/"`,
		importsource.Dub:       `"id":"~1","domain":"~c.d~","key":"~a~","url":"https://a.b/"`,
		importsource.Kutt:      `"id":"1~","address":"~a~","domain":"c.d~","target":"https://a.b/"`,
		importsource.Linkforge: `"id":"1~","code":"a~","domain":"~c.d","url":"https://a.b/"`,
		importsource.Rebrandly: `"id":"1","domain":{"fullName":"~c.d"},"slashtag":"~a","destination":"https://a.b/"`,
		importsource.Shlink:    `"shortCode":"~a~","shortUrl":"~https://c.d/a~","longUrl":"https://a.b/"`,
		importsource.ShortIO:   `"idString":"1","path":"a~","secureShortURL":"~c.d/a","originalURL":"https://a.b/"`,
		importsource.YOURLS:    `"keyword":"a~","shorturl":"https://c.d/a~","url":"https://a.b/"`,
		importsource.JSONLines: `"shorturl":"~c.d/a~","url":"https://a.b/"`,
	} {
		for escape, blank := range map[string]string{" ": " ", `\u00a0`: "\u00a0", `\t`: "\t", `\u200b`: "\u200b"} {
			row := one(t, source, "{"+strings.ReplaceAll(item, "~", escape)+"}")
			if row.Err != nil || row.Host != "c.d" || row.Code != "a" || strings.Contains(row.SourceID+row.SourceURL,
				blank) {
				t.Errorf("%s %q: %q of %q, id %q, error %v", source, blank, row.Code, row.Host, row.SourceID, row.Err)
			}
		}
	}
}

// TestRows_RefuseOtherEncodings: no file is read in an encoding that is not its own.
func TestRows_RefuseOtherEncodings(t *testing.T) {
	t.Parallel()
	const item = `{"id":"a","key":"k","url":"https://a.b/","folderId":"f"}`
	encode := func(text string, order binary.AppendByteOrder) (file []byte) {
		for _, unit := range utf16.Encode([]rune(text)) {
			file = order.AppendUint16(file, unit)
		}
		return file
	}
	for name, c := range map[string]struct {
		source importsource.Source
		file   []byte
		want   string
	}{
		"CSV in UTF-16": {importsource.CSV, encode("\ufeffurl,code\n", binary.LittleEndian),
			"The file is in UTF-16."},
		"JSON in UTF-16": {importsource.Dub, encode("\ufeff["+item+"]", binary.BigEndian),
			"The file is in UTF-16."},
		"lines in UTF-16, no mark": {importsource.JSONLines, encode(item, binary.LittleEndian),
			"The file is in UTF-16."},
		"JSON, no mark": {importsource.Sink, encode("["+item+"]", binary.BigEndian),
			"The file is in UTF-16."},
		"UTF-32": {importsource.CSV, []byte("\xff\xfe\x00\x00u\x00\x00\x00"), "The file is in UTF-32."},
		"UTF-32, big end first": {importsource.JSONLines, []byte("\x00\x00\xfe\xff\x00\x00\x00{"),
			"The file is in UTF-32."},
		"UTF-32, no mark": {importsource.CSV, []byte("u\x00\x00\x00r\x00\x00\x00"), "The file is in UTF-32."},
		"header in Latin-1": {importsource.CSV, []byte("url,Gr\xf6\xdfe\n"),
			"The file must begin with a header line in UTF-8."},
		"folders in Latin-1": {importsource.Dub, []byte(`{"folders":[{"id":"f","name":"Gr\xf6\xdfe"}],"links":[` +
			item + `]}`),
			"folders of the file is no valid JSON in UTF-8"},
		"half of a pair": {importsource.Dub, []byte(`{"folders":[{"id":"f","name":"\ud83d"}],"links":[` + item + `]}`),
			"folders of the file is no valid JSON in UTF-8"},
	} {
		var last error
		for row, err := range importsource.Rows(&importsource.Settings{Source: c.source}, bytes.NewReader(c.file)) {
			if last = err; row != nil {
				t.Errorf("%s: the row %+v", name, row)
			}
		}
		if last == nil || !strings.Contains(last.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, last, c.want)
		}
	}
	s := &importsource.Settings{Source: importsource.Dub, Fetched: true}
	rows := read(t, s, []byte("{\"folders\":[{\"id\":\"f\",\"name\":\"Gr\xf6\xdfe\"}]}\n"+item))
	if len(rows) != 2 || rows[0].Err == nil || !cmp.Equal(reasons(rows[1]), []string{"folderId UNSUPPORTED"}) {
		t.Errorf("fetched folders in Latin-1: %+v", rows)
	}
}

// TestRows_ReadNamesByTheirWords: each row has names, values as JSON and what becomes of a link that
// has them, in a column of a table and in a property. No report has a secret.
func TestRows_ReadNamesByTheirWords(t *testing.T) {
	t.Parallel()
	const past, future = `"2020-01-01"`, `"2031-01-01"`
	for _, c := range []struct{ want, names, values string }{
		// punctuation
		{"ends", "Expires (UTC)|Expires at (UTC)|expires.at|link.expires_at|Expires:|*expires|`expires_at`|" +
			"[expires_at]|" +
			"'expires_at'|\"Expires\"|expires%20at|expires\tat|expires\nat|expires\u2011at|end date/time|" +
			"Expiration Date/Time|Expires (of the link)|expiresat|EXPIRES_AT|linkExpiresAtUTC", future},
		{"closed", "Active?|Active(Y/N)|is-active?|Enabled:", `"No"`},
		{"closed", "Disabled?|Deleted?|Disabled:|disabled(bool)|link.disabled", `"Yes","1"`},
		{"closed", "Max. clicks|max_clicks_allowed|clicks_allowed|click_max|usage_max|max_click_limit|limit_visits|" +
			"max_opens|max_requests|remaining|uses_remaining|quota", `"0"`},
		// names of states
		{"closed", "soft_deleted|softDeletedAt|del_flag|delFlag|is_del|pending|is_pending|awaiting_approval|on_hold|" +
			"under_review|not_active|invalid|terminated|retired|obsolete|dead|is_broken|discontinued|blacklist|" +
			"shadow_banned|blocked_by_admin|flagged_as_spam|reported|internal|denied|forbidden|takedown|take_down|" +
			"isNotActive|taken_down|withdrawn|closed|deletedByUserId|gesperrt|internal_only", `"1","true"`},
		{"closed", "active_yn|use_yn|status_active|is_open|open|allowed|alive|safe|verified|working|in_use|show|" +
			"redirect_enabled|not_deleted", `"0","false","No"`},
		{"open", "active_yn|use_yn|status_active|is_open|alive|verified|in_use|not_deleted", `"1","true","Yes"`},
		{"closed", "status_text|status_name|statusText|current_status|workflow_state|review_status|moderation|" +
			"approval|" +
			"availability|state|access|link_state", `"disabled","Inactive","pending_review","not active"`},
		{"open", "status_text|current_status|review_status|moderation|approval", `"Active","approved"`},
		{"closed", "secret|pw|Passwort|require_pin|unlock_pin|credentials|password_hash|mot_de_passe|otp", `"1",` +
			`"hunter22"`},
		{"closed", "sso_only|one_time_use|burn_after_reading|single_click|geo_blocked|ip_restrictions|requires_login|" +
			"blocked_countries", `"1","some"`},
		// starts and ends
		{"ends", "exp|expDate|exp_date|valid_thru|valid_end|validity_to|validity_until|usable_until|live_until|" +
			"hide_after|" +
			"due_date|to_date|date_to|close_at|closes_at|stop_at|delete_after|remove_at|take_down_at|effective_end|" +
			"short_link_expires_at|shortLinkExpiry|autoExpireAt|expires_ms|expires_epoch|ExpiresAtUnix|" +
			"publish_end_date",
			future},
		{"closed", "expires_in_days|max_age|valid_days|expires_in|time_limit", `"30"`},
		{"starts", "embargo_until|release_at|release_date|live_from|publishAfter|visible_after|valid_start|" +
			"validity_from|" +
			"from_date|opens_at|hide_until|published|activated|live|approved_at|start_date/time", future},
		{"closed", "valid|active|is_enabled|visible|is_valid", past + "," + future},
		{"open", "publication_state", `"active"`},
		// values
		{"open", "status", `"200 OK","301 Moved Permanently","publish","working","healthy","success","in use",` +
			`"verified",` +
			`"default","A","LinkStatus.ACTIVE","\"active\"","not disabled"`},
		{"closed", "status", `"404 Not Found","410","Bayern","expires soon","not verified","LinkStatus.DISABLED"`},
		{"open", "state", `"CA","NY","Bayern","open","A"`},
		{"open", "visibility", `"everyone","anyone","all","default"`},
		{"open", "active|enabled", `"x","✓","✅","✔️","Checked"`},
		{"closed", "active|enabled", `"☐","✗","unchecked","not active"`},
		{"open", "disabled|is_blocked", `"enabled","active","not disabled","☐"`},
		{"open", "deleted|private|deleted_at", `"never","1970-01-01 00:00:00","1970-01-01T00:00:00Z"`},
		{"open", "abuse|phishing|spam|is_spam", `"ok","clean","ham","0.02","-1",0.02,-1`},
		{"closed", "abuse|phishing|spam", `"0.97","yes","spam"`},
		{"closed", "disabled|deleted", `"-1","0.02","maybe"`},
		{"open", "expires_at|expires|valid_until", `"Never expires","No expiry","#N/A","n.a.","\"\"","{}","[]",{},[],` +
			`"1970-01-01 00:00:00","no end date","does not expire"`},
		{"open", "max_clicks|click_limit", `"no limit","Unlimited clicks","inf","18446744073709551615",` +
			`18446744073709551615,"1,000","1 000","1.012"`},
		{"closed", "max_clicks|click_limit", `0,-1,"0","1.000","12 clicks","1,00"`},
		{"limited", "max_clicks|Max. clicks|maxOpens", `7,"7","\"7\"","'7"`},
		{"open", "allowed_countries|allowed_ips|ip_allowlist|allowlist", `"[]","{}",[],{},"","none"`},
		{"open", "allowed_countries|allowed_ips", `"all","*","0.0.0.0/0",["*"]`},
		{"closed", "allowed_countries|allowed_ips|country_whitelist|ip_allowlist", `"DE","10.0.0.0/8",["DE"],["*",` +
			`"DE"]`},
		// texts that are about something else
		{"open", "delete", `"Delete"`}, {"open", "block", `"header"`}, {"open", "publish", `"Publish"`},
		{"open", "live", `"https://a.b/","Live stream"`}, {"open", "launch", `"Product launch"`},
		{"open", "publication", `"Der Spiegel"`}, {"open", "end", `"text"`},
		{"closed", "delete|block|end|launch|is_live", `"maybe","soon"`},
		{"open", "password_hint|passwordResetAt", `"hunter22","2020-01-01"`},
		{"open", "block_bots|delete_button|hide_referrer|show_preview|enable_tracking|" +
			"is_public_stats|expired_redirect|owner_active|private_note|rate_limit|last_used|campaign_status",
			`"text","0","1","2020-01-01"`},
	} {
		for _, name := range strings.Split(c.names, "|") {
			wantState(t, c.want, name, c.values, func(property string, value json.RawMessage) []*importsource.Row {
				text := ""
				rows := []*importsource.Row{one(t, importsource.JSONLines, `{"url":"https://a.b/",`+property+`}`)}
				if json.Unmarshal(value, &text) == nil {
					quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
					file := "url,code," + quote(name) + "\nhttps://a.b/,a," + quote(text)
					s := &importsource.Settings{Source: importsource.CSV, Now: now}
					rows = append(rows, read(t, s, []byte(file))...)
				}
				return rows
			})
		}
	}
}

// TestRows_ReadWithinObjects: limits, states and secrets in objects of an item, and counts next to a
// limit.
func TestRows_ReadWithinObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, items string
		source      importsource.Source
	}{
		{"closed", `"settings":{"password":"hunter2","disabled":true}|"meta":{"expires_at":"soon"}|` +
			`"attributes":{"status":"disabled"}|"limits":{"max_clicks":0}|"link":{"is_disabled":true}|` +
			`"data":{"deleted_at":"2020-01-01"}|"options":{"password":"x"}|"flags":["disabled"]|` +
			`"options":"password=hunter2;new"|"flags":["pin: hunter2"]|"flags":"spam, new"|` +
			`"auth_config":{"pw":"hunter3"}|"unlock_pin":"hunter4"|"a":{"b":{"c":{"disabled":1}}}|` +
			`"settings":"{\"disabled\":true,\"password\":\"hunter5\"}"|"rules":[{"password":"hunter6"}]|` +
			`"extra":"{\"credentials\":\"hunter9\"}"|` +
			`"expiration":{"date":"soon"}|"valid":{"until":"soon"}|` +
			`"a":{"b":{"c":{"d":{"e":{"f":{"g":{"h":{"i":{"j":{"pw":"hunter7"}}}}}}}}}}`,
			importsource.JSONLines},
		{"ends", `"validity":{"end":"2031-01-01"}|"expiration":{"enabled":true,"date":"2031-01-01"}|` +
			`"window":{"to":"2031-01-01"}|` +
			`"options":{"expire":{"at":"2031-01-01"}}|"has_expiry":true,"expires_at":"2031-01-01"|` +
			`"rules":{"expiration":"2031-01-01"}|` +
			`"meta":{"expires_at":"2031-01-01"}|` +
			`"schedule":{"end":"2031-01-01"}`, importsource.JSONLines},
		{"closed", `"has_expiry":true|"is_limited":true|"has_limit":"yes"|"click_limit_enabled":true|"expiresAt":true`,
			importsource.JSONLines},
		{"open", `"never_expires":true|"no_expiry":1|"expiration":{"enabled":false,"date":null}|` +
			`"app":{"enabled":false}|` +
			`"password":{"enabled":false,"value":null}|"status":["active"]|"mode":"redirect"|"status":"1 - active"`,
			importsource.JSONLines},
		{"open", `"owner":{"active":false,"password":"hunter8"}|"flags":["new"]|"labels":["draft"]|` +
			`"analytics":{"enabled":false,"public":false}|"qr":{"active":false,"disabled":true}|` +
			`"stats":{"expired":1}|` +
			`"settings":{"disabled":false}|"extra":[{"name":"password","value":"hunter9"}]|` +
			`"token":"hunter9"|"extra":"a=b&password=hunter9"`, importsource.JSONLines},
		{"closed", `"stats":{"clicks":12},"max_clicks":10|"meta":{"active":false}|"data":{"enabled":0}`,
			importsource.JSONLines},
		{"closed", closedCounts(), importsource.JSONLines},
		{"closed", `"max_clicks":5,"clicks":3,"visits":12|"max_clicks":5,"visits":12,` +
			`"clicks":3`, importsource.JSONLines},
		{"limited", `"is_limited":true,"max_clicks":7|"max_clicks":10,"clicks":3|"max_clicks":10,"views":"3",` +
			`"used":"null"`, importsource.JSONLines},
		{"closed", `"shortCode":"a","longUrl":"https://a.b/","meta":{"maxVisits":5},` +
			`"visitsCount":7`, importsource.Shlink},
		{"closed", `"idString":"a","path":"a","originalURL":"https://a.b/","clicksLimit":5,"clicks":7|` +
			`"idString":"a","path":"a","originalURL":"https://a.b/","clicksLimit":5,"totalClicks":"7"`,
			importsource.ShortIO},
	} {
		for _, item := range strings.Split(c.items, "|") {
			if c.source == importsource.JSONLines {
				item = `"url":"https://a.b/",` + item
			}
			row := one(t, c.source, "{"+item+"}")
			if got := stateOf(row); got != c.want {
				t.Errorf("%s: %s, want %s, losses %v", item, got, c.want, row.Losses)
			}
			if strings.Contains(fmt.Sprint(row.Losses), "hunter") {
				t.Errorf("%s: a report has the secret: %v", item, row.Losses)
			}
		}
	}
	rows := read(t, &importsource.Settings{Source: importsource.CSV, Now: now},
		[]byte("url,expiration_note,owner,deleted_by_api\nhttps://a.b/,x,y,no"))
	if got := fmt.Sprint(rows[0].Losses, rows[0].Ignored); got != `[{expiration_note UNSUPPORTED "x" }] [owner]` {
		t.Error(got)
	}
}

// closedCounts are items with a limit of 10 that is used up, or whose count cannot be read.
func closedCounts() string {
	var items []string
	for name := range strings.SplitSeq("views|view_count|used|uses|use_count|usage_count|usage|total_visits|totalHits|"+
		"hit_count|hitCount|clicks_count|clicks_total|clicksTotal|current_clicks|num_clicks|number_of_clicks|"+
		"visits_count|visitsCount|redirect_count|access_count|human_clicks|Clicks (total)|lifetime_clicks|"+
		"clicks_used|clicks so far", "|") {
		items = append(items, `"max_clicks":10,"`+name+`":12`)
	}
	for _, count := range []string{`"1,012"`, `"1.012"`, `"1 012"`, `"1’012"`, `"1\u00a0012"`, `"12 clicks"`,
		`"1.2k"`,
		`"1e2"`, `"\"12\""`, `"'12"`, `12.5`, `-1`, `{"total":12}`, `"many"`, `"1.000"`} {
		items = append(items, `"max_clicks":10,"clicks":`+count, `"clicks":`+count+`,"views":1,"max_clicks":10`)
	}
	return strings.Join(items, "|")
}
