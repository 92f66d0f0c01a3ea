package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestReplace_LeavesOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first", "second", ""} {
		must.NoError(t, Replace(path, []byte(content), 0o640))
		if got := string(must.Value(os.ReadFile(path))(t)); got != content {
			t.Errorf("the file has %q, want %q", got, content)
		}
	}
	if mode := must.Value(os.Stat(path))(t).Mode(); mode != 0o640 {
		t.Errorf("the mode is %s", mode)
	}
	wantAlone(t, path)
}

// TestReplace_FailsWithoutATrace replaces a folder, which cannot be replaced by a file.
func TestReplace_FailsWithoutATrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder")
	must.NoError(t, os.MkdirAll(filepath.Join(path, "file"), 0o700))
	if err := Replace(path, []byte("content"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	wantAlone(t, path)
	if err := Replace(filepath.Join(path, "missing", "file"), nil, 0o600); err == nil {
		t.Error("a file was written into a folder that does not exist")
	}
}

// wantAlone expects that a folder has nothing but the path.
func wantAlone(t *testing.T, path string) {
	t.Helper()
	if entries := must.Value(os.ReadDir(filepath.Dir(path)))(t); len(entries) != 1 {
		t.Errorf("the folder has %v", entries)
	}
}
