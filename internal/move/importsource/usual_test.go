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
		if end.ExpiresAt == nil || !end.ExpiresAt.Equal(want) || start.StartsAt == nil || !start.StartsAt.Equal(want) ||
			end.Deleted || start.Deleted {
			t.Errorf("%s is %v and %v", text, end.ExpiresAt, start.StartsAt)
		}
	}
	for _, text := range []string{`0`, `0.0`, `"0"`, `" 0 "`, `""`, `null`, `false`, `"NULL"`, `"\\N"`, `"None"`,
		`"-"`} {
		end, start := read(text)
		for _, row := range []*importsource.Row{end, start} {
			if row.ExpiresAt != nil || row.StartsAt != nil || row.Deleted || len(row.Losses) > 0 {
				t.Errorf("%s is %v and %v, losses %v", text, row.ExpiresAt, row.StartsAt, row.Losses)
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
			if row.ExpiresAt != nil || row.StartsAt != nil || !row.Deleted || len(row.Losses) != 1 {
				t.Errorf("%s is %v and %v, deleted %v, losses %v", text, row.ExpiresAt, row.StartsAt, row.Deleted,
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
		if end.Deleted || end.ExpiresAt != nil || start.Deleted || start.StartsAt != nil ||
			!cmp.Equal(reasons(end), []string{"expiresAt INVALID"}) {
			t.Errorf("%s is %v and %v, losses %v", text, end.ExpiresAt, start.StartsAt, end.Losses)
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
		var values []json.RawMessage
		must.NoError(t, json.Unmarshal([]byte("["+c.values+"]"), &values))
		for _, name := range strings.Fields(c.names) {
			for _, value := range values {
				property := fmt.Sprintf(`"%s":%s}`, name, value)
				for source, start := range map[importsource.Source]string{
					importsource.JSONLines: `{"url":"https://a.b/",`, importsource.Kutt: `{"target":"https://a.b/",`,
				} {
					row := one(t, source, start+property)
					if got := stateOf(row); got != c.want {
						t.Errorf("%s %s: %s, want %s, losses %v", source, property, got, c.want, row.Losses)
					}
					if strings.Contains(fmt.Sprint(row.Losses), "hunter22") {
						t.Errorf("%s: a report has the secret: %v", property, row.Losses)
					}
				}
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
	case row.ExpiresAt != nil:
		return "ends"
	case row.StartsAt != nil:
		return "starts"
	case optional.Value(row.MaxClicks) == 7:
		return "limited"
	case row.Archived:
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
	if got := fmt.Sprint(row.ExpiresAt, row.StartsAt, *row.MaxClicks, row.Losses); got !=
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
		if len(rows) != 1 || stateOf(rows[0]) != "open" || rows[0].Title != nil || len(rows[0].Losses) > 0 {
			t.Fatalf("%s: %+v", name, rows)
		}
		if rows[0].Folder != nil || rows[0].ExternalID != nil || rows[0].Note != nil {
			t.Errorf("%s: %+v", name, rows[0])
		}
		if got := fmt.Sprint(rows[0].Host, "/", rows[0].Code, " ", rows[0].Tags); got != c.want {
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
