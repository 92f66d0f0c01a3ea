package migrations_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/rollup"
)

// TestClickRouting_FillsExistingDays: the days of earlier versions have the columns of clicks without
// a rule and a target.
func TestClickRouting_FillsExistingDays(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0015_click_routing")
			if d.Kind == db.Postgres {
				exec(t, d, "SELECT keep_month(?)", instant)
			}
			exec(t, d, `INSERT INTO click_details (subject_id, starts_at, workspace_id, clicks, moments, referrer, country,
				device, browser, os, language, utm_source, utm_medium, utm_campaign, utm_term, utm_content, status, link_id)
				VALUES ('lnk_a', ?0, 'ws_a', 1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1, ?1)`, instant, []byte{1, 0})
			up(t, d)
			for _, column := range []string{"rule_id", "target_id"} {
				var got []byte
				err := d.NewSelect().Table("click_details").Column(column).Scan(db.AsOwner(t.Context()), &got)
				if !bytes.Equal(got, []byte{1, 0}) || err != nil {
					t.Errorf("%s is %x, want 0100: %v", column, got, err)
				}
			}
		})
	}
}

// TestClickRouting_DownRemovesItsDimensions: earlier versions cannot read rollups with them. All
// other dimensions stay.
func TestClickRouting_DownRemovesItsDimensions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			if d.Kind == db.Postgres {
				exec(t, d, "SELECT keep_month(?)", instant)
			}
			want := map[string]rollup.Counts{}
			for subject, c := range map[string]struct{ plain, routed func(rollup.Counts) }{
				"lnk_plain": {plain: func(c rollup.Counts) {
					c.Add(1, "rul_0.example", rollup.Count{Clicks: 300, Visits: 200, Bots: 128})
					c.Add(7, "tgt_", rollup.Count{Clicks: 1})
				}},
				"lnk_routed": {
					plain: func(c rollup.Counts) {
						for i := range 2 * 128 { // a number of two bytes
							c.Add(1, fmt.Sprintf("%0*d.example", 1+i, i), rollup.Count{Clicks: int64(1) << (i % 60), Bots: 16})
						}
						c.Add(7, "\x10\x01\x1erul_", rollup.Count{Clicks: 16, Visits: 17, Bots: 1})
						c.Add(click.QuarterDimension, "\x10", rollup.Count{Clicks: 16, Visits: 16, Bots: 16})
						c.Add(click.LatencyDimension, "\x80", rollup.Count{Clicks: 7})
					},
					routed: func(c rollup.Counts) {
						c.Add(16, "rul_01k0000000000000000000000a", rollup.Count{Clicks: 200, Visits: 1})
						c.Add(17, "tgt_01k0000000000000000000000a", rollup.Count{Clicks: 200, Visits: 1})
					},
				},
				"lnk_only_routed": {
					plain:  func(rollup.Counts) {},
					routed: func(c rollup.Counts) { c.Add(17, "tgt_01k0000000000000000000000a", rollup.Count{Clicks: 1}) },
				},
			} {
				want[subject] = rollup.Counts{}
				c.plain(want[subject])
				stored := rollup.Counts{}
				stored.AddAll(want[subject])
				if c.routed != nil {
					c.routed(stored)
				}
				for _, table := range []string{"click_buckets", "click_days"} {
					exec(t, d, `INSERT INTO `+table+` (subject_id, starts_at, workspace_id, clicks, visits, bots, latency_mean,
						latency_m2, counts) VALUES (?, ?, 'ws_a', 0, 0, 0, 0, 0, ?)`, subject, instant, stored.Encode())
				}
			}
			rollBackTo(t, d, "0015_click_routing")
			for range 2 {
				for _, table := range []string{"click_buckets", "click_days"} {
					got := map[string]rollup.Counts{}
					var rows []struct {
						SubjectID string
						Counts    []byte
					}
					err := d.NewSelect().Table(table).Column("subject_id", "counts").Scan(db.AsOwner(t.Context()), &rows)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range rows {
						got[r.SubjectID] = rollup.Counts{}
						if err := got[r.SubjectID].AddEncoded(r.Counts); err != nil {
							t.Errorf("%s of %s: %v", table, r.SubjectID, err)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", table, diff)
					}
				}
				up(t, d)
			}
		})
	}
}

// TestURLChecks_AreDue: the URLs of existing routings are due for a check, except for those with
// placeholders.
func TestURLChecks_AreDue(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0018_url_checks")
			system := db.AsSystem(t.Context())
			insert := func(statement string, args ...any) {
				if _, err := d.ExecContext(system, statement, args...); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			insert(`INSERT INTO links (id, workspace_id, code, strategy, original_url, canonical_url, canonical_hash,
				redirect_status, created_at, updated_at) VALUES ('lnk_a', ?0, 'a', 'RANDOM', 'u', 'u', ?1, 302, ?2, ?2)`,
				public, []byte{1}, instant)
			for field, url := range map[string]string{
				"rules.0.targets.0.url": "https://a/{x}", "endedUrl": "https://a/ended", "pendingUrl": "https://a/{code}",
			} {
				insert(`INSERT INTO link_urls VALUES ('lnk_a', ?, ?, 'a', ?)`, field, public, url)
			}
			up(t, d)
			var due []string
			err := d.NewSelect().Table("link_urls").Column("field").Where("check_at <= ?", instant).Order("field").
				Scan(system, &due)
			if diff := cmp.Diff([]string{"endedUrl", "rules.0.targets.0.url"}, due); diff != "" || err != nil {
				t.Errorf("due (-want +got): %v\n%s", err, diff)
			}
		})
	}
}

// TestHostKeys_OfExistingLinks: the migration computes the keys of hosts as package link does.
func TestHostKeys_OfExistingLinks(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0024_external_ids")
			system := db.AsSystem(t.Context())
			want := map[string]string{}
			for i, url := range []string{
				"https://example.com/a.b/c", "http://www.example.com:8080/", "https://a/?x=b.c:d",
				"http://[2001:db8::1]:81/a", "http://192.0.2.1/", "",
			} {
				linkID := fmt.Sprint("lnk_", i)
				if _, err := d.ExecContext(system, `INSERT INTO links (id, workspace_id, code, strategy, original_url,
					canonical_url, canonical_hash, redirect_status, created_at, updated_at)
					VALUES (?0, ?1, ?0, 'RANDOM', 'u', ?2, ?3, 302, ?4, ?4)`, linkID, public, url, []byte{1}, instant); err != nil {
					t.Fatal(err)
				}
				if want[linkID] = ""; url != "" {
					want[linkID] = link.HostKey((&link.Link{CanonicalURL: url}).Host())
				}
			}
			up(t, d)
			var rows []struct{ ID, HostKey string }
			if err := d.NewSelect().Table("links").Column("id", "host_key").Scan(system, &rows); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, row := range rows {
				got[row.ID] = row.HostKey
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
