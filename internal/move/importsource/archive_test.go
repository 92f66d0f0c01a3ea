package importsource_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// archive returns an archive with the files in the order of their names.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	text := bytes.Buffer{}
	zipped := gzip.NewWriter(&text)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must.NoError(t,
			w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[name]))}))
		must.Value(io.WriteString(w, files[name]))(t)
	}
	must.NoError(t, w.Close())
	must.NoError(t, zipped.Close())
	return text.Bytes()
}

// TestCheckArchive_ComparesWithManifest refuses each change of an archive.
func TestCheckArchive_ComparesWithManifest(t *testing.T) {
	t.Parallel()
	fixture := must.Value(os.ReadFile("testdata/linkforge/archive.tar.gz"))(t)
	must.Value(importsource.CheckArchive(bytes.NewReader(fixture)))(t) // the fixture
	const link = `{"id":"a","url":"https://example.com/"}` + "\n"
	sum := sha256.Sum256([]byte(link))
	manifest := func(version int) string {
		return fmt.Sprintf(
			`{"format":"linkforge-workspace","schemaVersion":%d,"sections":[{"name":"audit","files":[]},`+
				`{"name":"links","files":["links/00001.jsonl"],"sha256":"%s"}]}`, version, hex.EncodeToString(sum[:]))
	}
	files := map[string]string{"links/00001.jsonl": link, "manifest.json": manifest(1)}
	must.Value(importsource.CheckArchive(bytes.NewReader(archive(t, files))))(t) // the archive
	for name, change := range map[string]map[string]string{
		"changed link":    {"links/00001.jsonl": link + "\n", "manifest.json": manifest(1)},
		"no link":         {"manifest.json": manifest(1)},
		"more links":      {"links/00001.jsonl": link, "links/00002.jsonl": link, "manifest.json": manifest(1)},
		"another section": {"folders/00001.jsonl": link, "manifest.json": manifest(1)},
		"unknown file":    {"links/00001.jsonl": link, "links/x": link, "manifest.json": manifest(1)},
		"path":            {"../links/00001.jsonl": link, "manifest.json": manifest(1)},
		"later version":   {"links/00001.jsonl": link, "manifest.json": manifest(2)},
		"no version":      {"links/00001.jsonl": link, "manifest.json": manifest(0)},
		"no manifest":     {"links/00001.jsonl": link},
		"file after it":   {"links/00001.jsonl": link, "manifest.json": manifest(1), "versions/00001.jsonl": link},
		"malformed":       {"links/00001.jsonl": link, "manifest.json": "{"},
		"another format":  {"manifest.json": `{"format":"a\u0000b","schemaVersion":1}`},
	} {
		if _, err := importsource.CheckArchive(bytes.NewReader(archive(t, change))); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, size := range []int{0, 1, 100, len(fixture) / 2, len(fixture) - 1} {
		if _, err := importsource.CheckArchive(bytes.NewReader(fixture[:size])); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	broken := errors.New("broken")
	for _, size := range []int{0, 100, len(fixture) - 1} {
		file := io.MultiReader(bytes.NewReader(fixture[:size]), iotest.ErrReader(broken))
		if _, err := importsource.CheckArchive(file); !errors.Is(err, broken) {
			t.Errorf("reader that fails after %d bytes: %v", size, err)
		}
	}
}

// TestCheckArchive_BoundsSize of the unpacked content of a small file.
func TestCheckArchive_BoundsSize(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("unpacks 1 GiB")
	}
	zipped := func(content []byte) []byte {
		var member bytes.Buffer
		w := gzip.NewWriter(&member)
		must.Value(w.Write(content))(t)
		must.NoError(t, w.Close())
		return member.Bytes()
	}
	var header, text bytes.Buffer
	must.NoError(t, tar.NewWriter(&header).WriteHeader(&tar.Header{
		Name: "links/00001.jsonl", Typeflag: tar.TypeReg, Size: 1<<30 + 1<<20,
	}))
	text.Write(zipped(header.Bytes()))
	text.Write(bytes.Repeat(zipped(make([]byte, 1<<20)), 1<<10+1))
	text.Write(zipped(make([]byte, 1024))) // the end of a tar file
	if _, err := importsource.CheckArchive(&text); !errs.Is(err, errs.InvalidInput) ||
		!strings.Contains(err.Error(), "1 GiB") {
		t.Errorf("more than 1 GiB: %v", err)
	}
}

// TestRows_ReadArchives: parts of a routing that are not valid are losses, an unreadable gate
// deletes the link.
func TestRows_ReadArchives(t *testing.T) {
	t.Parallel()
	links := strings.Join([]string{
		`{"id":"a","url":"https://example.com/","routing":{"gate":{"notice":"Hello","confirm":true},` +
			`"forwardPath":true,"new":1,` +
			`"bots":"EAT","card":{"title":"x","color":"red"},"utm":{"source":"a"},"rules":[{"ruleId":"rul_1",` +
			`"when":[{"moon":"full"}],` +
			`"targets":[{"url":null}]},{"ruleId":"rul_1","when":[{"bot":true}],"targets":[{"targetId":"tgt_1",` +
			`"url":"https://example.com/b"}]},{"targets":[null]}]}}`,
		`{"id":"b","url":"https://example.com/","routing":{"gate":7}}`,
		`{"id":"c","url":"https://example.com/","metadata":{"a b":"c"},"origins":[{"source":"X"},{"source":"DUB",` +
			`"label":"l","sourceId":"s",` +
			`"clicks":3,"importedAt":"2026-01-02T03:04:05Z"}]}`,
	}, "\n")
	s := &importsource.Settings{Source: importsource.Linkforge, Now: now}
	rows := read(t, s,
		archive(t, map[string]string{"folders/00001.jsonl": "x", "links/00001.jsonl": links, "links/00002.jsonl": `{`}))
	if len(rows) != 4 || rows[3].SourceID != "line:4" || rows[3].Err == nil {
		t.Fatalf("%d rows, the last %+v", len(rows), rows[len(rows)-1])
	}
	want := []string{"routing.rules INVALID", "routing.card INVALID", "routing.bots INVALID", "routing.new UNSUPPORTED"}
	if diff := cmp.Diff(want, reasons(rows[0])); diff != "" || rows[0].Deleted {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	r := rows[0].Routing.To
	if gate := r.Gate.To; gate == nil || optional.Value(gate.Notice.To) != "Hello" || !optional.Value(gate.Confirm.To) {
		t.Errorf("the gate is %+v", gate)
	}
	if rules := r.Rules.To; len(rules) != 1 || rules[0].ID != "" || rules[0].Targets[0].ID != "" ||
		!optional.Value(r.ForwardPath.To) ||
		optional.Value(r.UTM.To.Source) != "a" {
		t.Errorf("the routing is %+v", r)
	}
	if !rows[1].Deleted || !cmp.Equal(reasons(rows[1]), []string{"routing.gate.password NOT_EXPORTED"}) {
		t.Errorf("the link with an unreadable gate is %+v", rows[1])
	}
	if diff := cmp.Diff([]string{"a b INVALID", "origins INVALID"}, reasons(rows[2])); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	past := []importsource.Past{{Source: importsource.Dub, Label: "l", SourceID: "s", Clicks: new(int64(3)),
		ImportedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	if diff := cmp.Diff(past, rows[2].Past); diff != "" {
		t.Errorf("earlier origins (-want +got):\n%s", diff)
	}
}

// TestCheckArchive_BoundsSparseFiles whose text the archive does not have: a few bytes would be
// read forever.
func TestCheckArchive_BoundsSparseFiles(t *testing.T) {
	t.Parallel()
	const size, name = "1000000000000000000", "links/00001.jsonl"
	records := ""
	for _, r := range [][2]string{
		{"GNU.sparse.numblocks", "1"}, {"GNU.sparse.map", size + ",0"}, {"GNU.sparse.size", size}, {"GNU.sparse.name",
			name},
	} {
		rest := " " + r[0] + "=" + r[1] + "\n"
		records += strconv.Itoa(len(rest)+2) + rest
	}
	header := func(name string, flag byte, size int) string {
		block := fmt.Sprintf("%-100s%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00%8s%c%100sustar\x0000", name, 0o644, 0, 0,
			size, 0, "", flag, "")
		block = strings.ReplaceAll(block[:100], " ", "\x00") + block[100:157] + strings.Repeat("\x00", 100) +
			block[257:]
		block += strings.Repeat("\x00", 512-len(block))
		sum := 0
		for _, c := range []byte(block) {
			sum += int(c)
		}
		return block[:148] + fmt.Sprintf("%06o\x00 ", sum) + block[156:]
	}
	text := bytes.Buffer{}
	zipped := gzip.NewWriter(&text)
	must.Value(io.WriteString(zipped, header("records", 'x', len(records))+records+
		strings.Repeat("\x00", 512-len(records))+header(name, '0', 0)+
		strings.Repeat("\x00", 1024)))(t)
	must.NoError(t, zipped.Close())
	if _, err := importsource.CheckArchive(&text); !errs.Is(err, errs.InvalidInput) ||
		!strings.Contains(err.Error(), "1 GiB") {
		t.Errorf("a sparse file: %v", err)
	}
}

// TestCheckArchive_BoundsFolders: a long name takes no memory, and many files end early.
func TestCheckArchive_BoundsFolders(t *testing.T) {
	t.Parallel()
	long := `{"name":"` + strings.Repeat("a", 2<<20) + `"}`
	if _, err := importsource.CheckArchive(
		bytes.NewReader(archive(t, map[string]string{"folders/00001.jsonl": long}))); !errs.Is(err, errs.InvalidInput) {
		t.Errorf("a folder of 2 MiB: %v", err)
	}
	files := map[string]string{}
	for i := range 10_001 {
		files[fmt.Sprintf("links/%05d.jsonl", i)] = ""
	}
	_, err := importsource.CheckArchive(bytes.NewReader(archive(t, files)))
	if !errs.Is(err, errs.InvalidInput) || !strings.Contains(err.Error(), "10000 files") {
		t.Errorf("10,001 files: %v", err)
	}
}

// TestRows_SurviveHostileArchives: each value is a loss, fails its row or has no effect.
func TestRows_SurviveHostileArchives(t *testing.T) {
	t.Parallel()
	const target = `"targets":[{"url":"https://a.example/"}]`
	for part, wanted := range map[string]string{
		`"routing":{"rules":[{"when":[null],` + target + `}]}`:   "routing.rules INVALID",
		`"routing":{"rules":[{"unless":[null],` + target + `}]}`: "routing.rules INVALID",
		`"routing":{"rules":[null]}`:                             "routing.rules INVALID",
		`"routing":{"tests":[null]}`:                             "routing.tests INVALID",
		`"routing":{"rules":[{"targets":[{"url":"https://a.example/",` +
			`"maxClicks":3}]}]}`: "routing.rules.targets.maxClicks APPROXIMATED",
		`"routing":[]`:                     "routing INVALID",
		`"shortUrl":"https://x/\u0000"`:    "shortUrl INVALID",
		`"shortUrl":"javascript:alert(1)"`: "shortUrl INVALID",
		`"shortUrl":"https://x.example/` + strings.Repeat("a", 9000) + `"`: "shortUrl INVALID",
		`"origins":{"a":1}`: "origins INVALID",
		`"origins":[null]`:  "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"` + strings.Repeat("x", 1001) +
			`","importedAt":"2026-01-01T00:00:00Z"}]`: "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"x","label":"` + strings.Repeat("x", 101) +
			`","importedAt":"2026-01-01T00:00:00Z"}]`: "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"","importedAt":"2026-01-01T00:00:00Z"}]`:       "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"x"}]`:                                          "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"x","importedAt":"9999-12-31T23:59:59-12:00"}]`: "origins INVALID",
		`"origins":[{"source":"DUB","sourceId":"x","importedAt":"0001-01-01T00:00:00+12:00"}]`: "origins INVALID",
		`"metadata":[7]`:       "metadata INVALID",
		`"metadata":{"a":[1]}`: "a INVALID",
		`"code":7`:             "",
		`"id":{}`:              "",
		`"maxClicks":[]`:       "maxClicks INVALID",
	} {
		s := &importsource.Settings{Source: importsource.Linkforge, Now: now}
		rows := read(t, s,
			archive(t, map[string]string{"links/00001.jsonl": `{"id":"a","url":"https://example.com/","code":"abc",` +
				part + `}`}))
		if len(rows) != 1 || wanted != "" && !slices.Contains(reasons(rows[0]), wanted) ||
			wanted == "" && rows[0].Err == nil {
			t.Errorf("%.80s: %+v", part, rows[0])
		}
	}
}

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
		{importsource.Dub, "Short link,Destination URL\ngo.example.com/a/,https://example.com/", "a"},
		{importsource.Shlink, `[{"shortCode":"a/b/","longUrl":"https://example.com/"}]`, "a/b"},
		{importsource.YOURLS, `{"links":{"a":{"shorturl":"go.example.com/a/","url":"https://example.com/"}}}`, "a"},
		{importsource.CSV, "code,url\na//,https://example.com/", "a/"},
		{importsource.JSONLines, `{"shorturl":"go.example.com/a/","url":"https://example.com/"}`, "a"},
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

// TestRows_TextsOfArchives: no tag is none, as in archives of earlier versions, whose rows would
// otherwise have changed since their last import. What one cannot keep is shortened.
func TestRows_TextsOfArchives(t *testing.T) {
	t.Parallel()
	const link = `{"id":"a","code":"b","url":"https://example.com/"`
	without := one(t, importsource.Linkforge, link+"}")
	empty := one(t, importsource.Linkforge, link+`,"tags":[],"title":null,"note":null}`)
	if diff := cmp.Diff(without.Change, empty.Change); diff != "" {
		t.Errorf("a link without tags (-left out +empty):\n%s", diff)
	}
	row := one(t, importsource.Linkforge,
		link+`,"title":"`+strings.Repeat("x", 201)+`","note":"a\u0000b","tags":["t","`+strings.Repeat("y", 51)+`"]}`)
	if got := len(optional.Value(row.Title.To)); got != 200 {
		t.Errorf("the title has %d characters, want 200", got)
	}
	if got := optional.Value(row.Note.To); got != "a b" {
		t.Errorf("the note is %q", got)
	}
	if want := []string{"t", strings.Repeat("y", 50)}; !slices.Equal(row.Tags.To, want) {
		t.Errorf("the tags are %q", row.Tags.To)
	}
	if want := []string{"title TRUNCATED", "note APPROXIMATED", "tags TRUNCATED"}; !slices.Equal(reasons(row), want) {
		t.Errorf("%q, want %q", reasons(row), want)
	}
}
