package stats

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickstore"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/workspace"
)

// exportedAtOnce is how many clicks of an export are in memory.
const exportedAtOnce = 1000

// Export reads the clicks of a subject in a range, in the order of time, each of those that were
// written before exactly once. It returns InvalidInput for a range of which clicks are deleted.
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
	WorkspaceID string                     `json:"w"`
	LinkID      string                     `json:"l,omitempty"`
	FolderID    *string                    `json:"d,omitempty"`
	From        time.Time                  `json:"f"`
	To          time.Time                  `json:"t"`
	Bots        *bool                      `json:"b,omitempty"`
	Values      map[click.Dimension]string `json:"v,omitempty"`
	Format      Format                     `json:"x"`
	// BOM begins a CSV file with a byte order mark, from which spreadsheets know that it is UTF-8.
	BOM bool `json:"m,omitempty"`
	// Actor is the id of the account or the API key that signed it.
	Actor string `json:"a"`
	// SessionID is the session that signed it; empty for an API key.
	SessionID string `json:"s,omitempty"`
	// Until is when it ends.
	Until time.Time `json:"u"`
}

// Exports signs what may be downloaded, so that a browser can do so without a token in a header.
type Exports struct {
	// Secrets are the keys of the instance: the first signs, all verify.
	Secrets [][]byte
	// PublicURL is where the server answers.
	PublicURL string
	// Now is the clock.
	Now func() time.Time
}

// Sign makes the URL, and returns when it expires. The session is the one of the account that signs
// it, and empty for an API key. The caller has checked that the member may read the stats.
// It returns InvalidInput for a byte order mark in another format than CSV.
func (e Exports) Sign(s *Stats, folderID *string, f Format, bom bool, sessionID string) (url string, until time.Time, err error) {
	if bom && f != CSV {
		return "", until, errs.New(errs.InvalidInput, "A byte order mark is for CSV only: omit bom.").At("bom")
	}
	until = e.Now().Add(exportLife).UTC().Truncate(time.Second)
	payload, err := json.Marshal(ExportRequest{
		WorkspaceID: s.Member.ID(), LinkID: s.LinkID, FolderID: folderID, From: s.From, To: s.To, Bots: s.Bots, Values: s.Values, Format: f, BOM: bom,
		Actor: s.Member.ActorID(), SessionID: sessionID, Until: until,
	})
	if err != nil {
		return "", until, err
	}
	text := base64.RawURLEncoding.EncodeToString(payload)
	signature := base64.RawURLEncoding.EncodeToString(sign(e.Secrets[0], text))
	return e.PublicURL + "/export/clicks?token=" + text + "." + signature, until, nil
}

// Open returns the download that a token permits. It returns NotFound for a token that was not
// signed by this instance, and Expired.
func (e Exports) Open(token string) (*ExportRequest, error) {
	text, signature, _ := strings.Cut(token, ".")
	signed, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !e.verifies(text, signed) {
		return nil, errs.New(errs.NotFound, "There is no such export. Request a new one with exportClicks.")
	}
	payload, err := base64.RawURLEncoding.DecodeString(text)
	r := &ExportRequest{}
	if err == nil {
		err = json.Unmarshal(payload, r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading an export that was signed here: %w", err)
	}
	if !e.Now().Before(r.Until) {
		return nil, errs.New(errs.Expired, "This export has expired. Request a new one with exportClicks.")
	}
	return r, nil
}

// verifies reports whether one of the keys has signed the text.
func (e Exports) verifies(text string, signature []byte) bool {
	return slices.ContainsFunc(e.Secrets, func(secret []byte) bool { return hmac.Equal(signature, sign(secret, text)) })
}

func sign(secret []byte, text string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("linkforge.export\n" + text)) // what else the secret signs is no export
	return mac.Sum(nil)
}
