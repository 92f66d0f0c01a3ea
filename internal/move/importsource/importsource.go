// Package importsource owns how other link shorteners and common file formats describe links, and
// what becomes of each of their properties here. Rows reads a file (reader.go, scanner.go), and a
// Fetcher the items of an API (fetch.go, apis.go), which Rows then reads like a file. A table for
// each source (services.go, shlink.go, archivemapping.go) names the setter of each property
// (fields.go, routing.go, values.go), which the mapper applies (mapping.go). One table for all of
// them has the usual names of what closes a link (usual.go).
//
// It uses no database, network or clock: the caller sends the requests and states the time. The
// caller decides where the links of a host go, whether a code is free and allowed there, and what a
// second import changes.
package importsource

import (
	"io"
	"iter"
	"time"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Source is where imported links come from. Its text is the name in the GraphQL schema.
type Source string

// The sources.
const (
	Bitly     Source = "BITLY"
	Dub       Source = "DUB"
	Kutt      Source = "KUTT"
	Linkforge Source = "LINKFORGE"
	Rebrandly Source = "REBRANDLY"
	Shlink    Source = "SHLINK"
	ShortIO   Source = "SHORT_IO"
	Sink      Source = "SINK"
	YOURLS    Source = "YOURLS"
	CSV       Source = "CSV"
	JSONLines Source = "JSON_LINES"
)

var everySource = []Source{Bitly, Dub, Kutt, Linkforge, Rebrandly, Shlink, ShortIO, Sink, YOURLS, CSV, JSONLines}

// Settings describe the source of an import.
type Settings struct {
	Source Source
	// BaseURL is the address of a self-hosted source; empty for a file.
	BaseURL string
	// Token is the secret of the API, and Account an account within it; empty means all of them.
	Token, Account string
	// Label names the account or instance, for sources whose files name no host.
	Label string
	// ClickTotals is whether totals are requested that need a request for each link.
	ClickTotals bool
	// Fetched means that the file has the items of a Fetcher, one a line.
	Fetched bool
	// Now is the time by which links have ended.
	Now time.Time
}

// Row is a link of the source, in the form of the link to create or change here.
type Row struct {
	// Line is the position of the item in the source, from 1. The links of one item share it.
	Line int64
	// SourceID identifies the link at the source.
	SourceID string
	// SourceURL is the short URL there, Host its host and Code its code, neither checked nor
	// normalized. Any of them may be empty; without a code the link gets a generated one.
	SourceURL, Host, Code string
	// FoldsCase means that the source ignores the case of codes at the host.
	FoldsCase bool

	URL string
	// Change sets the fields that have a value, but ID, URL, FolderID and Seen. Its MaxClicks is the
	// number of remaining clicks, and its Routing sets each field, so that no default of the workspace
	// takes effect.
	linkfield.Change
	// Folder is the name of the folder; nil means none.
	Folder *string
	// Limit is the number of clicks that the source allows in all; nil means no limit.
	Limit *int64
	// Describes are the fields that the source describes, with or without a value, by their names in
	// linkfield.Fields, and parts of the routing. Updates leave others as they are here.
	Describes []string
	// Deleted means that the link is created and deleted at once: it was protected, blocked or used
	// up at the source, and must not redirect without that protection.
	Deleted bool

	Origin Origin
	// Past is where a link of an archive had been imported from before.
	Past []Past
	// Record is that of a link in an archive; nil for other sources.
	Record *ArchivedLink
	Losses []Loss
	// Ignored are the fields with a value that are ignored by design, and unknown columns.
	Ignored []string

	// Skipped means that the row is no link that can be imported; Losses has the reason.
	Skipped bool
	// Err is why the row fails; its field is the one at the source. A row that fails or is skipped
	// only has the fields up to Code and its losses.
	Err *errs.Error
}

// The parts of a routing that Row.Describes names. OtherRouting is what only archives have.
const (
	Gate         = "gate"
	Rules        = "rules"
	OtherRouting = "other routing"
)

// Origin has the history of a link at its source. Nil means unknown.
type Origin struct {
	CreatedAt     *time.Time
	Clicks        *int64
	LastClickedAt *time.Time
}

// Past is an import of a link before it was written to an archive.
type Past struct {
	Source        Source     `json:"source"`
	Label         string     `json:"label"`
	SourceID      string     `json:"sourceId"`
	SourceURL     *string    `json:"sourceUrl"`
	CreatedAt     *time.Time `json:"createdAt"`
	Clicks        *int64     `json:"clicks"`
	LastClickedAt *time.Time `json:"lastClickedAt"`
	ImportedAt    time.Time  `json:"importedAt"`
}

// Loss is a value that is not kept as it was.
type Loss struct {
	// Field is the name at the source.
	Field  string
	Reason LossReason
	// Value is the value as JSON, cut to 200 characters; empty for secrets.
	Value string
	// Form is that of a value which would have been read; empty unless the reason is Invalid.
	Form string `json:",omitempty"`
}

// LossReason is why a value is not kept. Its text is the name in the GraphQL schema.
type LossReason string

// The reasons.
const (
	Unsupported  LossReason = "UNSUPPORTED"
	Truncated    LossReason = "TRUNCATED"
	Invalid      LossReason = "INVALID"
	NotExported  LossReason = "NOT_EXPORTED"
	Approximated LossReason = "APPROXIMATED"
)

// MaxItem is the size in bytes of the largest item. Readers hold one item in memory.
const MaxItem = 1 << 20

// Rows returns the rows of a file in the order of the source. An error ends them: InvalidInput for
// a file that is not of the source, or the error of the reader. Items that cannot be read are rows
// that fail.
func Rows(s *Settings, file io.Reader) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		r := &reader{settings: s, file: newScanner(file), yield: func(row *Row) bool { return yield(row, nil) }}
		r.take = r.item
		if err := r.read(); err != nil && !r.stopped {
			yield(nil, err)
		}
	}
}
