package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig2"
)

const (
	// maxHot is the number of links that every node caches, maxFollowed of those that are followed
	// again and again.
	maxHot      = 20_000
	maxFollowed = 1000
	// maxQueried is the number of workspaces in which links are created and queried.
	maxQueried = 1000
	// rareLinks of the largest workspace have a word that no other link has.
	rareLinks = 20
	rareWord  = "zebrafish"
	// largest is the divisor of the links that workspace 0 has; the others share the rest equally.
	largest = 10
)

// shape describes the contents of a database, all of which are computed from it. IDs contain its
// number, so that no two databases share a key of Redis.
type shape struct{ Number, Links, Tenants int }

func (s shape) id(prefix string, n int) string {
	return fmt.Sprintf("%s_00%04x%020x", prefix, s.Number, n)
}
func (s shape) linkID(link int) string   { return s.id("lnk", link) }
func (s shape) workspaceID(n int) string { return s.id("ws", n) }

// home returns the workspace of a link.
func (s shape) home(link int) int {
	if link%largest == 0 {
		return 0
	}
	return 1 + (link/largest*(largest-1)+link%largest-1)%(s.Tenants-1)
}

// size returns the number of links of a workspace.
func (s shape) size(workspace int) int {
	ofLargest := (s.Links + largest - 1) / largest
	if workspace == 0 {
		return ofLargest
	}
	rest, others := s.Links-ofLargest, s.Tenants-1
	return (rest + others - workspace) / others
}

// linkOf returns a link of a workspace, whose index is from 0 to below its size.
func (s shape) linkOf(workspace, index int) int {
	if workspace == 0 {
		return index * largest
	}
	turn := workspace - 1 + index*(s.Tenants-1)
	return turn/(largest-1)*largest + turn%(largest-1) + 1
}

func (s shape) queried() int  { return min(s.Tenants, maxQueried) }
func (s shape) hot() int      { return min(s.Links/5, maxHot) } // the newest links
func (s shape) followed() int { return min(s.hot(), maxFollowed) }
func (s shape) colds() int    { return s.Links - s.hot() }

// scattered returns each index below n once in n turns, in no order: the factor is prime.
func scattered(turn, n int) int { return int(uint64(turn%n) * 2_654_435_761 % uint64(n)) }

// cold returns each link that is not hot once.
func (s shape) cold(turn int) int { return scattered(turn, s.colds()) }

// draw draws hot links by a Zipf distribution.
func (s shape) draw(n int, seed uint64) []int {
	rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), rig.Skew, 1, uint64(s.followed()-1))
	visits := make([]int, n)
	for i := range visits {
		visits[i] = s.colds() + scattered(int(rank.Uint64()), s.followed())
	}
	return visits
}

// serial returns a number of eight digits that no other link has.
func serial(link int) int { return int(uint64(link) * 61_803_399 % 100_000_000) }

// urlOf returns the destination of a link, in canonical form.
func urlOf(link int) string {
	return fmt.Sprintf("https://www.example.com/articles/%08d/a-title-of-some-words", serial(link))
}

// titleOf returns a link's title. Those with the rare word are spread over the largest workspace's.
func (s shape) titleOf(link int) string {
	every := s.size(0) / rareLinks * largest
	if link%every == 0 && link/every < rareLinks {
		return "A " + rareWord + " of the catalogue"
	}
	return "A page of the catalogue"
}

// dataset is a database of a shape.
type dataset struct {
	shape
	databaseURL string
	disk        map[string]float64 // bytes a link: of the table, and of each index
	tenant      *rig.Tenant        // an owner of the workspaces that are queried; nil before the first server
}

// guarded are the tables whose rows not even their owner sees, which COPY does not fill therefore.
var guarded = []string{"workspaces", "slugs", "members", "links"}

// fill migrates the database, and fills it. Indexes and constraints are dropped meanwhile, and
// created again.
func (b *bench) fill(d *dataset) {
	began := time.Now()
	rig.Must(b.Linkforge([]string{"LINKFORGE_DATABASE_URL=" + d.databaseURL}, "migrate", "up"))
	var drop, restore []string
	for _, table := range guarded {
		drop = append(drop, "ALTER TABLE "+table+" NO FORCE ROW LEVEL SECURITY")
		restore = append(restore, "ALTER TABLE "+table+" FORCE ROW LEVEL SECURITY")
	}
	for _, r := range rig.Rows[struct{ Drop, Restore string }](b.Run, d.databaseURL, `
		SELECT format('ALTER TABLE links DROP CONSTRAINT %I', conname), format('ALTER TABLE links ADD CONSTRAINT %I %s %s',
			conname, pg_get_constraintdef(oid), CASE contype WHEN 'f' THEN 'NOT VALID' END)
		FROM pg_constraint WHERE conrelid = 'links'::regclass AND contype IN ('u', 'f')
		UNION ALL
		SELECT format('DROP INDEX %I', indexname), indexdef FROM pg_indexes
		WHERE tablename = 'links' AND indexname NOT IN (SELECT conname FROM pg_constraint)`) {
		drop, restore = append(drop, r.Drop), append(restore, r.Restore)
	}
	b.Exec(d.databaseURL, append(drop, d.workspaces()...)...)
	b.Copy(d.databaseURL, "TRUNCATE links, link_tags", "links", []string{"id", "workspace_id", "code", "root_code",
		"strategy", "original_url", "canonical_url", "canonical_hash", "title", "title_key", "search", "redirect_status",
		"created_by", "created_at", "updated_at", "check_at"}, d.Links, d.row)
	restore = append([]string{"SET maintenance_work_mem = '1GB'"}, restore...)
	b.Exec(d.databaseURL, append(restore, "RESET maintenance_work_mem", "VACUUM ANALYZE")...)
	d.disk = map[string]float64{}
	for _, r := range rig.Rows[struct {
		Name string
		Size int64
	}](b.Run, d.databaseURL, `SELECT 'of which the table', pg_table_size('links') UNION ALL
		SELECT 'of which ' || indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index
		WHERE indrelid = 'links'::regclass`) {
		d.disk[r.Name] = float64(r.Size) / float64(d.Links)
	}
	b.Say("%s links in %s workspaces are inserted after %.0f s", thousands(d.Links), thousands(d.Tenants),
		time.Since(began).Seconds())
}

// createdAt is when all rows were created.
var createdAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// workspaces inserts the workspaces, each with an owner of its own.
func (d *dataset) workspaces() (statements []string) {
	id := func(prefix string) string {
		return fmt.Sprintf("'%s_00%04x' || lpad(to_hex(n), 20, '0')", prefix, d.Number)
	}
	words := strings.NewReplacer("{owner}", id("usr"), "{workspace}", id("ws"),
		"{at}", "'"+createdAt.Format(time.RFC3339)+"'::timestamptz",
		"{numbers}", fmt.Sprintf("generate_series(0, %d) AS n", d.Tenants-1))
	for _, statement := range []string{
		`INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at)
			SELECT {owner}, 'owner-' || n || '@example.com', 'Owner', '', {at}, {at} FROM {numbers}`,
		`INSERT INTO workspaces (id, slug, name, created_at, updated_at)
			SELECT {workspace}, 'team-' || n, 'Team ' || n, {at}, {at} FROM {numbers}`,
		`INSERT INTO slugs (slug, workspace_id, created_at) SELECT 'team-' || n, {workspace}, {at} FROM {numbers}`,
		`INSERT INTO members (workspace_id, account_id, role, created_at)
			SELECT {workspace}, {owner}, 'OWNER', {at} FROM {numbers}`,
		`TRUNCATE changes`, // no node needs to read the slugs
	} {
		statements = append(statements, words.Replace(statement))
	}
	return statements
}

// row is a link as Linkforge would have written it.
func (d *dataset) row(link int) []any {
	home, code, url, title := d.home(link), rig.Code(link), urlOf(link), d.titleOf(link)
	hash, key := sha256.Sum256([]byte(url)), strings.ToLower(title)
	search := strings.Join([]string{key, "", url, strings.ToLower(code)}, "\n")
	return []any{d.linkID(link), d.workspaceID(home), code, code, "DETERMINISTIC", url, url, hash[:], title, key, search,
		int32(302), d.id("usr", home), createdAt, createdAt, createdAt}
}

// join registers an account once, and makes it an owner of the workspaces that are queried.
func (b *bench) join(d *dataset, address string) {
	if d.tenant != nil {
		return
	}
	d.tenant = b.NewTenant(address, "scale", &http.Transport{})
	b.In(d.databaseURL, true, func(in *sql.DB) {
		rig.Must(in.ExecContext(b, `INSERT INTO members (workspace_id, account_id, role, created_at)
			SELECT w.id, m.account_id, 'OWNER', m.created_at FROM workspaces w, members m
			WHERE m.workspace_id = $1 AND w.id <> $1 AND w.id <= $2 AND w.id LIKE 'ws_00%'`,
			d.tenant.Workspace, d.workspaceID(d.queried()-1)))
	})
}
