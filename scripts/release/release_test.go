package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

var commitTime = time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)

// TestArchives_AreReproducible at any time and from any folder.
func TestArchives_AreReproducible(t *testing.T) {
	t.Parallel()
	pack := func(age time.Duration, mode os.FileMode) []byte {
		path := filepath.Join(t.TempDir(), "any name")
		then := time.Now().Add(-age)
		must.NoError(t, errors.Join(os.WriteFile(path, []byte("#!"), mode), os.Chtimes(path, then, then)))
		var b bytes.Buffer
		must.NoError(t, archive(&b, "linkforge_1", commitTime,
			[]entry{{"LICENSE", path, 0o644}, {"linkforge", path, 0o755}}))
		return b.Bytes()
	}
	packed := pack(0, 0o644)
	if !bytes.Equal(packed, pack(48*time.Hour, 0o600)) {
		t.Error("the same files make another archive")
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil || !unzipped.ModTime.IsZero() || unzipped.Name != "" {
		t.Fatalf("%+v: %v", unzipped.Header, err)
	}
	files := tar.NewReader(unzipped)
	for _, want := range []struct {
		name string
		mode int64
	}{{"linkforge_1/", 0o755}, {"linkforge_1/LICENSE", 0o644}, {"linkforge_1/linkforge", 0o755}} {
		h := must.Value(files.Next())(t)
		if h.Name != want.name || h.Mode != want.mode || !h.ModTime.Equal(commitTime) || h.Uid != 0 || h.Gid != 0 ||
			h.Uname != "" {
			t.Errorf("%+v, want %+v", h, want)
		}
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last file: %v", err)
	}
}

// TestBill_ListsModules reads what this test's own binary was made of.
func TestBill_ListsModules(t *testing.T) {
	t.Parallel()
	binary := must.Value(os.Executable())(t)
	notice := must.Value(os.ReadFile(filepath.Join("..", "..", noticeFile)))(t)
	var b bytes.Buffer
	must.NoError(t, bill(&b, binary, notice, "1.2.3", commitTime))
	var got bom
	must.NoError(t, json.Unmarshal(b.Bytes(), &got))
	program := got.Metadata.Component
	if got.Format != "CycloneDX" || got.Metadata.Timestamp != "2026-11-22T05:00:00Z" ||
		program.URL != "pkg:golang/github.com/linkforge/linkforge@1.2.3" {
		t.Errorf("%+v", got)
	}
	if len(got.Components) == 0 || got.Components[0].Name != "std" ||
		!strings.HasPrefix(got.Components[0].Version, "1.") {
		t.Errorf("the first component is not the Go that built it: %+v", got.Components)
	}
	page := map[string]bool{}
	for _, c := range got.Components {
		page[c.Name] = page[c.Name] || c.URL == "pkg:npm/"+strings.Replace(c.Name, "@", "%40", 1)+"@"+c.Version
	}
	for _, name := range []string{"graphiql", "@graphiql/react", "react"} {
		if !page[name] {
			t.Errorf("%s, which the playground's page holds, is missing", name)
		}
	}
	if err := bill(io.Discard, "main.go", nil, "1", commitTime); err == nil {
		t.Error("a file that is no binary has a bill")
	}
}

func TestSum_MatchesFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(folder, "linkforge_1.tar.gz"), []byte("abc"), 0o600))
	var said strings.Builder
	must.NoError(t, sum(folder, &said))
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  linkforge_1.tar.gz\n"
	written, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil || string(written) != want || said.String() != want {
		t.Errorf("%q, %q: %v", written, said.String(), err)
	}
}
