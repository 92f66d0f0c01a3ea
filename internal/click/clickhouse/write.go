package clickhouse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// errOvertaken means that another process writes the log.
var errOvertaken = errors.New("another process writes the click log")

// Write implements clickstore.Store. ClickHouse has no transactions, so the SQL database decides:
//
//  1. The log's row says which ids the batch has, before any of it is sent.
//  2. The batch is inserted.
//  3. In one transaction the totals are added, the position moves on, and the row forgets the ids.
//
// While the row has the ids of an attempt, that attempt may have inserted everything, a part or
// nothing. The next attempt, of this or another process, marks it in the row as given up, removes
// its clicks, and starts again with new ids, and perhaps another batch.
func (s *Store) Write(ctx context.Context, b clickstore.Batch) error {
	ctx = db.AsSystem(ctx)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	log, err := s.logOf(ctx, b.Log)
	if err != nil {
		return fmt.Errorf("reading the position of a click log: %w", err)
	}
	clicks := slices.Clone(b.After(log.Position))
	if len(clicks) == 0 {
		return s.skip(ctx, log, b.To)
	}
	if log.SendingID != 0 {
		if err := s.giveUp(ctx, log); err != nil {
			return fmt.Errorf("removing clicks of an attempt that has no end: %w", err)
		}
	}
	if err := s.number(ctx, clicks); err != nil {
		return err
	}
	if err := s.begin(ctx, log, clicks); err != nil {
		return fmt.Errorf("beginning to write %d clicks: %w", len(clicks), err)
	}
	err = s.insert(ctx, clicks)
	if err == nil {
		err = s.end(ctx, log, b.To, clicks)
	}
	if err != nil {
		return fmt.Errorf("writing %d clicks: %w", len(clicks), err)
	}
	return nil
}

// logRow is the row of a click log.
type logRow struct {
	bun.BaseModel `bun:"table:click_logs,alias:log"`

	ID       string `bun:",pk"`
	Position int64
	// SendingID is the first of the SendingClicks ids of the batch that is being sent; zero if
	// there is none. The number is negative when the attempt was given up: then it can no longer
	// end.
	SendingID     int64 `bun:"_sending_id"`
	SendingClicks int64 `bun:"_sending_clicks"`
}

// logOf reads the row of a log, and makes one if there is none.
func (s *Store) logOf(ctx context.Context, logID string) (*logRow, error) {
	log := &logRow{ID: logID}
	_, err := s.DB.NewInsert().Model(log).On("CONFLICT (id) DO UPDATE").Set("position = ?TableAlias.position").
		Returning("*").
		Exec(ctx)
	return log, err
}

// move changes the row of a log unless another process has changed it.
func (s *Store) move(ctx context.Context, on bun.IDB, from *logRow, to logRow) error {
	n, err := db.Affected(on.NewUpdate().Model(&to).Column("position", "_sending_id", "_sending_clicks").
		Where("id = ?", from.ID).Where("position = ?", from.Position).Where("_sending_id = ?", from.SendingID).
		Where("_sending_clicks = ?", from.SendingClicks).Exec(ctx))
	if err == nil && n == 0 {
		err = errOvertaken
	}
	return err
}

// giveUp ends an attempt, whose insert may still be in flight, and then removes the clicks that it
// has inserted.
func (s *Store) giveUp(ctx context.Context, log *logRow) error {
	if log.SendingClicks > 0 {
		given := *log
		given.SendingClicks = -log.SendingClicks
		if err := s.move(ctx, s.DB, log, given); err != nil {
			return err
		}
		*log = given
	}
	return s.undo(ctx, log.SendingID, -log.SendingClicks)
}

// skip moves the position over records that are no clicks. An attempt without end stays for the
// next clicks.
func (s *Store) skip(ctx context.Context, log *logRow, to int64) error {
	if log.Position >= to {
		return nil
	}
	moved := *log
	moved.Position = to
	return s.move(ctx, s.DB, log, moved)
}

// number gives clicks their ids, and the workspaces that their links have now.
func (s *Store) number(ctx context.Context, clicks []click.Click) error {
	first, err := s.ids.Take(ctx, s.DB, int64(len(clicks)))
	if err != nil {
		return err
	}
	workspaces, err := clickstore.WorkspacesOfLinks(ctx, s.DB, linksOf(clicks))
	if err != nil {
		return err
	}
	for i := range clicks {
		clicks[i].ID = first + int64(i)
		if now := workspaces[clicks[i].LinkID]; now != "" {
			clicks[i].WorkspaceID = now
		}
	}
	return nil
}

// linksOf are the ids of the links of clicks.
func linksOf(clicks []click.Click) []string {
	links := make([]string, len(clicks))
	for i := range clicks {
		links[i] = clicks[i].LinkID
	}
	slices.Sort(links)
	return slices.Compact(links)
}

// begin notes the ids of clicks that are about to be sent.
func (s *Store) begin(ctx context.Context, log *logRow, clicks []click.Click) error {
	next := logRow{ID: log.ID, Position: log.Position, SendingID: clicks[0].ID, SendingClicks: int64(len(clicks))}
	if err := s.move(ctx, s.DB, log, next); err != nil {
		return err
	}
	*log = next
	return nil
}

// end counts clicks that have been inserted.
func (s *Store) end(ctx context.Context, log *logRow, position int64, clicks []click.Click) error {
	return s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.move(ctx, tx, log, logRow{ID: log.ID, Position: position}); err != nil {
			return err
		}
		moved, err := clickstore.AddTotals(ctx, tx, clicks)
		if err != nil {
			return err
		}
		if err := queueMoves(ctx, tx, moved); err != nil {
			return err
		}
		return clickstore.Announce(ctx, tx, clicks, s.Now())
	})
}

// columns are those of both tables of single clicks, in the order of appendClick, and types their
// types.
var columns, types = func() (names, types string) {
	types = "workspace_id String, link_id String, clicked_at DateTime64(6, 'UTC'), id Int64, latency_ns Int64, bot " +
		"Bool, status Int32"
	names = "workspace_id, link_id, clicked_at, id, latency_ns, bot, status"
	for _, d := range click.VisitDimensions {
		types, names = types+", "+d.Column+" String", names+", "+d.Column
	}
	return names, types
}()

// insert inserts clicks whose ids are consecutive. A click of a month whose single clicks are
// deleted is refused: the counts of the month are final.
func (s *Store) insert(ctx context.Context, clicks []click.Click) error {
	bounds, err := s.bounds(ctx)
	if err != nil {
		return err
	}
	forgotten := bounds[forgottenBound]
	for i := range clicks {
		if at := clicks[i].ClickedAt; at.Before(forgotten) {
			return fmt.Errorf("%w: it is of %s, and months before %s are counted", clickstore.ErrRefused,
				at.Format(time.DateOnly),
				forgotten.Format(time.DateOnly))
		}
	}
	since := clickstore.Later(s.Now().Add(-openFor).UTC().Truncate(click.Day), bounds[sealedBound])
	open, late := encode(clicks, since)
	attempt := clicks[0].ID
	// The days may be sealed before the statement begins.
	stillOpen := render("? AND throwIf((SELECT max(at) FROM bounds WHERE name = ?) > ?) = 0", sql(unfenced(attempt)),
		sealedBound, since)
	err = s.insertAs(ctx, "clicks_open", "visitor", "visitor Int64", stillOpen, s.queryID(attempt, "open"), open)
	if err == nil {
		err = s.insertAs(ctx, "clicks", "visit, late", "visit Bool, late Bool", unfenced(attempt),
			s.queryID(attempt, "late"), late)
	}
	return err
}

// insertAs inserts rows under a condition, such as that the attempt has not been given up: a
// request that was sent before may still be on its way.
func (s *Store) insertAs(
	ctx context.Context, table, more, moreTypes, condition, queryID string, rows []byte,
) error {
	if len(rows) == 0 {
		return nil
	}
	all := sql(columns + ", " + more)
	_,
		err := s.client.send(ctx,
		render("INSERT INTO ? (?) SELECT ? FROM input(?) WHERE ? FORMAT RowBinary", sql(table), all, all,
			types+", "+moreTypes, sql(condition)), rows, "query_id", queryID, "max_partitions_per_insert_block", "0",
		"insert_deduplicate", "0")
	if e, ok := errors.AsType[*exception](err); ok && slices.Contains(refusedCodes, e.code) {
		return fmt.Errorf("%w: %w", clickstore.ErrRefused, err)
	}
	return err
}

// queryID is that of a statement of an attempt, or of a job. Another database of the server may
// have the same attempt.
func (s *Store) queryID(of, statement any) string {
	return fmt.Sprintf("linkforge-%s-%v-%v", database(s.URL), of, statement)
}

// kill ends the statements of an attempt, or of a job, and waits for their ends.
func (s *Store) kill(ctx context.Context, of any) error {
	return s.client.run(ctx, "KILL QUERY WHERE startsWith(query_id, ?) SYNC", s.queryID(of, ""))
}

// unfenced is the condition of a statement that an attempt has not been given up.
func unfenced(attempt int64) string {
	return render("(SELECT count() FROM fences WHERE attempt = ?) = 0", attempt)
}

// fence makes sure that an attempt inserts nothing from now on: either its statement begins later,
// and sees the fence, or it runs, and is waited for.
func (s *Store) fence(ctx context.Context, attempt int64) error {
	if err := s.client.run(ctx, "INSERT INTO fences (attempt) VALUES (?)", attempt); err != nil {
		return err
	}
	return s.kill(ctx, attempt)
}

// undo removes the clicks that an attempt has inserted. Few attempts have late clicks, and a
// deletion looks at each part of a table.
func (s *Store) undo(ctx context.Context, first, n int64) error {
	if err := s.fence(ctx, first); err != nil {
		return err
	}
	among := render("id >= ? AND id < ?", first, first+n)
	if err := s.client.run(ctx, "ALTER TABLE clicks_open DELETE WHERE ?", sql(among)); err != nil {
		return err
	}
	if late, err := s.has(ctx, "clicks", among); err != nil || !late {
		return err
	}
	return s.client.run(ctx, "ALTER TABLE clicks DELETE WHERE ?", sql(among))
}

// openFor is how long after its day the visitor of a click is compared with others. A click that
// comes later is the first of its visitor if no other of its batch is. Its day is sealed a day
// after that, when no such batch is being sent.
const openFor = clickstore.VisitorsKept

// encode writes clicks of the days that are open, since an instant, and late ones, as RowBinary.
func encode(clicks []click.Click, since time.Time) (open, late []byte) {
	type who struct {
		linkID       string
		day, visitor int64
	}
	seen := map[who]bool{}
	for i := range clicks {
		c := &clicks[i]
		if !c.ClickedAt.Before(since) {
			open = appendInt(appendClick(open, c), c.Visitor)
			continue
		}
		one := who{c.LinkID, click.DayOf(c.ClickedAt), c.Visitor}
		isVisit := c.Visitor != 0 && !c.Bot && !seen[one]
		seen[one] = seen[one] || isVisit
		late = appendBool(appendBool(appendClick(late, c), isVisit), true)
	}
	return open, late
}

func appendClick(b []byte, c *click.Click) []byte {
	b = click.AppendText(click.AppendText(b, c.WorkspaceID), c.LinkID)
	b = appendInt(appendInt(b, c.ClickedAt.UnixMicro()), c.ID)
	b = appendBool(appendInt(b, nanoseconds(c.LatencyMs)), c.Bot)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(c.Status)))
	for _, d := range click.VisitDimensions {
		b = click.AppendText(b, *d.Text(c))
	}
	return b
}

func appendInt(b []byte, n int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(n)) }

func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// nanoseconds is a latency as it was measured.
func nanoseconds(ms float64) int64 {
	const most = float64(100 * 365 * click.Day)
	return int64(math.Round(min(max(ms*float64(time.Millisecond), -most), most)))
}
