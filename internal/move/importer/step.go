package importer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
)

// maxRenames is the number of the last code that RENAME tries, and renamesAtOnce how many a
// statement looks up.
const (
	maxRenames    = 99
	renamesAtOnce = 14
)

// step is one try of a step of an import.
type step struct {
	*process
	// from are the rows of the source.
	from []*source
	// items are the same rows, with the decisions about them, and what becomes of them.
	items []*item
	// isLast means that this is the last try.
	isLast bool
	// domains are those of the workspace.
	domains []*domain.Domain
	// targets are the ids of the domains that get the codes of hosts, by host.
	targets map[string]string
	// folding are the hosts whose case has been reported.
	folding []string
	// folders are the ids of folders by validate.Fold of their names, including new folders of the
	// step.
	folders map[string]string
	// newFolders are the folders that the step creates.
	newFolders []*folder.Folder
	// creation are the links that the step creates.
	creation *creation.Import
	// dryFolders are the names of folders that earlier rows of a dry run would have created.
	dryFolders map[string]bool

	// The other fields are the state of the transaction.

	// changed are the links that have changed.
	changed []*link.Link
	// toDelete are the ids of the links to delete.
	toDelete []string
	// next is the progress after the transaction.
	next *progress
}

// item is a row in a step. Its code can be found in three forms: code is how visitors write it, the
// column of links has lookupCode, and identity is what makes it equal to another one, without
// regard to case where the code space ignores that.
type item struct {
	from *source
	row  *Row
	// own is the link itself, if the row is a record of it; nil otherwise.
	own *own
	// domain gets the code; nil means the workspace.
	domain *domain.Domain
	// code is the code of the link, with its identity; empty for a generated one.
	code, identity string
	isRenamed      bool
	decision       decision
	// repeats is the earlier row of the import that the row repeats; nil for none.
	repeats *Row
	// wasDeleted means that the link to change was deleted.
	wasDeleted   bool
	folderID     *string
	hasNewFolder bool
	tags         []string

	// written is the row as the transaction leaves it, and link the link.
	written *Row
	link    *link.Link
}

// itemsWith returns the items with an act.
func (b *step) itemsWith(wanted act) (some []*item) {
	for _, it := range b.items {
		if it.decision.act == wanted {
			some = append(some, it)
		}
	}
	return some
}

// decide reads the stored state for the rows, and decides about each.
func (b *step) decide(ctx context.Context) error {
	all, err := b.loadOwn(ctx)
	if err != nil {
		return err
	}
	for i := range b.from {
		from := *b.from[i] // the next try begins with the row as it was read
		from.Losses = slices.Clip(from.Losses)
		it := &item{from: &from, row: newRow(b.Task, b.progress.Rows+int64(i)+1, &from)}
		if it.own = all[from.SourceID]; it.own == nil {
			b.locate(it)
		}
		b.items = append(b.items, it)
	}
	known, err := b.loadKnown(ctx)
	if err != nil {
		return err
	}
	if err := b.loadFolders(ctx); err != nil {
		return err
	}
	for _, it := range b.items {
		f := known.factsOf(it)
		it.decision = decide(it.from, it.row.CanonicalHash, f, b.in.OnConflict)
		if it.decision.act == renames {
			if err := b.rename(ctx, it, known); err != nil {
				return err
			}
		}
		b.chooseFolder(it)
		if it.decision.err != nil {
			it.row.setErr(it.decision.outcome, it.decision.err)
		}
		if f.earlier != nil && it.decision.outcome == Unchanged {
			it.repeats = f.earlier
		}
		if f.imported != nil && it.decision.act == changes && it.identity != "" &&
			it.identity != f.imported.CodeIdentity() {
			it.from.Losses = append(it.from.Losses,
				importsource.Loss{Field: "code", Reason: importsource.Unsupported, Value: encode(it.code)})
		}
		if it.row.Outcome = it.decision.outcome; it.isRenamed && it.decision.outcome == Created {
			it.row.Outcome = Renamed
		}
		if it.decision.act == leaves && it.decision.code != "" {
			it.row.Code = &it.decision.code
		}
		if it.own != nil && !f.isHidden {
			it.row.LinkID, it.row.Code = &it.own.ID, new(it.own.ShownCode())
		}
		known.add(it)
	}
	return nil
}

// prepare sets the tags of the links to create or change, and prepares their creation and the
// changes of routings.
func (b *step) prepare(ctx context.Context) (err error) {
	var inputs []*creation.Input
	for _, it := range b.itemsWith(creates) {
		it.setTags(b.in.Tags)
		inputs = append(inputs, it.input())
	}
	var routings []link.Routed
	for _, it := range b.itemsWith(changes) {
		it.setTags(b.in.Tags)
		routings = append(routings, link.Routed{Change: it.from.Routing.To, LinkID: it.decision.linkID})
	}
	if err := b.Links.PrepareRoutings(ctx, b.Member, routings); err != nil {
		return err
	}
	b.creation, err = b.Creation.NewImport(ctx, b.Member, inputs, b.OperationID)
	return err
}

// setTags gives the link the tags of the import and those of the row.
func (it *item) setTags(given []string) {
	if it.tags = union(given, it.from.Tags.To); len(it.tags) > linkfield.MaxTags {
		it.tags = it.tags[:linkfield.MaxTags]
		it.from.Losses = append(it.from.Losses, importsource.Loss{Field: "tags", Reason: importsource.Truncated})
	}
}

// union returns the tags, and those of more that are not among them.
func union(tags, more []string) []string {
	all := slices.Clone(tags)
	for _, tag := range more {
		if !slices.Contains(all, tag) {
			all = append(all, tag)
		}
	}
	return all
}

// input returns the input for the link of an item.
func (it *item) input() *creation.Input {
	from := it.from
	in := &creation.Input{URL: from.URL, Fields: from.Change}
	in.Fields.Tags, in.Fields.FolderID = optional.Set(it.tags), optional.Set(it.folderID)
	in.Fields.DropNulls()
	switch {
	case it.code != "":
		in.Strategy, in.CustomCode = new(link.Custom), &it.code
	case from.Deleted: // one that other links to the URL do not share
		in.Strategy = new(link.Random)
	}
	if it.domain != nil {
		in.DomainID = &it.domain.ID
	}
	return in
}

// loadFolders reads the folders of the workspace, if rows name some.
func (b *step) loadFolders(ctx context.Context) (err error) {
	hasName := func(it *item) bool { return it.from.Folder != nil }
	if b.in.FolderID != nil || !slices.ContainsFunc(b.items, hasName) {
		return nil
	}
	if b.folders, err = b.Folders.Names(ctx, b.Member); err != nil {
		return err
	}
	b.dryFolders, err = b.claimedFolders(ctx)
	return err
}

// chooseFolder gives an item that creates or changes a link the folder of the import, or else that
// of its row, which may be new.
func (b *step) chooseFolder(it *item) {
	it.folderID = b.in.FolderID
	if b.in.FolderID != nil || it.from.Folder == nil || it.decision.act != creates && it.decision.act != changes {
		return
	}
	key := validate.Fold(*it.from.Folder)
	folderID := b.folders[key]
	if folderID == "" {
		have := len(b.folders) + len(b.dryFolders)
		if b.dryFolders[key] { // and now for this step
			delete(b.dryFolders, key)
			have = 0
		}
		f, err := b.Folders.New(b.Member, *it.from.Folder, have)
		if err != nil {
			it.decision = decision{act: leaves, outcome: Failed, err: errs.From(err)}
			return
		}
		b.newFolders, it.hasNewFolder = append(b.newFolders, f), true
		folderID, b.folders[key] = f.ID, f.ID
	}
	it.folderID = &folderID
}

// The reasons for changes.
var (
	imported        = link.Reason{Action: audit.LinkUpdated, Cause: link.CauseImported}
	importedDeleted = link.Reason{Action: audit.LinkDeleted, Cause: link.CauseImported}
)

// finishCreations gives the items that create links their results.
func (b *step) finishCreations(results []link.Result) error {
	for i, it := range b.itemsWith(creates) {
		r := results[i]
		isNew := r.Created || r.Revived
		if it.from.Deleted && !isNew && r.Err == nil { // a member has created the link meanwhile
			r.Err = errCodeTaken()
		}
		switch {
		case errs.Is(r.Err, errs.CodeTaken) && it.code != "" && !b.isLast: // by a member, meanwhile
			return errOvertaken
		case errs.Is(r.Err, errs.CodeTaken) && b.in.OnConflict == Skip, errors.Is(r.Err, creation.ErrDeleted):
			it.written.setErr(Skipped, r.Err)
		case r.Err != nil:
			it.written.setErr(Failed, r.Err)
		default:
			if it.link = r.Link; !isNew {
				it.written.Outcome = Unchanged
			} else if it.from.Deleted {
				b.close(it)
			}
			it.written.isNew = r.Created
			b.describe(it, r.Created)
		}
	}
	return nil
}

// describe writes the code and the link of an item into its row. The links that a dry run creates
// do not last.
func (b *step) describe(it *item, isNew bool) {
	row := it.written
	row.hasEnded = row.Outcome != Unchanged && !it.from.Deleted && it.link.ExpiresAt != nil &&
		!it.link.ExpiresAt.After(b.Store.now())
	if it.code != "" || !b.in.DryRun || !isNew {
		row.Code = new(it.link.ShownCode())
	}
	if !b.in.DryRun || !isNew {
		row.LinkID = &it.link.ID
	}
}

// change changes the links of earlier imports, and replaced links.
func (b *step) change(ctx context.Context, tx bun.Tx) error {
	items := b.itemsWith(changes)
	for _, it := range b.itemsWith(records) {
		it.written.LinkID, it.link = optional.Of(it.decision.linkID), &link.Link{ID: it.decision.linkID}
		if it.decision.code != "" {
			it.written.Code = &it.decision.code
		}
	}
	if len(items) == 0 {
		return nil
	}
	e := link.Edits{OperationID: b.OperationID, NeedClicks: true, NeedTags: true, Reason: imported}
	for _, it := range items {
		e.IDs = append(e.IDs, it.decision.linkID)
	}
	e.Mutate = func(i int, l *link.Link) error { return b.apply(items[i], l) }
	results, err := b.Links.EditIn(ctx, tx, b.Member, e)
	if err != nil {
		return err
	}
	for i, r := range results {
		it := items[i]
		switch {
		case errs.Is(r.Err, errs.NotFound): // purged meanwhile
			return errOvertaken
		case r.Err != nil:
			it.written.setErr(Failed, r.Err)
			continue
		}
		it.link = r.Link
		b.changed = append(b.changed, r.Link)
		b.describe(it, false)
		if it.from.Deleted && !hasGate(r.Link) {
			b.close(it)
		}
	}
	return nil
}

// close has the link of an item deleted, and says so in the outcome of its row, unless the link was
// deleted already.
func (b *step) close(it *item) {
	if b.toDelete = append(b.toDelete, it.link.ID); !it.wasDeleted || it.decision.outcome == Created {
		it.written.Outcome = Closed
	}
}

// repeat gives rows that repeat an earlier one its link, or why it has none.
func (b *step) repeat() {
	for _, it := range b.items {
		if it.repeats == nil {
			continue
		}
		earlier := it.repeats
		for _, other := range b.items {
			if other.row == earlier { // of the same step, without its result
				earlier = other.written
			}
		}
		row := it.written
		row.Code, row.LinkID = earlier.Code, earlier.LinkID
		if earlier.Outcome == Failed || earlier.Outcome == Skipped {
			row.Outcome, row.Errors = earlier.Outcome, earlier.Errors
		}
	}
}

// deleteAll deletes the links that were deleted, blocked or used up at their source, or that cannot
// be protected here.
func (b *step) deleteAll(ctx context.Context, tx bun.Tx) error {
	if len(b.toDelete) == 0 {
		return nil
	}
	results, err := b.Links.EditIn(ctx, tx, b.Member, link.Edits{
		IDs: b.toDelete, Reason: importedDeleted, OperationID: b.OperationID,
		Mutate: func(_ int, l *link.Link) error {
			l.MarkDeleted(b.Store.now())
			return nil
		},
	})
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
		b.changed = append(b.changed, r.Link)
	}
	return err
}

// hasGate reports whether visitors of a link have to pass a gate.
func hasGate(l *link.Link) bool { return l.Routing != nil && l.Routing.Gate != nil }

// apply changes an existing link to a row. Fields that the source does not describe stay, unless
// the link is replaced. A link that was protected at its source keeps the gate that a member has
// given it here.
func (b *step) apply(it *item, l *link.Link) error {
	from := it.from
	it.wasDeleted = l.DeletedAt != nil
	if err := l.ChangeURL(from.URL, b.Store.now()); err != nil {
		return err
	}
	if !from.Deleted {
		if err := l.UnmarkDeleted(b.Store.now()); err != nil {
			return err
		}
	}
	has := func(field string) bool { return it.decision.isReplaced || slices.Contains(from.Describes, field) }
	change := from.Change
	for _, f := range linkfield.Fields {
		*f.IsSet(&change) = has(f.Name)
	}
	change.Tags = optional.Set(it.tags)
	if !has("tags") {
		change.Tags.To = union(l.Tags, b.in.Tags)
	}
	change.FolderID = optional.Edit[*string]{Set: has("folderId") || b.in.FolderID != nil, To: it.folderID}
	change.RedirectStatus.To = cmp.Or(change.RedirectStatus.To, b.Member.Workspace().DefaultRedirectStatus)
	change.Routing, change.URL.Set, change.KeepsPast = optional.Set(it.routing(l, has)), false, true
	return b.Links.Mutate(&change, l)
}

// routing returns the change of the routing of an existing link to that of the row.
func (it *item) routing(l *link.Link, has func(string) bool) *routing.Change {
	change := *it.from.Routing.To
	if !has(importsource.Gate) || it.from.Deleted && hasGate(l) {
		change.Gate = optional.Edit[*routing.GateChange]{}
	}
	change.Rules.Set = has(importsource.Rules)
	if !has(importsource.OtherRouting) {
		change.Bots, change.PendingURL.Set, change.ForwardPath.Set = optional.Edit[*routing.BotPolicy]{}, false, false
		change.QRSources.Set, change.Tests.Set = false, false
	}
	return &change
}

// origins returns the origins of the links that the step has imported, or found as they have to be,
// and past ones: where an archive says that they were imported from before.
func (b *step) origins() (rows, past []*Origin) {
	for _, it := range b.items {
		if it.link == nil || it.written.Outcome == Failed {
			continue
		}
		o := it.from.Origin
		rows = append(rows, &Origin{
			WorkspaceID: b.WorkspaceID, Source: b.in.Source, Label: b.in.Label, SourceID: it.from.SourceID,
			LinkID:    it.link.ID,
			SourceURL: optional.Of(it.from.SourceURL), Hash: it.row.Hash, SourceCreatedAt: o.CreatedAt,
			Clicks:        o.Clicks,
			LastClickedAt: o.LastClickedAt, ImportedAt: b.Store.now(), OperationID: &b.OperationID,
			RootProof: b.provedRoot(&it.from.Row),
		})
		for _, p := range it.from.Past {
			past = append(past, &Origin{
				WorkspaceID: b.WorkspaceID, Source: p.Source, Label: p.Label, SourceID: p.SourceID, LinkID: it.link.ID,
				SourceURL: p.SourceURL, Hash: []byte{}, SourceCreatedAt: p.CreatedAt, Clicks: p.Clicks,
				LastClickedAt: p.LastClickedAt,
				ImportedAt:    p.ImportedAt, OperationID: &b.OperationID,
			})
		}
	}
	return rows, past
}
