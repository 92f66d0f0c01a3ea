package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/stores"
)

func TestStart_RefusesLostDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(newDatabase string) error {
		settings := map[string]string{"LINKFORGE_DATA_DIR": dir, "LINKFORGE_NEW_DATABASE": newDatabase}
		c := must.Value(config.Parse(settings, stores.Checks))(t)
		a, err := newApp(t.Context(), c, slog.New(slog.DiscardHandler), io.Discard)
		if err != nil {
			return err
		}
		return a.close()
	}
	must.NoError(t, start("off"))
	must.NoError(t, start("off"))
	database := filepath.Join(dir, stores.DatabaseName)
	for name, lose := range map[string]func() error{
		"missing": func() error { return os.Remove(database) },
		"empty":   func() error { return os.Truncate(database, 0) },
	} {
		must.NoError(t, lose())
		if err := start("off"); err == nil || !strings.Contains(err.Error(), database+" is missing or empty") {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
		info, err := os.Stat(database)
		if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the refused start changed the file: %v", name, err)
		}
		must.NoError(t, start("on"))
		must.NoError(t, start("off"))
	}
}
