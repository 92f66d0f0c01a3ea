package stats

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// exportedAtOnce is how many clicks of an export are in memory.
const exportedAtOnce = 1000

// Export reads the clicks of a subject in a range in chronological order, and each click written
// before the call exactly once. It returns InvalidInput for a range with deleted clicks.
func (s *Stats) Export(ctx context.Context, each func([]*click.Click) error) error {
	ctx, err := s.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return err
	}
	for p := (clickstore.Page{Size: exportedAtOnce}); ; {
		if err := s.store.Clicks.CheckKept(ctx, s.Query); err != nil {
			return err
		}
		clicks, err := s.store.Clicks.List(ctx, s.Query, p)
		if err != nil {
			return err
		}
		if err := each(clicks); err != nil || len(clicks) < exportedAtOnce {
			return err
		}
		p.After = clicks[len(clicks)-1]
	}
}

// exportLife is how long a signed URL is good for.
const exportLife = 10 * time.Minute

// Format is how an export is written.
type Format string

// The formats: comma-separated values with a head, and a JSON object a line.
const (
	CSV       Format = "CSV"
	JSONLines Format = "JSON_LINES"
)

// ExportRequest is the download that a signed URL permits.
type ExportRequest struct {
	secrets.Grant
	LinkID   string                     `json:"l,omitempty"`
	FolderID *string                    `json:"d,omitempty"`
	From     time.Time                  `json:"f"`
	To       time.Time                  `json:"t"`
	Bots     *bool                      `json:"b,omitempty"`
	Values   map[click.Dimension]string `json:"v,omitempty"`
	Format   Format                     `json:"x"`
	// BOM begins a CSV file with a byte order mark, from which spreadsheets know that it is UTF-8.
	BOM bool `json:"m,omitempty"`
}

// exports are the URLs that permit one download of clicks.
var exports = secrets.Purpose{Name: "linkforge.export", Remedy: "Request a new one with exportClicks."}

// Exports signs what may be downloaded, so that a browser can do so without a token in a header.
type Exports struct {
	secrets.Signer
	// PublicURL is where the server answers.
	PublicURL string
}

// SignExport makes the URL, and returns when it expires. The session is the one of the account that
// signs it, and empty for an API key. The caller has checked that the member may read the stats, and
// CheckBOM.
func (e Exports) SignExport(
	s *Stats, folderID *string, f Format, bom bool, sessionID string,
) (url string, until time.Time, err error) {
	until = e.Now().Add(exportLife).UTC().Truncate(time.Second)
	token, err := e.Sign(exports, &ExportRequest{
		Grant: secrets.Grant{WorkspaceID: s.Member.ID(), ActorID: s.Member.ActorID(), SessionID: sessionID,
			Until: until},
		LinkID: s.LinkID, FolderID: folderID, From: s.From, To: s.To, Bots: s.Bots, Values: s.Values, Format: f,
		BOM: bom,
	})
	return e.PublicURL + "/export/clicks?token=" + token, until, err
}

// CheckBOM returns InvalidInput for a byte order mark in another format than CSV.
func CheckBOM(f Format, bom bool) error {
	if bom && f != CSV {
		return errs.New(errs.InvalidInput, "A byte order mark is for CSV only: omit bom.").At("bom")
	}
	return nil
}

// OpenExport returns the download that a token permits. It returns NotFound for a token that was
// not signed by this instance, and Expired.
func (e Exports) OpenExport(token string) (*ExportRequest, error) {
	r := &ExportRequest{}
	return r, e.Open(exports, token, r)
}
