package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/ingest"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/migrations"
)

// pool is how many connections the room has.
const pool = 10

// bench is a run on one database.
type bench struct {
	options
	kind  db.Kind
	total int
	// end is when the last click is: now.
	end           time.Time
	say           func(format string, args ...any)
	out, progress io.Writer

	services *rig.Services // nil on SQLite
	copier   *pgx.Conn     // the owner's, for COPY
	folder   string
	db       *db.DB
	captured *capture

	recorder *ingest.Recorder
	stop     func() error
	clock    atomic.Int64 // in microseconds
	store    *stats.Store
	members  []workspace.Membership

	stream   *stream
	events   []event
	today    int64 // the day of the last click that was sent
	untended int   // clicks since the jobs have run
	copied   int64
	rounds   []round
	sizes    []size
	answers  []answer
	checked  []string
	wrong    []string
}

// open makes a database, with everything that is there before the first click.
func (b *bench) open(ctx context.Context) (err error) {
	if b.folder, err = os.MkdirTemp("", "linkforge-bench."); err != nil {
		return err
	}
	if b.kind == db.Postgres {
		err = b.openPostgres(ctx)
	} else {
		b.db, err = db.OpenSQLite(filepath.Join(b.folder, "bench.db"), pool)
	}
	if err != nil {
		return err
	}
	if _, err = b.db.Migrate(ctx, migrations.Files, time.Now()); err != nil {
		return err
	}
	b.captured = &capture{}
	b.db.DB = b.db.WithQueryHook(b.captured)
	b.stream = newStream(b.options, b.total, b.end)
	b.events = make([]event, 0, b.total)
	b.set(b.stream.begin)
	b.store = &stats.Store{DB: b.db, ClickMonths: b.months, Now: b.now}
	if err := b.makeWorkspaces(ctx); err != nil {
		return err
	}
	if err := b.prepareCopy(ctx); err != nil {
		return err
	}
	return b.record()
}

// openPostgres creates a database of its own on the server.
func (b *bench) openPostgres(ctx context.Context) (err error) {
	if b.services, err = rig.OpenServices(ctx, b.databaseURL, os.Getenv("LINKFORGE_TEST_REDIS_URL")); err != nil {
		return err
	}
	if b.copier, err = pgx.Connect(ctx, b.services.DatabaseURL); err != nil {
		return err
	}
	b.db, err = db.OpenPostgres(b.services.DatabaseURL, pool)
	return err
}

// now is the clock of the clicks.
func (b *bench) now() time.Time { return time.UnixMicro(b.clock.Load()).UTC() }

func (b *bench) set(now time.Time) { b.clock.Store(now.UnixMicro()) }

// makeWorkspaces makes somebody, and the workspaces.
func (b *bench) makeWorkspaces(ctx context.Context) error {
	now := db.Instant(time.Now())
	a := account.Account{ID: id.New(id.Account), Email: "bench@example.com", Name: "Bench", CreatedAt: now, UpdatedAt: now}
	if _, err := b.db.NewInsert().Model(&a).Exec(db.AsSystem(ctx)); err != nil {
		return err
	}
	store := workspace.Store{DB: b.db, Now: time.Now}
	for n := range workspaces {
		m, err := store.Create(ctx, account.Actor{AccountID: a.ID}, fmt.Sprintf("Bench %d", n+1),
			fmt.Sprintf("bench-%d", n+1))
		if err != nil {
			return err
		}
		b.members = append(b.members, m)
	}
	return nil
}

// owner is whose a link is.
func (b *bench) owner(link int) workspace.Membership { return b.members[link%workspaces] }

// record starts the recorder.
func (b *bench) record() error {
	log, err := ingest.OpenLog(ingest.LogConfig{
		Dir:    filepath.Join(b.folder, "clicks"),
		Logger: slog.New(slog.NewTextHandler(b.progress, &slog.HandlerOptions{Level: slog.LevelWarn})), Now: b.now,
	})
	if err != nil {
		return err
	}
	b.recorder = ingest.NewRecorder(ingest.RecorderConfig{DB: b.db, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.recorder.Run(ctx) }()
	b.stop = func() error {
		cancel()
		return <-ended
	}
	return nil
}

// close leaves nothing behind.
func (b *bench) close() (err error) {
	if b.stop != nil {
		err = b.stop()
	}
	if b.db != nil {
		err = errors.Join(err, b.db.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also after an interrupt
	defer cancel()
	if b.copier != nil {
		err = errors.Join(err, b.copier.Close(ctx))
	}
	err = errors.Join(err, b.services.Close())
	if b.folder != "" {
		err = errors.Join(err, os.RemoveAll(b.folder))
	}
	return err
}

// problems are what the run must not have met.
func (b *bench) problems() error {
	if len(b.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(b.wrong, "\n"))
}

// wrongly notes something that the run must not have met.
func (b *bench) wrongly(format string, args ...any) {
	b.wrong = append(b.wrong, string(b.kind)+": "+fmt.Sprintf(format, args...))
}
