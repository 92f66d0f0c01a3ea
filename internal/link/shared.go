package link

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/workspace"
)

// sharer combines concurrent batches of different workspaces, which do not wait long for a statement that is running.
type sharer = batcher.Batcher[struct{}, *share, struct{}]

// maxShared is the largest batch, in links, that shares its statement: the others wait for it.
const maxShared = 50

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

// execute executes the statement of a share. A batch with confirmed memberships does not share it: it has had a statement
// of its own already, and may be the second attempt of one whose destination keeps others from their links.
func (s *Store) execute(ctx context.Context, sh *share) (err error) {
	if sh.isPresumed && len(sh.items) <= maxShared {
		_, err = s.sharer.Do(ctx, struct{}{}, sh, s.executeShared)
		return err
	}
	return s.createAll(ctx, []*share{sh})
}

// executeShared executes as few statements as the size of the shares permits.
func (s *Store) executeShared(ctx context.Context, shares []*share) (struct{}, error) {
	for rest := shares; len(rest) > 0; {
		n := fitting(rest)
		if err := s.createAll(db.Unowned(ctx), rest[:n]); err != nil {
			return struct{}{}, err
		}
		rest = rest[n:]
	}
	return struct{}{}, nil
}

// fitting returns how many shares fit into a statement: one at least.
func fitting(shares []*share) (n int) {
	var rows []*record
	for _, sh := range shares {
		if rows = append(rows, sh.records...); n > 0 && !fitsStatement(rows) {
			break
		}
		n++
	}
	return n
}

// createAll executes one statement for shares of different workspaces, and sets the results of each.
func (s *Store) createAll(ctx context.Context, all []*share) error {
	c := s.DB.Combine()
	checks, possible := s.checks(c, all)
	if !possible {
		return nil
	}
	c.Add("checks", "SELECT WHERE "+checks)
	s.addLookup(c, all)
	month := c.Of(hitquota.MonthOf(all[0].now).String())
	from := "missing"
	if len(all) > 1 { // no workspace waits for transactions of another one, or for the first creation of its month
		from = "unlocked"
		c.Add(from, fmt.Sprintf(`SELECT missing.* FROM missing CROSS JOIN LATERAL (SELECT FROM link_usage AS u
			WHERE u.workspace_id = missing.workspace_id AND month = %s FOR UPDATE SKIP LOCKED) AS usage`, month))
	}
	addQuota(c, from, month)
	addInsertions(c, all, "(input.workspace_id, input.canonical_hash) NOT IN (SELECT workspace_id, canonical_hash FROM found)")
	return s.findOrCreate(ctx, c, all)
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
	var owners, ids []string
	var hashes [][]byte
	var wanted, quotas []int64
	for _, sh := range all {
		ids, quotas = append(ids, sh.member.ID()), append(quotas, s.QuotaOf(sh.member))
		wanted = append(wanted, int64(len(sh.items)))
		for _, it := range sh.items {
			owners, hashes = append(owners, sh.member.ID()), append(hashes, it.draft.CanonicalHash)
		}
	}
	// The lateral join is that of lookUp, also for many links: the unique index is the cheapest plan for each hash, even
	// while there are hardly any links.
	c.Add("found", fmt.Sprintf(`SELECT link.* FROM checks, unnest(%s::TEXT[], %s::BYTEA[]) AS wanted (workspace_id, hash)
		CROSS JOIN LATERAL (SELECT * FROM links WHERE workspace_id = wanted.workspace_id AND strategy = 'DETERMINISTIC'
			AND canonical_hash = wanted.hash OFFSET 0) AS link`, c.Of(owners), c.Of(hashes)))
	c.Add("missing", fmt.Sprintf(`SELECT workspace_id, wanted - count(found.id) AS links, quota
		FROM checks CROSS JOIN unnest(%s::TEXT[], %s::BIGINT[], %s::BIGINT[]) AS space (workspace_id, wanted, quota)
		LEFT JOIN found USING (workspace_id) GROUP BY workspace_id, wanted, quota
		HAVING wanted - count(found.id) BETWEEN 1 AND quota`, c.Of(ids), c.Of(wanted), c.Of(quotas)))
}

// foundLink is a row of the statement of createAll: an existing link, which is empty if there is none, and the results for
// all shares.
type foundLink struct {
	Link `bun:",extend"`

	Checked bool `bun:",scanonly"`
	// Charged are the ids of the workspaces whose quota was consumed, with commas between them.
	Charged string `bun:",scanonly"`
}

// findOrCreate executes the statement, which has all parts but its end, and sets the results.
func (s *Store) findOrCreate(ctx context.Context, c *db.Combined, all []*share) error {
	var spaces []string
	for _, sh := range all {
		spaces = append(spaces, sh.member.ID())
	}
	var rows []foundLink
	// The left join evaluates the division also if no link is found, and the condition makes the planner keep it.
	done, err := c.QueryUnlessZero(db.AsCreator(ctx, spaces...), "created", fmt.Sprintf(`SELECT checked, charged, %s FROM (
		SELECT EXISTS (SELECT FROM checks) AS checked, (SELECT string_agg(workspace_id, ',') FROM quota) AS charged,
			1 / ((SELECT count(*) FROM created) = (SELECT COALESCE(sum(links), 0) FROM missing JOIN quota USING (workspace_id))
			)::INT AS complete
		) AS result LEFT JOIN found ON TRUE WHERE complete = 1`, c.Columns("found", (*Link)(nil))), &rows)
	if err != nil {
		return err
	}
	found, charged := map[string][]*Link{}, []string{}
	for _, r := range rows {
		found[r.WorkspaceID] = append(found[r.WorkspaceID], &r.Link)
		charged = strings.Split(r.Charged, ",")
	}
	for _, sh := range all {
		sh.isRolledBack, sh.isChecked = !done, done && rows[0].Checked
		sh.isCharged, sh.found = slices.Contains(charged, sh.member.ID()), found[sh.member.ID()]
	}
	return nil
}

// addQuota adds the part quota, which consumes the links of workspaces whose quota suffices, and returns these. The part
// missing has the columns workspace_id, links and quota; from is SQL that selects rows of it.
func addQuota(c *db.Combined, from, month string) {
	c.Add("quota", fmt.Sprintf(`INSERT INTO link_usage AS u (workspace_id, month, links) SELECT workspace_id, %s, links FROM %s
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + excluded.links WHERE u.links + excluded.links <=
			(SELECT quota FROM missing WHERE missing.workspace_id = u.workspace_id) RETURNING workspace_id`, month, from))
}

// addInsertions adds the part created, which inserts the records that the condition selects in the workspaces of the
// part quota, and parts for their tags and events.
func addInsertions(c *db.Combined, all []*share, condition string) {
	var records []*record
	var tags []tag
	var events []*audit.Event
	for _, sh := range all {
		records = append(records, sh.records...)
		t, e := sh.derived(sh.items)
		tags, events = append(tags, t...), append(events, e...)
	}
	in := insertFor(records)
	in.Rest = "WHERE input.workspace_id IN (SELECT workspace_id FROM quota) AND " + condition + " " + in.Rest
	db.AddInsert(c, "created", in, records)
	db.AddInsert(c, "tags", db.Insert{Rest: "WHERE input.link_id IN (SELECT id FROM created)"}, tags)
	audit.Add(c, "input.target_id IN (SELECT id FROM created)", events...)
}
