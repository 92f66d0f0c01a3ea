package link

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/memo"
	"github.com/linkforge/linkforge/internal/month"
	"github.com/linkforge/linkforge/internal/workspace"
)

// sharer combines concurrent batches of different workspaces. A batch waits at most 10 ms for a running statement.
type sharer = batcher.Batcher[struct{}, *contribution, struct{}]

const (
	// maxSharedLinks and maxSharedBytes bound a batch that joins a shared statement: larger ones would delay the others.
	maxSharedLinks, maxSharedBytes = 10, 64 << 10
	// maxStatementLinks bounds the links of a shared statement, and maxStatements these statements of a node at a time.
	maxStatementLinks, maxStatements = 200, 4
	// sharingBackoff is how long a workspace does not share after its own statement has not served it.
	sharingBackoff = time.Minute
	// maxBackoffs is how many of these workspaces a node remembers.
	maxBackoffs = 10_000
	// sharedOwner is the owner of shared statements, see db.OwnedBy: they use at most half of the connections.
	sharedOwner = "creations"
)

// backoffs holds, by workspace, when it may share statements again.
type backoffs = memo.Cache[string, time.Time]

// contribution is what a batch contributes to a combined statement, and its results.
type contribution struct {
	batch      *batch
	unresolved []*item
	urls       []string
	records    []*record

	// isShared means that the last statement was a shared one.
	isShared bool
	// isChecked means that the destinations are allowed and the memberships current, isCharged that the quota was
	// consumed and the links that did not exist were created. isRolledBack means that the statement had no effect.
	isChecked, isCharged, isRolledBack bool
	found                              []*Link
	err                                error
}

// isServed reports whether all links exist now.
func (c *contribution) isServed() bool {
	return c.err == nil && c.isChecked && (c.isCharged || len(c.found) == len(c.unresolved))
}

// mayShare reports whether the batch may share its statement. One with confirmed memberships does not: most are the
// second attempt of a batch that a statement did not serve.
func (c *contribution) mayShare() bool {
	if !c.batch.isPresumed || len(c.records) > maxSharedLinks || sizeOf(c.records) > maxSharedBytes {
		return false
	}
	again, isKnown := c.batch.backoffs.GetIfPresent(c.batch.member.ID())
	if isKnown && c.batch.now.Before(again) {
		return false
	}
	_, possible := c.batch.checks(c.batch.DB.Combine(), []*contribution{c})
	return possible
}

// createTogetherOrAlone executes the statement of a contribution: first together with those of other workspaces,
// and then alone, if that did not serve it. A workspace that its own statement does not serve does not share for a
// while, as its input or state would undo the statements of others.
func (s *Store) createTogetherOrAlone(ctx context.Context, c *contribution) error {
	isTried := c.mayShare()
	if isTried {
		if _, err := s.sharer.Do(ctx, struct{}{}, c, s.createTogether); err != nil {
			return err // c may still be in use
		}
	}
	if !isTried || c.isShared && c.err == nil && !c.isServed() {
		c.err = s.createByStatement(ctx, false, c)
	}
	if c.err == nil && !c.isServed() || db.IsRefused(c.err) || db.IsLockTimeout(c.err) {
		s.backoffs.Set(c.batch.member.ID(), c.batch.now.Add(sharingBackoff))
	}
	return c.err
}

// createTogether executes as few statements as the bounds permit. Each contribution has the error of its own
// statement.
func (s *Store) createTogether(ctx context.Context, all []*contribution) (struct{}, error) {
	for len(all) > 0 {
		n := countFitting(all)
		err := s.createByStatement(db.OwnedBy(ctx, sharedOwner), true, all[:n]...)
		for _, c := range all[:n] {
			c.err = err
		}
		all = all[n:]
	}
	return struct{}{}, nil
}

// countFitting returns how many contributions fit into a statement: one at least.
func countFitting(all []*contribution) int {
	links, size := 0, 0
	for i, c := range all {
		links, size = links+len(c.records), size+sizeOf(c.records)
		if i > 0 && (links > maxStatementLinks || size > statementBytes) {
			return i
		}
	}
	return len(all)
}

// createByStatement executes one statement for batches of different workspaces, and sets the results of each. A
// shared one skips quotas that are locked, waits at most 100 ms for other locks, and is rolled back if a value is
// refused. If a check does not hold, a statement has no effect.
func (s *Store) createByStatement(ctx context.Context, isShared bool, all ...*contribution) error {
	for _, c := range all {
		c.isShared, c.isChecked, c.isCharged, c.isRolledBack, c.found = isShared, false, false, false, nil
	}
	statement := s.DB.Combine()
	checks, possible := s.checks(statement, all)
	if !possible {
		return nil
	}
	statement.Add("checks", "SELECT WHERE "+checks)
	s.addLookup(statement, all)
	source, spaces := "missing", []string{}
	for _, c := range all {
		spaces = append(spaces, c.batch.member.ID())
	}
	ctx = db.AsCreator(ctx, spaces...)
	if isShared { // without the workspaces whose quota is locked, or has no row yet
		ctx, source = db.WithShortLockTimeout(ctx), "unlocked"
		statement.Add(source, `SELECT missing.* FROM missing CROSS JOIN LATERAL (SELECT FROM link_usage AS u
			WHERE u.workspace_id = missing.workspace_id AND u.month = missing.month FOR UPDATE SKIP LOCKED) AS usage`)
	}
	addQuota(statement, source)
	addInsertions(statement, all,
		"(input.workspace_id, input.canonical_hash) NOT IN (SELECT workspace_id, canonical_hash FROM found)")
	err := scanResults(ctx, statement, all)
	if isShared && (db.IsRefused(err) || db.IsLockTimeout(err)) {
		for _, c := range all {
			c.isRolledBack = true
		}
		return nil
	}
	return err
}

// checks returns the condition that the destinations are allowed, the presumed memberships current, and the others
// still valid after the wait. Those of duplicates are checked, too: they get the link of another member. It reports false
// if the condition is known not to hold.
func (s *Store) checks(statement *db.Combined, all []*contribution) (condition string, possible bool) {
	var urls []string
	var presumed, waited []workspace.Membership
	for _, c := range all {
		urls = append(urls, c.urls...)
		if c.batch.isPresumed {
			presumed = append(presumed, c.batch.members()...)
		} else {
			waited = append(waited, c.batch.members()...)
		}
	}
	condition, possible = s.Destinations.Allowed(statement, urls...)
	if possible && len(waited) > 0 {
		condition += " AND " + workspace.Permitted(statement, workspace.WriteLinks, waited...)
	}
	if !possible || len(presumed) == 0 {
		return condition, possible
	}
	unchanged, possible := workspace.Unchanged(statement, presumed...)
	return condition + " AND " + unchanged, possible
}

// addLookup adds the part found, the links that exist, and the part missing: how many links each workspace needs, if
// there are any and its quota is as large.
func (s *Store) addLookup(statement *db.Combined, all []*contribution) {
	var owners, ids, months []string
	var hashes [][]byte
	var wanted, quotas []int64
	for _, c := range all {
		m := c.batch.member
		ids, quotas = append(ids, m.ID()), append(quotas, s.QuotaOf(m))
		months, wanted = append(months, month.Of(c.batch.now).String()), append(wanted, int64(len(c.unresolved)))
		for _, it := range c.unresolved {
			owners, hashes = append(owners, m.ID()), append(hashes, it.draft.CanonicalHash)
		}
	}
	// The lateral join looks up each hash by itself, like lookUp. OFFSET 0 keeps the planner from joining otherwise.
	statement.Add("found", fmt.Sprintf(`SELECT link.* FROM checks, unnest(%s::TEXT[], %s::BYTEA[])
			AS wanted (workspace_id, hash)
		CROSS JOIN LATERAL (SELECT * FROM links WHERE workspace_id = wanted.workspace_id AND strategy = 'DETERMINISTIC'
			AND canonical_hash = wanted.hash OFFSET 0) AS link`, statement.Of(owners), statement.Of(hashes)))
	statement.Add("missing", fmt.Sprintf(`SELECT number, workspace_id, month, wanted - count(found.id) AS links, quota
		FROM checks CROSS JOIN unnest(%s::TEXT[], %s::TEXT[], %s::BIGINT[], %s::BIGINT[]) WITH ORDINALITY
			AS space (workspace_id, month, wanted, quota, number)
		LEFT JOIN found USING (workspace_id) GROUP BY number, workspace_id, month, wanted, quota
		HAVING wanted - count(found.id) BETWEEN 1 AND quota`,
		statement.Of(ids), statement.Of(months), statement.Of(wanted), statement.Of(quotas)))
}

// foundLink is a row of the result of createByStatement: an existing link, which is empty if there is none, and the
// results for all batches.
type foundLink struct {
	Link `bun:",extend"`

	Checked bool `bun:",scanonly"`
	// Charged are the numbers, from 1, of the contributions whose quota was consumed, with commas between them. They are
	// shorter than the ids of the workspaces, as each row has them.
	Charged string `bun:",scanonly"`
}

// scanResults executes the statement, which has all parts but its end, and sets the results.
func scanResults(ctx context.Context, statement *db.Combined, all []*contribution) error {
	statement.Add("charged", `SELECT COALESCE(sum(links), 0) AS links, string_agg(number::TEXT, ',') AS numbers
		FROM missing JOIN quota USING (workspace_id)`)
	var rows []foundLink
	// The left join evaluates the division also if no link is found, and the condition makes the planner keep it.
	done, err := statement.QueryUnlessZero(ctx, "created", fmt.Sprintf(`SELECT checked, charged, %s FROM (
		SELECT EXISTS (SELECT FROM checks) AS checked, numbers AS charged,
			1 / ((SELECT count(*) FROM created) = links)::INT AS complete FROM charged
		) AS result LEFT JOIN found ON TRUE WHERE complete = 1`, statement.Columns("found", (*Link)(nil))), &rows)
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
	for i, c := range all {
		c.isRolledBack, c.isChecked = !done, done && rows[0].Checked
		c.isCharged, c.found = slices.Contains(charged, strconv.Itoa(i+1)), found[c.batch.member.ID()]
	}
	return nil
}

// addQuota adds the part quota, which consumes the links of workspaces whose quota suffices, and returns these
// workspaces. The part missing has the columns workspace_id, month, links and quota. The source is this part, or
// one with a subset of its rows.
func addQuota(statement *db.Combined, source string) {
	statement.Add("quota", fmt.Sprintf(`INSERT INTO link_usage AS u (workspace_id, month, links)
		SELECT workspace_id, month, links FROM %s ON CONFLICT (workspace_id, month)
		DO UPDATE SET links = u.links + excluded.links WHERE u.links + excluded.links <=
			(SELECT quota FROM missing WHERE missing.workspace_id = u.workspace_id) RETURNING workspace_id`, source))
}

// addInsertions adds the part created, which inserts the records that the condition selects in the workspaces of the
// part quota, and parts for their tags and events. They are in the order of their codes, which are unique over the
// instance, so that statements do not wait for each other in a circle.
func addInsertions(statement *db.Combined, all []*contribution, condition string) {
	var records []*record
	var tags []tag
	var events []*audit.Event
	for _, c := range all {
		records = append(records, c.records...)
		t, e := c.batch.derived(c.unresolved)
		tags, events = append(tags, t...), append(events, e...)
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.Code, b.Code) })
	in := insertFor(records)
	in.Rest = "WHERE input.workspace_id IN (SELECT workspace_id FROM quota) AND " + condition + " " + in.Rest
	db.AddInsert(statement, "created", in, records)
	db.AddInsert(statement, "tags", db.Insert{Rest: "WHERE input.link_id IN (SELECT id FROM created)"}, tags)
	audit.Add(statement, "input.target_id IN (SELECT id FROM created)", events...)
}
