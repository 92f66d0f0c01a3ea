package link

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/workspace"
)

// sharer combines concurrent batches of different workspaces, which do not wait long for a statement that is running.
type sharer = batcher.Batcher[struct{}, *share, struct{}]

const (
	// maxShare and maxShareBytes bound what a batch may contribute to a shared statement, in links and bytes: others wait
	// for it. maxShared is the largest number of links of the statement.
	maxShare, maxShareBytes = 10, 64 << 10
	maxShared               = 200
	// apartFor is how long the batches of a workspace have statements of their own, after one that failed.
	apartFor = time.Minute
	// maxApart is how many of these workspaces a node remembers.
	maxApart = 10_000
	// creations is the owner of shared statements.
	creations = "creations"
)

// apart remembers until when the batches of workspaces have statements of their own.
type apart = otter.Cache[string, time.Time]

// share is what a batch contributes to a combined statement, and its results.
type share struct {
	*batch
	items   []*item // those without a result
	urls    []string
	records []*record

	// isChecked means that the destinations are allowed and the memberships current, isCharged that the quota was
	// consumed and the links that did not exist were created. isRolledBack means that the statement had no effect.
	isChecked, isCharged, isRolledBack bool
	found                              []*Link
	err                                error
}

// isServed reports whether all links exist now.
func (sh *share) isServed() bool {
	return sh.err == nil && sh.isChecked && (sh.isCharged || len(sh.found) == len(sh.items))
}

// isSmall reports whether the share is small enough to share its statement.
func (sh *share) isSmall() bool {
	size := 0
	for _, r := range sh.records {
		size += r.size()
	}
	return len(sh.items) <= maxShare && size <= maxShareBytes
}

// presumed returns the memberships that the statement must check. Those of duplicates belong to them: they share the
// link with another member.
func (sh *share) presumed() (members []workspace.Membership) {
	for _, it := range sh.batch.items {
		if sh.isPresumed {
			members = append(members, it.member)
		}
	}
	return members
}

// execute executes the statement of a share: with the shares of other workspaces, and if that does not serve it, alone.
// A workspace that cannot be served then either, because of its input for example, must not undo the statements of
// others all the time: it is alone for a while. So is a batch with confirmed memberships, which has had a statement of
// its own already.
func (s *Store) execute(ctx context.Context, sh *share) error {
	id := sh.member.ID()
	until, isApart := s.apart.GetIfPresent(id)
	if isApart = isApart && sh.now.Before(until); sh.isPresumed && sh.isSmall() && !isApart {
		if _, err := s.sharer.Do(ctx, struct{}{}, sh, s.executeShared); err != nil || sh.isServed() || sh.err != nil {
			return cmp.Or(err, sh.err)
		}
	}
	err := s.createAll(ctx, []*share{sh})
	if err != nil || !sh.isServed() {
		s.apart.Set(id, sh.now.Add(apartFor))
	}
	return err
}

// executeShared executes as few statements as the bounds permit. Each share has the error of its own statement.
func (s *Store) executeShared(ctx context.Context, shares []*share) (struct{}, error) {
	for rest := shares; len(rest) > 0; {
		n := fitting(rest)
		err := s.createAll(db.OwnedBy(ctx, creations), rest[:n])
		for _, sh := range rest[:n] {
			sh.err = err
		}
		rest = rest[n:]
	}
	return struct{}{}, nil
}

// fitting returns how many shares fit into a statement: one at least.
func fitting(shares []*share) (n int) {
	var rows []*record
	for _, sh := range shares {
		if rows = append(rows, sh.records...); n > 0 && (len(rows) > maxShared || !fitsStatement(rows)) {
			break
		}
		n++
	}
	return n
}

// createAll executes one statement for shares of different workspaces, and sets the results of each. One that others share
// neither fails because of the values of one of them, nor waits for its locks: it is rolled back.
func (s *Store) createAll(ctx context.Context, all []*share) error {
	c := s.DB.Combine()
	checks, possible := s.checks(c, all)
	if !possible {
		return nil
	}
	c.Add("checks", "SELECT WHERE "+checks)
	s.addLookup(c, all)
	from := "missing"
	if len(all) > 1 { // what another transaction has locked, and the first link of a month, need a statement of their own
		from = "unlocked"
		c.Add(from, `SELECT missing.* FROM missing CROSS JOIN LATERAL (SELECT FROM link_usage AS u
			WHERE u.workspace_id = missing.workspace_id AND u.month = missing.month FOR UPDATE SKIP LOCKED) AS usage`)
	}
	addQuota(c, from)
	addInsertions(c, all, "(input.workspace_id, input.canonical_hash) NOT IN (SELECT workspace_id, canonical_hash FROM found)")
	ctx = s.enter(ctx, all)
	err := s.findOrCreate(ctx, c, all)
	if len(all) > 1 && (db.IsRefused(err) || db.IsTimeout(err)) {
		for _, sh := range all {
			sh.isRolledBack = true
		}
		return nil
	}
	return err
}

// enter returns the context of the statement.
func (s *Store) enter(ctx context.Context, all []*share) context.Context {
	var spaces []string
	for _, sh := range all {
		spaces = append(spaces, sh.member.ID())
	}
	if ctx = db.AsCreator(ctx, spaces...); len(all) > 1 {
		ctx = db.Impatiently(ctx)
	}
	return ctx
}

// checks returns the condition that the destinations are allowed and the presumed memberships current. It reports false
// if that is known not to hold.
func (s *Store) checks(c *db.Combined, all []*share) (condition string, possible bool) {
	var urls []string
	var members []workspace.Membership
	for _, sh := range all {
		urls, members = append(urls, sh.urls...), append(members, sh.presumed()...)
	}
	condition, possible = s.Destinations.Allowed(c, urls...)
	if !possible || len(members) == 0 {
		return condition, possible
	}
	unchanged, possible := workspace.Unchanged(c, members...)
	return condition + " AND " + unchanged, possible
}

// addLookup adds the part found, the links that exist, and the part missing: how many links each workspace needs, if
// there are any and its quota is as large.
func (s *Store) addLookup(c *db.Combined, all []*share) {
	var owners, ids, months []string
	var hashes [][]byte
	var wanted, quotas []int64
	for _, sh := range all {
		ids, quotas = append(ids, sh.member.ID()), append(quotas, s.QuotaOf(sh.member))
		months, wanted = append(months, hitquota.MonthOf(sh.now).String()), append(wanted, int64(len(sh.items)))
		for _, it := range sh.items {
			owners, hashes = append(owners, sh.member.ID()), append(hashes, it.draft.CanonicalHash)
		}
	}
	// The lateral join is that of lookUp, also for many links: the unique index is the cheapest plan for each hash, even
	// while there are hardly any links.
	c.Add("found", fmt.Sprintf(`SELECT link.* FROM checks, unnest(%s::TEXT[], %s::BYTEA[]) AS wanted (workspace_id, hash)
		CROSS JOIN LATERAL (SELECT * FROM links WHERE workspace_id = wanted.workspace_id AND strategy = 'DETERMINISTIC'
			AND canonical_hash = wanted.hash OFFSET 0) AS link`, c.Of(owners), c.Of(hashes)))
	c.Add("missing", fmt.Sprintf(`SELECT number, workspace_id, month, wanted - count(found.id) AS links, quota
		FROM checks CROSS JOIN unnest(%s::TEXT[], %s::TEXT[], %s::BIGINT[], %s::BIGINT[]) WITH ORDINALITY
			AS space (workspace_id, month, wanted, quota, number)
		LEFT JOIN found USING (workspace_id) GROUP BY number, workspace_id, month, wanted, quota
		HAVING wanted - count(found.id) BETWEEN 1 AND quota`, c.Of(ids), c.Of(months), c.Of(wanted), c.Of(quotas)))
}

// foundLink is a row of the statement of createAll: an existing link, which is empty if there is none, and the results for
// all shares.
type foundLink struct {
	Link `bun:",extend"`

	Checked bool `bun:",scanonly"`
	// Charged are the numbers, from 1, of the shares whose quota was consumed, with commas between them.
	Charged string `bun:",scanonly"`
}

// findOrCreate executes the statement, which has all parts but its end, and sets the results.
func (s *Store) findOrCreate(ctx context.Context, c *db.Combined, all []*share) error {
	c.Add("charged", `SELECT COALESCE(sum(links), 0) AS links, string_agg(number::TEXT, ',') AS numbers
		FROM missing JOIN quota USING (workspace_id)`)
	var rows []foundLink
	// The left join evaluates the division also if no link is found, and the condition makes the planner keep it.
	done, err := c.QueryUnlessZero(ctx, "created", fmt.Sprintf(`SELECT checked, charged, %s FROM (
		SELECT EXISTS (SELECT FROM checks) AS checked, numbers AS charged,
			1 / ((SELECT count(*) FROM created) = links)::INT AS complete FROM charged
		) AS result LEFT JOIN found ON TRUE WHERE complete = 1`, c.Columns("found", (*Link)(nil))), &rows)
	if err != nil {
		return err
	}
	found := map[string][]*Link{}
	for i := range rows {
		found[rows[i].WorkspaceID] = append(found[rows[i].WorkspaceID], &rows[i].Link)
	}
	var charged []string
	if done {
		charged = strings.Split(rows[0].Charged, ",")
	}
	for i, sh := range all {
		sh.isRolledBack, sh.isChecked = !done, done && rows[0].Checked
		sh.isCharged, sh.found = slices.Contains(charged, strconv.Itoa(i+1)), found[sh.member.ID()]
	}
	return nil
}

// addQuota adds the part quota, which consumes the links of workspaces whose quota suffices, and returns these. The part
// missing has the columns workspace_id, month, links and quota; from is SQL that selects rows of it.
func addQuota(c *db.Combined, from string) {
	c.Add("quota", fmt.Sprintf(`INSERT INTO link_usage AS u (workspace_id, month, links)
		SELECT workspace_id, month, links FROM %s ON CONFLICT (workspace_id, month)
		DO UPDATE SET links = u.links + excluded.links WHERE u.links + excluded.links <=
			(SELECT quota FROM missing WHERE missing.workspace_id = u.workspace_id) RETURNING workspace_id`, from))
}

// addInsertions adds the part created, which inserts the records that the condition selects in the workspaces of the
// part quota, and parts for their tags and events. The order of the codes is that in which concurrent statements wait for
// each other, as codes are unique over the instance.
func addInsertions(c *db.Combined, all []*share, condition string) {
	var records []*record
	var tags []tag
	var events []*audit.Event
	for _, sh := range all {
		records = append(records, sh.records...)
		t, e := sh.derived(sh.items)
		tags, events = append(tags, t...), append(events, e...)
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.Code, b.Code) })
	in := insertFor(records)
	in.Rest = "WHERE input.workspace_id IN (SELECT workspace_id FROM quota) AND " + condition + " " + in.Rest
	db.AddInsert(c, "created", in, records)
	db.AddInsert(c, "tags", db.Insert{Rest: "WHERE input.link_id IN (SELECT id FROM created)"}, tags)
	audit.Add(c, "input.target_id IN (SELECT id FROM created)", events...)
}
