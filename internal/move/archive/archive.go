// Package archive writes workspaces to archives, as tasks. sections.go lists the sections of a
// workspace, record.go defines their records, and write.go runs the steps, which add one file of
// records each. Package importsource reads archives, and owns their form and that of the links in
// them. The GraphQL resolvers create and show exports, and the server sends the archives.
package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Section is a part of an archive. Its text is the name in the GraphQL schema, and in lower case
// that in archives.
type Section string

// The sections, in the order of archives.
const (
	Folders  Section = "FOLDERS"
	Domains  Section = "DOMAINS"
	Members  Section = "MEMBERS"
	Links    Section = "LINKS"
	Versions Section = "VERSIONS"
	Clicks   Section = "CLICKS"
	Audit    Section = "AUDIT"
)

// Store writes archives.
type Store struct {
	DB         *db.DB
	Tasks      *task.Store
	Accounts   *account.Store
	Workspaces *workspace.Store
	Folders    *folder.Store
	Domains    *domain.Store
	Imports    *importer.Store
	Ledger     *clickstore.Ledger
	Clicks     clickstore.Store
	// Signer signs the URLs of downloads, which are at PublicURL.
	Signer    secrets.Signer
	PublicURL string
	// MaxBytes is the largest size of an archive.
	MaxBytes int64
	Now      func() time.Time
}

// Settings are the arguments of an export. They are the input of its task.
type Settings struct {
	// Sections are in the order of archives.
	Sections []Section
	// Clicks are of the range; zero means all that are stored.
	Clicks clickstore.Range
}

// Create creates an export of sections; none means all that the member may read, except Clicks and
// Audit. It returns InvalidInput, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in Settings) (*task.Task, error) {
	var rangeErr, sectionsErr error
	if in.Clicks != (clickstore.Range{}) && !in.Clicks.From.Before(in.Clicks.To) {
		rangeErr = errs.New(errs.InvalidInput, "The range must begin before it ends.").At("clickRange")
	}
	var chosen []Section
	for _, one := range sections {
		isChosen := slices.Contains(in.Sections, one.is)
		if in.Sections == nil {
			isChosen = one.isDefault && m.May(one.permission)
		}
		if !isChosen {
			continue
		}
		if _, err := m.Enter(ctx, one.permission); err != nil {
			return nil, err
		}
		chosen = append(chosen, one.is)
	}
	if len(chosen) == 0 {
		sectionsErr = errs.New(errs.InvalidInput, "Choose at least one section.").At("sections")
	}
	if err := errs.All(sectionsErr, rangeErr); err != nil {
		return nil, err
	}
	in.Sections = chosen
	return s.Tasks.Create(ctx, m, task.New{Kind: task.WorkspaceExport, Status: task.Queued, Input: in, KeepsFile: true})
}

// Report has the counts of an export so far.
type Report struct {
	*task.Task
	Settings
	progress *progress
}

// ReportOf returns the report of an export; nil before its first step.
func ReportOf(t *task.Task) (*Report, error) {
	if t.Cursor == "" {
		return nil, nil
	}
	r := &Report{Task: t, progress: &progress{}}
	if err := json.Unmarshal([]byte(t.Input), &r.Settings); err != nil {
		return nil, fmt.Errorf("decoding the arguments of an export: %w", err)
	}
	if err := json.Unmarshal([]byte(t.Cursor), r.progress); err != nil {
		return nil, fmt.Errorf("decoding the progress of an export: %w", err)
	}
	return r, nil
}

// SchemaVersion returns the version of the form of the archive.
func (r *Report) SchemaVersion() int { return importsource.ArchiveVersion }

// Bytes returns the size of the archive, and SHA256 its hash in hexadecimal; nil until the export
// has succeeded.
func (r *Report) Bytes() *int64 {
	if r.Status != task.Succeeded {
		return nil
	}
	return &r.progress.Bytes
}

// SHA256 is described at Bytes.
func (r *Report) SHA256() *string {
	if r.Status != task.Succeeded {
		return nil
	}
	return &r.progress.SHA256
}

// RemovedAt returns when the archive is removed; nil until the export has succeeded.
func (r *Report) RemovedAt() *time.Time {
	if r.Status != task.Succeeded {
		return nil
	}
	return new(r.FinishedAt.Add(task.ArchiveLife).UTC())
}

// Name returns the name of the file.
func (r *Report) Name() string {
	return "linkforge-" + r.In.Slug() + "-" + r.progress.StartedAt.Format(time.DateOnly) + ".tar.gz"
}

// StartedAt returns when the archive was begun.
func (r *Report) StartedAt() time.Time { return r.progress.StartedAt }

// SectionReport is a section of an archive.
type SectionReport struct {
	Kind    Section
	Records int64
	// SHA256 is that of the files of the section in their order, without compression, in
	// hexadecimal.
	SHA256 string
}

// Parts returns the sections that are complete, in the order of the archive.
func (r *Report) Parts() []*SectionReport {
	parts := []*SectionReport{}
	for _, one := range r.progress.Sections {
		parts = append(parts,
			&SectionReport{Kind: Section(strings.ToUpper(one.Name)), Records: one.Records, SHA256: one.SHA256})
	}
	return parts
}

// downloadLife is how long the URL of an archive is good for.
const downloadLife = time.Hour

// downloads are the URLs that permit downloads of an archive.
var downloads = secrets.Purpose{Name: "linkforge.archive", Remedy: "Read the url of the task again."}

// SignDownload returns a URL of the archive; nil if there is none, or if the reader of the report
// may not read all of its sections. The session is that of the account, and empty for an API key.
func (s *Store) SignDownload(r *Report, sessionID string) (*string, error) {
	now := s.Now()
	if r.Status != task.Succeeded || !now.Before(*r.RemovedAt()) || !r.mayRead(r.In) {
		return nil, nil
	}
	token, err := s.Signer.Sign(downloads, &task.FileGrant{
		Grant: secrets.Grant{
			WorkspaceID: r.WorkspaceID, ActorID: r.In.ActorID(), SessionID: sessionID,
			Until: now.Add(downloadLife).UTC().Truncate(time.Second),
		},
		TaskID: r.ID,
	})
	return new(s.PublicURL + "/export/workspace/" + token), err
}

// OpenDownload returns the download that a token of SignDownload permits. It returns NotFound or
// Expired.
func (s *Store) OpenDownload(token string) (*task.FileGrant, error) {
	d := &task.FileGrant{}
	return d, s.Signer.Open(downloads, token, d)
}

// Open returns an archive with its report. It returns NotFound, Expired if it was removed, and
// Forbidden unless the member may read all of its sections.
func (s *Store) Open(ctx context.Context, m workspace.Membership, d *task.FileGrant) (*Report, *task.File, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.Tasks.Rows(m).Get(ctx, m, d.TaskID)
	if err != nil {
		return nil, nil, err
	}
	r, err := ReportOf(t)
	if err != nil {
		return nil, nil, err
	}
	if !r.mayRead(m) {
		return nil, nil, errs.New(errs.Forbidden, "The archive has sections that you may not read.")
	}
	file, err := s.Tasks.OpenFile(ctx, t.ID)
	return r, file, err
}

// mayRead reports whether a member may read all sections.
func (r *Report) mayRead(m workspace.Membership) bool {
	return !slices.ContainsFunc(sections, func(one section) bool {
		return slices.Contains(r.Sections, one.is) && !m.May(one.permission)
	})
}
