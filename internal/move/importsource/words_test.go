package importsource_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/must"
)

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
		var values []json.RawMessage
		must.NoError(t, json.Unmarshal([]byte("["+c.values+"]"), &values))
		for _, name := range strings.Split(c.names, "|") {
			for _, value := range values {
				object := string(must.Value(json.Marshal(map[string]any{"url": "https://a.b/", name: value}))(t))
				text := ""
				rows := []*importsource.Row{one(t, importsource.JSONLines, object)}
				if json.Unmarshal(value, &text) == nil {
					quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
					file := "url,code," + quote(name) + "\nhttps://a.b/,a," + quote(text)
					s := &importsource.Settings{Source: importsource.CSV, Now: now}
					rows = append(rows, read(t, s, []byte(file))...)
				}
				for i, row := range rows {
					if got := stateOf(row); got != c.want {
						t.Errorf("%d %q = %s: %s, want %s, losses %v", i, name, value, got, c.want, row.Losses)
					}
					if strings.Contains(fmt.Sprint(row.Losses), "hunter") {
						t.Errorf("%q: a report has the secret: %v", name, row.Losses)
					}
				}
			}
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
