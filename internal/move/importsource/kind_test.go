package importsource_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestRows_ReadsDecompressedArchives as browsers store them.
func TestRows_ReadsDecompressedArchives(t *testing.T) {
	t.Parallel()
	zipped := must.Value(os.ReadFile("testdata/linkforge/archive.tar.gz"))(t)
	plain := must.Value(io.ReadAll(must.Value(gzip.NewReader(bytes.NewReader(zipped)))(t)))(t)
	s := &importsource.Settings{Source: importsource.Linkforge, Now: now}
	if got, want := len(read(t, s, plain)), len(read(t, s, zipped)); got != want || want == 0 {
		t.Errorf("%d rows, want %d", got, want)
	}
	names := must.Value(importsource.CheckArchive(bytes.NewReader(plain)))(t)
	if wanted := must.Value(importsource.CheckArchive(bytes.NewReader(zipped)))(t); len(names) != len(wanted) {
		t.Errorf("%d folders, want %d", len(names), len(wanted))
	}
	if _, err := importsource.CheckArchive(bytes.NewReader(plain[:len(plain)/2])); err == nil ||
		!strings.Contains(err.Error(), "Download it again") {
		t.Errorf("half of it: %v", err)
	}
}

// TestRows_NamesOtherKindsOfFiles, and what to send instead.
func TestRows_NamesOtherKindsOfFiles(t *testing.T) {
	t.Parallel()
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		must.Value(io.WriteString(w, text))(t)
		must.NoError(t, w.Close())
		return b.String()
	}
	const table = "code,url\na,https://example.com/\n"
	archive := string(must.Value(os.ReadFile("testdata/linkforge/archive.tar.gz"))(t))
	for _, c := range []struct {
		source     importsource.Source
		file, want string
	}{
		{importsource.Linkforge, "", "is empty"},
		{importsource.Linkforge, table, "no archive of a workspace"},
		{importsource.Linkforge, zip(table), "no archive of a workspace"},
		{importsource.Linkforge, `[{"id": 1}]`, "no archive of a workspace"},
		{importsource.Linkforge, "PK\x03\x04" + table, "a ZIP archive"},
		{importsource.Linkforge, "<!DOCTYPE html><html>", "a web page"},
		{importsource.CSV, zip(table), "compressed with gzip"},
		{importsource.CSV, archive, "LINKFORGE"},
		{importsource.CSV, "PK\x03\x04" + table, "save the spreadsheet as CSV"},
		{importsource.JSONLines, "%PDF-1.7", "no text"},
		{importsource.Shlink, "\n<html>", "a web page"},
		{importsource.Kutt, archive, "LINKFORGE"},
	} {
		var err error
		s := &importsource.Settings{Source: c.source, Now: now}
		for _, e := range importsource.Rows(s, strings.NewReader(c.file)) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "ownload") {
			t.Errorf("%s %.20q: %v, want %q", c.source, c.file, err, c.want)
		}
	}
}

// TestRows_IgnoresASlashAfterCodes of every source, as redirects do.
func TestRows_IgnoresASlashAfterCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source     importsource.Source
		file, want string
	}{
		{importsource.Bitly, `[{"id":"go.example.com/a/","long_url":"https://example.com/"}]`, "a"},
		{importsource.Dub, `[{"id":"1","key":"a/","url":"https://example.com/"}]`, "a"},
		{importsource.Dub, "Short link,Destination URL\ngo.example.com/a/,https://example.com/", "a"},
		{importsource.Kutt, `[{"id":"1","address":"a/","target":"https://example.com/"}]`, "a"},
		{importsource.Rebrandly, `[{"id":"1","slashtag":"a/","destination":"https://example.com/"}]`, "a"},
		{importsource.Shlink, `[{"shortCode":"a/b/","longUrl":"https://example.com/"}]`, "a/b"},
		{importsource.ShortIO, `[{"idString":"1","path":"a/","originalURL":"https://example.com/"}]`, "a"},
		{importsource.Sink, `{"version":"1.0","links":[{"id":"1","slug":"a/","url":"https://example.com/"}]}`, "a"},
		{importsource.YOURLS, `{"links":{"a":{"shorturl":"go.example.com/a/","url":"https://example.com/"}}}`, "a"},
		{importsource.YOURLS, "keyword,url\na/,https://example.com/", "a"},
		{importsource.CSV, "code,url\na/,https://example.com/", "a"},
		{importsource.JSONLines, `{"shorturl":"go.example.com/a/","url":"https://example.com/"}`, "a"},
		{importsource.CSV, "code,url\na//,https://example.com/", "a/"},
	} {
		rows := read(t, &importsource.Settings{Source: c.source, Now: now}, []byte(c.file))
		if len(rows) != 1 || rows[0].Code != c.want || strings.HasSuffix(rows[0].SourceID, "b/") {
			t.Errorf("%s %s: %+v, want %s", c.source, c.file, rows, c.want)
		}
	}
	for source, file := range map[importsource.Source]string{
		importsource.CSV:     "code,url\n/,https://example.com/",
		importsource.ShortIO: `[{"idString":"1","path":"/","originalURL":"https://example.com/"}]`,
	} {
		rows := read(t, &importsource.Settings{Source: source, Now: now}, []byte(file))
		if len(rows) != 1 || rows[0].Err == nil && !rows[0].Skipped {
			t.Errorf("%s: the root is a link: %+v", source, rows)
		}
	}
}
