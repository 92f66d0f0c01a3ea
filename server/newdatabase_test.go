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
	settings := map[string]string{"LINKFORGE_DATA_DIR": dir}
	start := func() error {
		c, err := config.Parse(settings, stores.Checks)
		must.NoError(t, err)
		a, err := newApp(t.Context(), c, slog.New(slog.DiscardHandler), io.Discard)
		if err != nil {
			return err
		}
		return a.close()
	}
	must.NoError(t, start())
	if err := start(); err != nil {
		t.Errorf("the second start: %v", err)
	}
	database := filepath.Join(dir, stores.DatabaseName)
	for name, lose := range map[string]func() error{
		"missing": func() error { return os.Remove(database) },
		"empty":   func() error { return os.Truncate(database, 0) },
	} {
		if err := lose(); err != nil {
			t.Fatal(name, err)
		}
		err := start()
		if err == nil || !strings.Contains(err.Error(), database+" is missing or empty") {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
		info, err := os.Stat(database)
		if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the refused start changed the file: %v", name, err)
		}
		settings["LINKFORGE_NEW_DATABASE"] = "on"
		if err := start(); err != nil {
			t.Errorf("%s, with --new-database: %v", name, err)
		}
		settings["LINKFORGE_NEW_DATABASE"] = "off"
		if err := start(); err != nil {
			t.Errorf("%s, after --new-database: %v", name, err)
		}
	}
}
