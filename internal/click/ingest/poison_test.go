package ingest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// poison has the possible defects of a record. Each function writes one into a log, and returns the
// bytes that the recorder must set aside.
var poison = map[string]func(t *testing.T, d *db.DB, r *ingest.Recorder) []byte{
	"no record": func(t *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		must.Value(r.Journal().Append([]byte("gibberish")))(t)
		return []byte("gibberish")
	},
	"a click that names no link": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("")
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a click that names no workspace": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_lost")
		c.WorkspaceID = ""
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a click of a workspace that does not exist": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_foreign")
		c.WorkspaceID = id.New(id.Workspace)
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a workspace that no database takes": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_foreign")
		c.WorkspaceID = "ws_\x00"
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a link that no database takes": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_\x00")
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a link that is not UTF-8": func(_ *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_\xff")
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a click that the database refuses": func(t *testing.T, d *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf(clicktest.RefuseOne(t, d))
		c.HitLease = 5
		r.Record(&c)
		return ingest.AppendClick(nil, &c)
	},
	"a record that the disk has changed": func(t *testing.T, _ *db.DB, r *ingest.Recorder) []byte {
		c := clicktest.ClickOf("lnk_changed")
		end := r.Record(&c)
		file := must.Value(os.OpenFile(filepath.Join(r.Dir, r.LogID(), "00000000000000000000.log"), os.O_WRONLY, 0))(t)
		defer file.Close()
		must.Value(file.WriteAt([]byte("?"), end-1))(t)
		changed := ingest.AppendClick(nil, &c)
		changed[len(changed)-1] = '?'
		return changed
	},
}

// TestRecorder_SetsPoisonAside: what cannot be ingested is set aside and counted, and everything
// else is ingested, by the process that recorded it and by one that finds its log.
func TestRecorder_SetsPoisonAside(t *testing.T) {
	t.Parallel()
	for name, put := range poison {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				dir, linkID := t.TempDir(), id.New(id.Link)
				r := clicktest.NewRecorder(t, d, dir)
				recordOf(r, linkID, 10)
				want := put(t, d, r)
				recordOf(r, linkID, 10)
				ingestAll(t, r)
				wantClicks(t, d, linkID, 20)
				if s := r.Stats(); s.Poison != 1 || s.Ingested != 20 || s.Waiting != 0 || s.Lag != 0 {
					t.Errorf("%+v, want one record of poison and 20 clicks ingested", s)
				}
				aside(t, dir, r.LogID(), want)

				die(t, r)
				adopted(t, d, dir) // all of it again, and nothing changes
				wantClicks(t, d, linkID, 20)
			})
		})
	}
}

// aside checks that the bytes were set aside.
func aside(t *testing.T, dir, logID string, want ...[]byte) {
	t.Helper()
	got := must.Value(os.ReadFile(filepath.Join(dir, logID+".damaged")))(t)
	for _, w := range want {
		if !bytes.Contains(got, w) {
			t.Errorf("%q was set aside, want %q in it", got, w)
		}
	}
}
