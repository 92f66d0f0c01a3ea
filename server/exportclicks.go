package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// exportClicks writes the clicks of a signed URL, a thousand at a time.
func (a *app) exportClicks(w http.ResponseWriter, r *http.Request) {
	e, s, err := a.signedExport(r)
	if err != nil {
		a.refuseExport(w, r, err)
		return
	}
	write := linesOf(w)
	if e.Format == stats.CSV {
		write = cellsOf(w, e.BOM)
	}
	control, begun := http.NewResponseController(w), false
	err = s.Export(r.Context(), func(clicks []*click.Click) error {
		if begun { // the download ends with the credential, at the latest a batch later
			if _, err := a.exporter(r.Context(), e); err != nil {
				return err
			}
		} else {
			exportHeaders(w, e.Format)
			begun = true
		}
		if err := control.SetWriteDeadline(time.Now().Add(linesDeadline)); err != nil {
			return err
		}
		if err := write(clicks); err != nil {
			return err
		}
		return control.Flush()
	})
	switch {
	case err == nil:
	case !begun:
		a.refuseExport(w, r, err)
	default:
		a.cutOff(r, err)
	}
}

// signedExport returns the request in a signed URL, and the stats that its signer may currently
// read.
func (a *app) signedExport(r *http.Request) (*stats.ExportRequest, *stats.Stats, error) {
	ctx := r.Context()
	e, err := a.Exports.OpenExport(r.URL.Query().Get("token"))
	if err != nil {
		return nil, nil, err
	}
	if err := a.Limits.Charge(ctx, exports, e.ActorID); err != nil {
		return nil, nil, err
	}
	m, err := a.exporter(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	links, err := a.LinkList.Selected(m, nil, e.FolderID)
	if err != nil {
		return nil, nil, err
	}
	s, err := a.Stats.Stats(ctx, m, clickstore.Subject{LinkID: e.LinkID, Links: links},
		&clickstore.Range{From: e.From, To: e.To}, "UTC",
		clickstore.Filter{Bots: e.Bots, Values: e.Values})
	return e, s, err
}

// exporter returns the member of a grant for a download. It returns the errors of memberOfGrant,
// and Forbidden without STATS_READ.
func (a *app) exporter(ctx context.Context, e *stats.ExportRequest) (workspace.Membership, error) {
	m, err := a.memberOfGrant(ctx, &e.Grant)
	if err == nil {
		_, err = m.Enter(ctx, workspace.ReadStats)
	}
	return m, err
}

func exportHeaders(w http.ResponseWriter, format stats.Format) {
	mediaType, name := jsonLines, "clicks.ndjson"
	if format == stats.CSV {
		mediaType, name = "text/csv; charset=utf-8; header=present", "clicks.csv"
	}
	download(w, mediaType, name)
	w.Header().Set("Referrer-Policy", "no-referrer") // the URL is a secret for as long as it is good
}

func linesOf(w http.ResponseWriter) func([]*click.Click) error {
	lines := json.NewEncoder(w)
	return func(clicks []*click.Click) error {
		for _, c := range clicks {
			if err := lines.Encode((*stats.ExportLine)(c)); err != nil {
				return err
			}
		}
		return nil
	}
}

func cellsOf(w http.ResponseWriter, bom bool) func([]*click.Click) error {
	cells, begun := csv.NewWriter(w), false
	return func(clicks []*click.Click) error {
		if !begun {
			if bom {
				_, _ = io.WriteString(w, "\ufeff")
			}
			_ = cells.Write(stats.ExportHead()) // what fails, Error says
			begun = true
		}
		for _, c := range clicks {
			_ = cells.Write(stats.ExportRow(c))
		}
		cells.Flush()
		return cells.Error()
	}
}
