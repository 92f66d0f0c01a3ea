package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxStepRows, maxStepText and maxStepTime bound a step.
	maxStepRows = 500
	maxStepText = 4 << 20 // bytes of the descriptions of links
	maxStepTime = time.Second
	// maxRows bounds an import.
	maxRows = 1_000_000
)

// process is an import on this node.
type process struct {
	*Store
	*task.Holding
	in       Settings
	progress *progress
	// requests counts those of this holding. hasAnswers means that the progress has responses that
	// are not stored.
	requests   int
	hasAnswers bool
}

// Run implements task.Handler: it fetches the file of an import by API, and imports the rows of the
// file, from the first one on that is not imported yet.
func (s *Store) Run(ctx context.Context, h *task.Holding) (err error) {
	p := &process{Store: s, Holding: h}
	if p.in, err = SettingsOf(h.Task); err != nil {
		return err
	}
	if p.progress, err = progressOf(h.Task); err != nil {
		return err
	}
	if ctx, err = h.Member.Enter(ctx, workspace.WriteLinks); err != nil {
		return err
	}
	if p.in.API != nil && p.in.FileOf == "" {
		if err := p.fetch(ctx); err != nil {
			return err
		}
	}
	if p.in.Source == importsource.Linkforge && h.Cursor == "" {
		if err := p.openArchive(ctx); err != nil {
			return err
		}
	}
	if h.Total == nil { // before anything changes, so that a file that is not of the source changes nothing
		if err := p.countRows(ctx); err != nil {
			return err
		}
	}
	next, stop := iter.Pull2(p.rows(ctx))
	defer stop()
	for pacer := newReadPacer(); pacer.rows < p.progress.Rows; {
		if _, err, _ := next(); err != nil {
			return err
		}
		if err := pacer.next(ctx); err != nil {
			return err
		}
	}
	h.Prepared()
	size := maxStepRows
	for {
		began := time.Now() // not the injected clock: this is about the machine's load
		rows, err := p.read(next, size)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := p.step(ctx, rows); err != nil {
			return err
		}
		took := time.Since(began)
		if took > maxStepTime {
			size = max(1, size/2)
		} else {
			size = min(2*size, maxStepRows)
		}
		if err := h.Rest(ctx, took); err != nil {
			return err
		}
	}
}

// countRows reads the whole file, and notes how many rows it has. It returns InvalidInput for a
// file that is not of the source.
func (p *process) countRows(ctx context.Context) error {
	pacer := newReadPacer()
	for _, err := range p.rows(ctx) {
		if err != nil {
			return err
		}
		if err := pacer.next(ctx); err != nil {
			return err
		}
		if pacer.rows > maxRows {
			return errs.New(errs.InvalidInput, "The file has more than %d rows. Split it.", maxRows)
		}
	}
	p.Total = &pacer.rows
	return p.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		return p.Step(ctx, tx, encode(p.progress), 0, p.Total)
	})
}

// rowsPerRest is how many rows are only read without a rest.
const rowsPerRest = 1000

// readPacer counts rows that are only read, and rests after each rowsPerRest of them for as long as they
// took: half of the time is for requests. Unlike Rest it does not end the turn, because the next one
// would read them again.
type readPacer struct {
	rows  int64
	began time.Time
}

func newReadPacer() *readPacer { return &readPacer{began: time.Now()} }

func (r *readPacer) next(ctx context.Context) error {
	if r.rows++; r.rows%rowsPerRest != 0 {
		return nil
	}
	err := poll.Wait(ctx, min(time.Since(r.began), maxStepTime))
	r.began = time.Now()
	return err
}

// openArchive compares the files of an archive with its manifest, and creates its folders,
// including folders without links. It returns InvalidInput.
func (p *process) openArchive(ctx context.Context) error {
	file, err := p.file(ctx)
	if err != nil {
		return err
	}
	names, err := importsource.CheckArchive(file)
	if err != nil {
		return err
	}
	var created []*folder.Folder
	if !p.in.DryRun && p.in.FolderID == nil {
		have, err := p.Folders.Names(ctx, p.Member)
		if err != nil {
			return err
		}
		for _, name := range names {
			f, err := p.Folders.New(p.Member, name, len(have))
			if err != nil { // the rows in the folder say why it is not created
				continue
			}
			if have[f.NameKey] == "" {
				created, have[f.NameKey] = append(created, f), f.ID
			}
		}
	}
	return p.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := p.Folders.Insert(ctx, tx, p.Member, created...); err != nil {
			return err
		}
		return p.Step(ctx, tx, encode(p.progress), 0, p.Total)
	})
}

// file returns the file of the import.
func (p *process) file(ctx context.Context) (*task.File, error) {
	return p.Tasks.OpenFile(ctx, cmp.Or(p.in.FileOf, p.ID))
}

// rows returns the rows of the file.
func (p *process) rows(ctx context.Context) iter.Seq2[*importsource.Row, error] {
	file, err := p.file(ctx)
	if err != nil {
		return func(yield func(*importsource.Row, error) bool) { yield(nil, err) }
	}
	return importsource.Rows(p.in.source(p.CreatedAt), file)
}

// read returns the next rows, at most n, and no more passwords than one call may set.
func (p *process) read(next func() (*importsource.Row, error, bool), n int) (rows []*source, err error) {
	for passwords, text := 0, 0; len(rows) < n && passwords < link.MaxPasswords && text < maxStepText; {
		row, err, ok := next()
		if err != nil || !ok {
			return rows, err
		}
		if row.Routing.To.NewPassword() != nil {
			passwords++
		}
		rows = append(rows, p.newSource(row))
		text += rows[len(rows)-1].size
	}
	return rows, nil
}

// errOvertaken means that another transaction has changed rows that a step has read.
var errOvertaken = errors.New("the step must run again")

// step imports rows, in one transaction.
func (p *process) step(ctx context.Context, rows []*source) error {
	for races := 0; ; races++ {
		err := p.attempt(ctx, rows, races == link.MaxRaces)
		if !errors.Is(err, errOvertaken) && !db.IsOvertaken(err) {
			return err
		}
		if races == link.MaxRaces {
			return errs.New(errs.Unavailable, "Others change the same links at the same time.").Because(err)
		}
	}
}

// attempt is one try of a step, or its last one.
func (p *process) attempt(ctx context.Context, rows []*source, isLast bool) (err error) {
	b := &step{
		process: p, isLast: isLast, from: rows, folding: slices.Clone(p.progress.Folding),
		targets: map[string]string{},
	}
	if b.domains, err = p.domainsOf(ctx, p.Member); err != nil {
		return err
	}
	if err := b.decide(ctx); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for err = creation.ErrRetry; errors.Is(err, creation.ErrRetry); {
		if err := b.creation.Prepare(ctx); err != nil {
			return err
		}
		err = p.DB.Tx(ctx, b.run)
	}
	if errors.Is(err, errDry) {
		err = p.DB.Tx(ctx, b.saveDry)
	} else if err == nil {
		b.creation.Announce(ctx)
	}
	if err != nil {
		return err
	}
	p.progress = b.next
	for _, l := range b.changed {
		p.Links.Forget(l)
	}
	return nil
}

// errDry rolls back the transaction of a dry run.
var errDry = errors.New("a dry run changes nothing")

// run is the transaction of a step: it creates folders, creates, changes and deletes links, and
// writes origins, outcomes and progress. In a dry run, the links of earlier steps count.
func (b *step) run(ctx context.Context, tx bun.Tx) error {
	if b.in.DryRun {
		usage := link.NewUsage(b.WorkspaceID, b.Store.now(), int(b.progress.New))
		if _, err := link.AddUsage(ctx, tx, "", usage); err != nil {
			return err
		}
	}
	if err := b.Folders.Insert(ctx, tx, b.Member, b.newFolders...); err != nil {
		return err
	}
	results, err := b.creation.In(ctx, tx)
	if err != nil {
		return err
	}
	b.changed, b.toDelete = nil, nil
	for _, it := range b.items {
		row := *it.row
		if len(it.from.Losses) > 0 {
			row.Losses = new(encode(it.from.Losses))
		}
		it.written, it.link = &row, nil
	}
	if err := b.finishCreations(results); err != nil {
		return err
	}
	if err := b.change(ctx, tx); err != nil {
		return err
	}
	if err := b.deleteAll(ctx, tx); err != nil {
		return err
	}
	b.repeat()
	b.next = b.progress.with(b.items, b.folding, b.targets)
	if b.in.DryRun {
		return errDry
	}
	origins, past := b.origins()
	if err := saveOrigins(ctx, tx, b.DB.Kind, origins); err != nil {
		return fmt.Errorf("writing origins: %w", err)
	}
	if err := savePast(ctx, tx, past); err != nil {
		return fmt.Errorf("writing earlier origins: %w", err)
	}
	return b.save(ctx, tx)
}

// save writes outcomes and progress. Of rows that failed or were skipped, those beyond maxKept are
// counted only.
func (b *step) save(ctx context.Context, tx bun.Tx) error {
	kept := b.progress.keep(b.items)
	if err := db.InsertRows(ctx, tx, db.Insert{}, kept); err != nil {
		return fmt.Errorf("writing the rows of an import: %w", err)
	}
	if err := b.AddRows(ctx, tx, len(kept)); err != nil {
		return fmt.Errorf("counting the rows of an import: %w", err)
	}
	return b.Step(ctx, tx, encode(b.next), b.next.Rows, b.Total)
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }
