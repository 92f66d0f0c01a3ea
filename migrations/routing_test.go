package migrations_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestDimensions_FillExistingDays: the days of earlier versions have the columns of clicks without a rule, a
// target and a source.
func TestDimensions_FillExistingDays(t *testing.T) {
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
			for _, column := range []string{"rule_id", "target_id", "qr_source"} {
				var got []byte
				err := d.NewSelect().Table("click_details").Column(column).Scan(db.AsOwner(t.Context()), &got)
				if !bytes.Equal(got, []byte{1, 0}) || err != nil {
					t.Errorf("%s is %x, want 0100: %v", column, got, err)
				}
			}
		})
	}
}

// dimensionCount is a count of one value of a dimension.
type dimensionCount struct {
	dimension byte
	value     string
	count     click.Count
}

// sampleCounts are counts of links by all dimensions. Values of early dimensions have the bytes of later ones.
func sampleCounts() map[string][]dimensionCount {
	routed := []dimensionCount{
		{7, "\x10\x01\x1erul_", click.Count{Clicks: 16, Visits: 17, Bots: 1}},
		{7, "\x12\x01\x05flyer", click.Count{Clicks: 18, Visits: 18, Bots: 18}},
		{click.QuarterDimension, "\x10", click.Count{Clicks: 16, Visits: 16, Bots: 16}},
		{click.LatencyDimension, "\x80", click.Count{Clicks: 7}},
		{16, "rul_01k0000000000000000000000a", click.Count{Clicks: 200, Visits: 1}},
		{17, "tgt_01k0000000000000000000000a", click.Count{Clicks: 200, Visits: 1}},
		{18, "flyer", click.Count{Clicks: 200, Visits: 1}},
		{18, "poster-2", click.Count{Clicks: 1}},
	}
	for i := range 2 * 128 { // a number of two bytes
		host := fmt.Sprintf("%0*d.example", 1+i, i)
		routed = append(routed, dimensionCount{1, host, click.Count{Clicks: int64(1) << (i % 60), Bots: 16}})
	}
	return map[string][]dimensionCount{
		"lnk_plain": {
			{1, "rul_0.example", click.Count{Clicks: 300, Visits: 200, Bots: 128}}, {7, "tgt_", click.Count{Clicks: 1}},
		},
		"lnk_routed":       routed,
		"lnk_only_routed":  {{17, "tgt_01k0000000000000000000000a", click.Count{Clicks: 1}}},
		"lnk_only_scanned": {{18, "flyer", click.Count{Clicks: 1}}},
	}
}

// TestDimensions_AreRemovedByDownMigrations: earlier versions cannot read rollups with the dimensions that a
// migration adds. All other dimensions stay.
func TestDimensions_AreRemovedByDownMigrations(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		for migration, first := range map[string]byte{"0015_click_routing": 16, "0030_qr_codes": 18} {
			t.Run(name+" "+migration, func(t *testing.T) {
				t.Parallel()
				d := dbtest.Migrated(t, open(t))
				rollBackTo(t, d, "0073_no_click_buckets")
				if d.Kind == db.Postgres {
					exec(t, d, "SELECT keep_month(?)", instant)
				}
				want := map[string]click.Counts{}
				for subject, counts := range sampleCounts() {
					want[subject] = click.Counts{}
					stored := click.Counts{}
					for _, c := range counts {
						stored.Add(c.dimension, c.value, c.count)
						if c.dimension < first {
							want[subject].Add(c.dimension, c.value, c.count)
						}
					}
					for _, table := range []string{"click_buckets", "click_days"} {
						exec(t, d, `INSERT INTO `+table+` (subject_id, starts_at, workspace_id, clicks, visits, bots, latency_mean,
							latency_m2, counts) VALUES (?, ?, 'ws_a', 0, 0, 0, 0, 0, ?)`, subject, instant, stored.Encode())
					}
				}
				rollBackTo(t, d, migration)
				for _, table := range []string{"click_buckets", "click_days"} {
					if diff := cmp.Diff(want, storedCounts(t, d, table)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", table, diff)
					}
				}
				up(t, d)
				if diff := cmp.Diff(want, storedCounts(t, d, "click_days")); diff != "" {
					t.Errorf("click_days after all migrations (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// storedCounts reads the counts of a table of rollups, by subject.
func storedCounts(t *testing.T, d *db.DB, table string) map[string]click.Counts {
	t.Helper()
	var rows []struct {
		SubjectID string
		Counts    []byte
	}
	must.NoError(t, d.NewSelect().Table(table).Column("subject_id", "counts").Scan(db.AsOwner(t.Context()), &rows))
	counts := map[string]click.Counts{}
	for _, r := range rows {
		counts[r.SubjectID] = click.Counts{}
		if err := counts[r.SubjectID].AddEncoded(r.Counts); err != nil {
			t.Errorf("%s of %s: %v", table, r.SubjectID, err)
		}
	}
	return counts
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

// TestHostKeys_OfExistingLinks: the migration computes the keys of hosts as package link does, also for what early
// nodes write afterwards.
func TestHostKeys_OfExistingLinks(t *testing.T) {
	t.Parallel()
	urls := []string{
		"https://example.com/a.b/c", "http://www.example.com:8080/", "https://a/?x=b.c:d",
		"http://[2001:db8::1]:81/a", "http://192.0.2.1/", "",
	}
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0024_external_ids")
			system := db.AsSystem(t.Context())
			want := map[string]string{}
			insert := func(linkID, url string) {
				t.Helper()
				must.Value(d.ExecContext(system, `INSERT INTO links (id, workspace_id, code, strategy, original_url,
					canonical_url, canonical_hash, redirect_status, created_at, updated_at)
					VALUES (?0, ?1, ?0, 'RANDOM', 'u', ?2, ?3, 302, ?4, ?4)`, linkID, public, url, []byte{1}, instant))(t)
				if want[linkID] = ""; url != "" {
					want[linkID] = link.HostKey((&link.Link{CanonicalURL: url}).Host())
				}
			}
			for i, url := range urls {
				insert(fmt.Sprint("before_", i), url)
			}
			up(t, d)
			if d.Kind == db.Postgres { // no other node runs beside on SQLite
				for i, url := range urls {
					insert(fmt.Sprint("after_", i), url)
				}
				const url = "https://later.example/a"
				must.Value(d.ExecContext(system, "UPDATE links SET canonical_url = ? WHERE id = 'after_0'", url))(t)
				want["after_0"] = link.HostKey("later.example")
			}
			var rows []struct{ ID, HostKey string }
			must.NoError(t, d.NewSelect().Table("links").Column("id", "host_key").Scan(system, &rows))
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
