// Package importer imports links of other services from files, as tasks. process.go runs the steps
// of an import, each in one transaction, and a dry run rolls them back; step.go executes a step,
// locate.go finds the host and workspace of each link, known.go reads the inputs of a step, and
// decide.go decides about each row. Package importsource reads the files, and packages creation and
// link write the links.
package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxHosts bounds the hosts of an import with a target.
	maxHosts = 100
	// maxLabel is the length of a label in characters.
	maxLabel = 100
)

// Store imports links.
type Store struct {
	DB       *db.DB
	Tasks    *task.Store
	Links    *link.Store
	Creation *creation.Store
	Folders  *folder.Store
	// Signer signs the URLs of uploads, which are at PublicURL.
	Signer    secrets.Signer
	PublicURL string
	// RootKeys sign codes at the root in archives, the first one, and verify them, all.
	RootKeys [][]byte
	// Client requests APIs, and Limits counts the requests to their hosts.
	Client *http.Client
	Limits ratelimit.Limiter
	// MaxBytes bounds the bytes read from an API, as uploads are bounded; zero means no limit.
	MaxBytes int64
	Now      func() time.Time
}

// ConflictPolicy is what happens to a row whose code belongs to another link. Its text is the name
// in the GraphQL schema.
type ConflictPolicy string

// The policies.
const (
	Skip    ConflictPolicy = "SKIP"    // the row is not imported
	Rename  ConflictPolicy = "RENAME"  // it gets the first free code of code-2 to code-99
	Replace ConflictPolicy = "REPLACE" // the existing link is changed to the row
)

// Settings are the arguments of an import. They are the input of its task.
type Settings struct {
	Source importsource.Source
	// Label names the account or instance that the rows come from.
	Label      string
	DryRun     bool
	OnConflict ConflictPolicy
	// Hosts are where the links of hosts go; others go to the verified domain of the same name, or
	// to the shared codes.
	Hosts []Host
	// FolderID is the folder of all links; nil means that of each row.
	FolderID *string
	// Tags are added to all links.
	Tags []string
	// API is where the rows are fetched; nil means that a file is uploaded.
	API *API `json:",omitempty"`
	// FileOf is the dry run whose file is imported; empty for the task's own.
	FileOf string `json:",omitempty"`
}

// source returns the settings of the source; links that end before its time have ended.
func (in *Settings) source(now time.Time) *importsource.Settings {
	s := &importsource.Settings{Source: in.Source, Label: in.Label, Now: now}
	if in.API != nil {
		s.BaseURL, s.Account, s.ClickTotals, s.Fetched = in.API.BaseURL, in.API.Account, in.API.ClickTotals, true
	}
	return s
}

// Host is where the links of a host of the source go.
type Host struct {
	Host string
	// DomainID is the domain that gets the links; nil means the shared codes.
	DomainID *string
}

// Create creates an import, which begins when its file has arrived, or at once with an API. It
// returns NotFound, InvalidInput, QuotaExceeded or Forbidden, also for an API on a server that
// cannot seal its token.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in Settings) (*task.Task, error) {
	var apiErr error
	if in.API != nil {
		apiErr = in.checkAPI()
	}
	in, err := s.check(ctx, m, in, apiErr)
	if err != nil {
		return nil, err
	}
	if in.API != nil {
		return s.Tasks.Create(ctx, m, task.New{
			Kind: task.Import, Status: task.Queued, Input: in, Source: string(in.Source), Secret: []byte(in.API.Token),
			KeepsFile: in.DryRun, Outside: true,
		})
	}
	return s.Tasks.Create(ctx, m, task.New{
		Kind: task.Import, Status: task.WaitingForUpload, Input: in, Source: string(in.Source), KeepsFile: in.DryRun,
	})
}

// Apply creates the import that a dry run has reported on. It returns NotFound, Conflict for a task
// that is no successful dry run, Expired if its file is no longer kept, QuotaExceeded or Forbidden.
func (s *Store) Apply(ctx context.Context, m workspace.Membership, taskID string) (*task.Task, error) {
	entered, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	dry, err := s.Tasks.Rows(m).Get(ctx, m, taskID)
	if err != nil {
		return nil, errs.From(err).At("taskId")
	}
	in, err := SettingsOf(dry)
	if err != nil {
		return nil, err
	}
	if !in.DryRun || dry.Status != task.Succeeded {
		return nil, errs.New(errs.Conflict, "The task is not a dry run that has succeeded.").At("taskId")
	}
	if hasFile, err := s.Tasks.HasFile(entered, dry.ID); err != nil {
		return nil, err
	} else if !hasFile {
		return nil, errs.New(errs.Expired, "The file of the dry run is no longer kept. Create another import.").
			At("taskId")
	}
	if in, err = s.check(ctx, m, in, nil); err != nil { // its folder or domain may have been deleted
		return nil, err
	}
	in.DryRun, in.FileOf = false, dry.ID
	return s.Tasks.Create(ctx, m,
		task.New{Kind: task.Import, Status: task.Queued, Input: in, Source: string(in.Source), Total: &dry.Done})
}

// uploads are the URLs that permit one upload.
var uploads = secrets.Purpose{Name: "linkforge.import", Remedy: "Create another import with createImport."}

// SignUpload returns the URL for the file of an import that waits for it, and when the URL expires.
// The session is that of the account that signs it, and empty for an API key.
func (s *Store) SignUpload(t *task.Task, sessionID string) (url string, until time.Time, err error) {
	until = t.CreatedAt.Add(task.UploadLife).UTC()
	token, err := s.Signer.Sign(uploads, &task.FileGrant{
		Grant:  secrets.Grant{WorkspaceID: t.WorkspaceID, ActorID: t.ActorID, SessionID: sessionID, Until: until},
		TaskID: t.ID,
	})
	return s.PublicURL + "/import/" + token, until, err
}

// OpenUpload returns the upload that a token of SignUpload permits. It returns NotFound or Expired.
func (s *Store) OpenUpload(token string) (*task.FileGrant, error) {
	u := &task.FileGrant{}
	return u, s.Signer.Open(uploads, token, u)
}

// SettingsOf returns the arguments of an import.
func SettingsOf(t *task.Task) (in Settings, err error) {
	if t.Kind != task.Import {
		return in, errs.New(errs.Conflict, "The task is not an import.").At("taskId")
	}
	if err := json.Unmarshal([]byte(t.Input), &in); err != nil {
		return in, fmt.Errorf("decoding the arguments of an import: %w", err)
	}
	return in, nil
}

// check returns the settings with canonical values. It returns NotFound, InvalidInput, with the error
// of the API, or Forbidden.
func (s *Store) check(ctx context.Context, m workspace.Membership, in Settings, apiErr error) (_ Settings, err error) {
	if ctx, err = m.Enter(ctx, workspace.WriteLinks); err != nil {
		return in, err
	}
	var labelErr, tagsErr, hostsErr error
	in.Label, labelErr = validate.Line("The label", in.Label, 0, maxLabel)
	in.Hosts, hostsErr = checkHosts(in.Hosts)
	in.Tags, tagsErr = linkfield.CheckTags(in.Tags)
	err = errs.All(apiErr, errs.At(labelErr, "label"), errs.Under(hostsErr, "hosts"), errs.Under(tagsErr, "tags"))
	if err != nil {
		return in, err
	}
	if in.FolderID, err = m.NewFolder(in.FolderID); err != nil {
		return in, err
	}
	if in.FolderID != nil {
		if _, err := s.Folders.Rows().Get(ctx, m, *in.FolderID); err != nil {
			return in, errs.From(err).At("folderId")
		}
	}
	return in, s.checkDomains(ctx, m, in.Hosts)
}

// checkHosts returns the hosts in canonical form. It returns InvalidInput.
func checkHosts(hosts []Host) ([]Host, error) {
	if len(hosts) > maxHosts {
		return nil, errs.New(errs.InvalidInput, "hosts has %d hosts, at most %d are allowed.", len(hosts), maxHosts)
	}
	known := map[string]bool{}
	return errs.Map(hosts, func(h Host) (_ Host, err error) {
		h.Host, err = domain.CanonicalHost(h.Host)
		if err == nil && known[h.Host] {
			err = errs.New(errs.InvalidInput, "hosts has %s twice.", h.Host).At("host")
		}
		known[h.Host] = true
		return h, err
	})
}

// checkDomains returns NotFound for domains of hosts that the workspace does not have.
func (s *Store) checkDomains(ctx context.Context, m workspace.Membership, hosts []Host) error {
	domains, err := s.domainsOf(ctx, m)
	if err != nil {
		return err
	}
	_, err = errs.Map(hosts, func(h Host) (_ any, err error) {
		isOfID := func(d *domain.Domain) bool { return h.DomainID != nil && d.ID == *h.DomainID }
		if h.DomainID != nil && !slices.ContainsFunc(domains, isOfID) {
			err = errs.New(errs.NotFound, "The workspace has no domain with the id %s.", *h.DomainID).At("domainId")
		}
		return nil, err
	})
	return errs.Under(err, "hosts")
}

// domainsOf returns the domains of a workspace.
func (s *Store) domainsOf(ctx context.Context, m workspace.Membership) (all []*domain.Domain, err error) {
	if err := s.DB.NewSelect().Model(&all).Where("workspace_id = ?", m.ID()).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading domains: %w", err)
	}
	return all, nil
}
