package upkeep

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// CheckLease is how long a caller of DueChecks has to check the URLs. After that they are due
// again, for other nodes.
const CheckLease = 15 * time.Minute

// Due is a URL to check: the destination of a link, or a URL of its routing.
type Due struct {
	LinkID string
	URL    string
	// Account is the one that is responsible for the workspace of the link.
	WorkspaceID, Account string
	// Failures is how many checks in a row have failed.
	Failures int
}

// DueChecks returns up to limit URLs that are due, the longest waiting first, except those of some
// workspaces, and postpones them by CheckLease in the same statement, so that concurrent callers get
// different ones. URLs of routings are at most half of them, so that neither kind delays the other
// without bound. Links that have ended are not checked, except for the URL that an expired link
// redirects to.
func (s *Store) DueChecks(ctx context.Context, limit int, except []string) ([]Due, error) {
	ctx = db.AsSystem(ctx)
	due, err := s.dueRoutingURLs(ctx, (limit+1)/2, except)
	if err != nil {
		return nil, fmt.Errorf("selecting URLs of routings to check: %w", err)
	}
	own, err := s.dueDestinations(ctx, limit-len(due), except)
	if err != nil {
		return nil, fmt.Errorf("selecting destinations to check: %w", err)
	}
	return append(own, due...), nil
}

// DoubtChecks makes URLs due that a node has postponed by a clock that was ahead: further than
// longest. It returns their number.
func (s *Store) DoubtChecks(ctx context.Context, longest time.Duration) (doubted int64, err error) {
	ctx, now := db.AsSystem(ctx), db.Instant(s.now())
	far := db.Latest(now, longest)
	links := s.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Where("check_at > ?", far)
	doubted, err = db.Affected(s.setMachine(assignment{"check_at", now}).Where("id IN (?)", s.DB.SkipLocked(links)).
		Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("doubting the checks of destinations: %w", err)
	}
	urls, err := s.doubtRoutingURLs(ctx, now, far)
	if err != nil {
		return doubted, fmt.Errorf("doubting the checks of URLs of routings: %w", err)
	}
	return doubted + urls, nil
}

func (s *Store) doubtRoutingURLs(ctx context.Context, now, far time.Time) (int64, error) {
	return db.Affected(s.DB.NewUpdate().Table("link_urls").Set("check_at = ?", now).Where("check_at > ?", far).
		Exec(ctx))
}

func (s *Store) dueDestinations(ctx context.Context, limit int, except []string) (due []Due, err error) {
	batch := s.whereCheckable(s.DB.NewSelect().Model((*link.Link)(nil)).Column("id")).
		Where("check_at <= ?", s.now()).Where("expires_at IS NULL OR expires_at > ?", s.now()).
		Apply(exceptOf("link.workspace_id", except)).Order("check_at").Limit(int64(limit))
	err = s.setMachine(assignment{"check_at", s.now().Add(CheckLease)}).
		Where("id IN (?)", s.DB.SkipLocked(batch)). // another caller has locked the others
		Returning("id AS link_id, workspace_id, original_url AS url, check_failures AS failures").
		Returning(responsible).Scan(ctx, &due)
	return due, err
}

func (s *Store) dueRoutingURLs(ctx context.Context, limit int, except []string) (due []Due, err error) {
	batch := s.DB.NewSelect().TableExpr("link_urls AS u").Column("u.link_id", "u.field").
		Where("u.check_at <= ?", s.now()).Where("EXISTS (?)", s.checkableLinkOf("u")).
		Apply(exceptOf("u.workspace_id", except)).Order("u.check_at").Limit(int64(limit))
	err = s.DB.NewUpdate().Table("link_urls").Set("check_at = ?", db.Instant(s.now().Add(CheckLease))).
		Where("(link_id, field) IN (?)", s.DB.SkipLocked(batch)).
		Returning("link_id, workspace_id, url, check_failures AS failures").
		Returning(responsible).Scan(ctx, &due)
	return due, err
}

// responsible is the account that is responsible for a changed row. SQLite knows no alias of the
// table there, and home keeps workspace_id from being that of the members.
var responsible = "(SELECT " + workspace.ResponsibleFor("home.id") +
	" FROM workspaces AS home WHERE home.id = workspace_id) AS account"

// exceptOf leaves out workspaces, of which there may be none.
func exceptOf(column string, workspaceIDs []string) func(*bun.SelectQuery) *bun.SelectQuery {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if len(workspaceIDs) == 0 {
			return q
		}
		return q.Where("? NOT IN (?)", bun.Ident(column), bun.In(workspaceIDs))
	}
}

// checkableLinkOf selects the link of a row of link_urls, if the URL is checked.
func (s *Store) checkableLinkOf(u bun.Ident) *bun.SelectQuery {
	return s.whereCheckable(s.DB.NewSelect().Model((*link.Link)(nil)).ColumnExpr("1")).Where("link.id = ?.link_id", u).
		Where("?.field = 'endedUrl' OR expires_at IS NULL OR expires_at > ?", u, s.now())
}

// whereCheckable restricts a query to links whose URLs are checked.
func (s *Store) whereCheckable(links *bun.SelectQuery) *bun.SelectQuery {
	return links.Where("deleted_at IS NULL AND disabled_at IS NULL AND purged_at IS NULL").
		Where("workspace_id NOT IN (SELECT id FROM workspaces WHERE deleted_at IS NOT NULL)")
}

// failuresToReport is how many checks in a row must fail before the event log has it.
const failuresToReport = 2

// CheckResult is the result of a check.
type CheckResult struct {
	// Status is the HTTP status; nil means that there was no response.
	Status *int
	// At is when the URL was checked, Next when the next check is due.
	At, Next time.Time
	// IsDoubtful means that the failure may be the server's own: no event is written.
	IsDoubtful bool
}

// State returns the state of the URL.
func (r *CheckResult) State() link.DestinationState { return link.StateOf(r.Status) }

// RecordCheck records a check and d.Failures wherever the link has the URL: as its destination, or
// in its routing. The second failure in a row, and the first success after it, write an event.
// Links that no longer have the URL are unchanged. The link's UpdatedAt does not change.
func (s *Store) RecordCheck(ctx context.Context, d Due, r CheckResult) error {
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		l := &link.Link{}
		// The lock orders the checks of a link, so that each event is written once.
		err := s.DB.ForUpdate(tx.NewSelect().Model(l).Where("id = ?", d.LinkID)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		before, err := reportedState(ctx, tx, l, d.URL)
		if err != nil {
			return err
		}
		after, action := r.report(l, before, d.Failures)
		if err := s.writeCheck(ctx, tx, d, r, after); err != nil || action == "" {
			return err
		}
		event := audit.New(l.WorkspaceID, "", action, l.ID, nil, r.At).WithURL(d.URL)
		return audit.Write(ctx, tx, event.WithChanges(audit.Compare(
			[]audit.Field{{Name: "destinationState", Value: cmp.Or(before, link.DestinationUnchecked)}},
			[]audit.Field{{Name: "destinationState", Value: after}})))
	})
	if err != nil {
		return fmt.Errorf("recording the response of a URL: %w", err)
	}
	return nil
}

// reportedState returns the reported state of a URL of the link, the worst one of its positions.
func reportedState(ctx context.Context, tx bun.Tx, l *link.Link, url string) (state link.DestinationState, err error) {
	var rows []link.URLRow
	err = tx.NewSelect().Model(&rows).Where("link_id = ?", l.ID).Where("url = ?", url).Scan(ctx)
	if err != nil {
		return "", err
	}
	if l.OriginalURL == url {
		state = l.ReportedState
	}
	for _, row := range rows {
		if row.ReportedState.HasFailed() || state == "" {
			state = row.ReportedState
		}
	}
	return state, nil
}

// report returns the state to report after a check, and the event; none if it is empty. Deleted and
// disabled links, and links without an account, have no events.
func (r *CheckResult) report(
	l *link.Link, before link.DestinationState, failures int,
) (link.DestinationState, audit.Action) {
	state := r.State()
	mayReport := !r.IsDoubtful && l.WorkspaceID != id.PublicWorkspace && l.DeletedAt == nil && l.DisabledAt == nil &&
		l.PurgedAt == nil
	switch {
	case state == link.DestinationOK && !before.HasFailed():
		return state, ""
	case !mayReport || before.HasFailed() == state.HasFailed() || state.HasFailed() && failures < failuresToReport:
		return before, ""
	case state.HasFailed():
		return state, audit.DestinationFailed
	}
	return state, audit.DestinationRecovered
}

// writeCheck writes the result of a check to all positions of the URL.
func (s *Store) writeCheck(ctx context.Context, tx bun.Tx, d Due, r CheckResult, reported link.DestinationState) error {
	columns := []assignment{
		{"destination_status", r.Status}, {"last_checked_at", db.Instant(r.At)},
		{"check_at", db.Instant(r.Next)}, {"check_failures", d.Failures},
		{"reported_state", bun.NullZero(string(reported))},
	}
	_, err := s.setMachine(columns...).Conn(tx).Where("id = ?", d.LinkID).Where("original_url = ?", d.URL).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = setColumns(tx.NewUpdate().Table("link_urls"), columns).Where("link_id = ?", d.LinkID).
		Where("url = ?", d.URL).Exec(ctx)
	return err
}

// RequestChecks makes the URLs of a link's routing due for a check.
func (s *Store) RequestChecks(ctx context.Context, linkID string) error {
	_, err := s.DB.NewUpdate().Table("link_urls").Set("check_at = ?", s.now()).Where("link_id = ?", linkID).
		Where("check_at > ?", s.now()).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("requesting checks of URLs: %w", err)
	}
	return nil
}

// PostponeChecks postpones the check of URLs that DueChecks has returned, without changing their
// results. Links whose URL has changed since are not postponed. Locked links are due again when
// CheckLease ends.
func (s *Store) PostponeChecks(ctx context.Context, due []Due, until time.Time) error {
	urls := make([][]string, 0, len(due))
	for _, d := range due {
		urls = append(urls, []string{d.LinkID, d.URL})
	}
	ctx = db.AsSystem(ctx)
	postponed := []assignment{{"check_at", db.Instant(until)}}
	if err := s.postponeDestinations(ctx, urls, postponed); err != nil {
		return fmt.Errorf("postponing destinations: %w", err)
	}
	if err := s.postponeRoutingURLs(ctx, urls, postponed); err != nil {
		return fmt.Errorf("postponing URLs of routings: %w", err)
	}
	return nil
}

func (s *Store) postponeDestinations(ctx context.Context, urls [][]string, postponed []assignment) error {
	links := s.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Where("(id, original_url) IN (?)", bun.In(urls)).
		Where("check_at > ?", s.now())
	_, err := s.setMachine(postponed...).Where("id IN (?)", s.DB.SkipLocked(links)).Exec(ctx)
	return err
}

func (s *Store) postponeRoutingURLs(ctx context.Context, urls [][]string, postponed []assignment) error {
	positions := s.DB.NewSelect().Table("link_urls").Column("link_id", "field").
		Where("(link_id, url) IN (?)", bun.In(urls)).Where("check_at > ?", s.now())
	_, err := setColumns(s.DB.NewUpdate().Table("link_urls"), postponed).
		Where("(link_id, field) IN (?)", s.DB.SkipLocked(positions)).Exec(ctx)
	return err
}
