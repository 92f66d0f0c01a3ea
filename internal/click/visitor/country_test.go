package visitor

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// writeCountries writes a file of countries for the test.
func writeCountries(t testing.TB, countries map[string]string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "countries.mmdb")
	rewriteCountries(t, path, countries)
	return path
}

func rewriteCountries(t testing.TB, path string, countries map[string]string) {
	t.Helper()
	must.NoError(t, visitortest.WriteCountries(path, countries))
}

func openCountries(t testing.TB, path string) (*Countries, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	c := must.Value(OpenCountries(path, false, slog.New(slog.NewTextHandler(&log, nil))))(t)
	return c, &log
}

func wantCountry(t testing.TB, c *Countries, address, want string) {
	t.Helper()
	if got := c.CountryCode(netip.MustParseAddr(address)); got != want {
		t.Errorf("the country of %s is %q, want %q", address, got, want)
	}
}

func TestCountries_FindAddress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "countries.mmdb")
	must.NoError(t, visitortest.WriteRecords(path, map[string]visitortest.Record{
		"81.2.69.0/24":    {Country: "GB", Registered: "US"},
		"81.2.69.128/25":  {Country: "FR"},
		"81.0.0.0/8":      {Country: "DE"},
		"89.160.20.7/32":  {Registered: "SE"},
		"89.160.20.8/32":  {},
		"89.160.20.9/32":  {Country: "se"},
		"89.160.20.10/32": {Country: "SWE"},
		"2001:218::/32":   {Country: "JP"},
		"10.0.0.0/8":      {Country: "US"},
		"fd00::/8":        {Country: "US"},
	}))
	c, _ := openCountries(t, path)
	for address, want := range map[string]string{
		"81.2.69.1":            "GB",
		"81.2.69.200":          "FR",
		"81.3.0.1":             "DE",
		"::ffff:81.2.69.1":     "GB",
		"89.160.20.7":          "SE", // registered there, wherever it is
		"89.160.20.8":          "",
		"89.160.20.9":          "",
		"89.160.20.10":         "",
		"89.160.20.11":         "",
		"2001:218::1":          "JP",
		"2001:218::1%eth0":     "JP",
		"2001:219::1":          "",
		"10.1.2.3":             "", // private, even if the file has it
		"fd00::1":              "",
		"fe80::1":              "",
		"0.0.0.0":              "",
		"::ffff:10.0.0.1":      "",
		"64:ff9b::5102:4501":   "",
		"ffff:ffff:ffff::ffff": "",
	} {
		wantCountry(t, c, address, want)
	}
	if got := c.CountryCode(netip.Addr{}); got != "" {
		t.Errorf("the country of no address is %q", got)
	}
}

func TestCountries_WithoutFile(t *testing.T) {
	t.Parallel()
	var none *Countries
	must.NoError(t, none.Watch(t.Context()))
	path := filepath.Join(t.TempDir(), "countries.mmdb")
	missing := must.Value(OpenCountries(path, true, slog.New(slog.DiscardHandler)))(t)
	for _, c := range []*Countries{none, missing} {
		wantCountry(t, c, "81.2.69.1", "")
		if c.Edition() != (Edition{}) {
			t.Errorf("the edition is %v", c.Edition())
		}
	}
	rewriteCountries(t, path, map[string]string{"81.2.69.0/24": "GB"})
	checkFile(t, missing)
	wantCountry(t, missing, "81.2.69.1", "GB")
	if got := missing.Edition(); got.Type != "Test-Country" || got.BuiltAt.Year() != 2024 || got.IsDBIP() {
		t.Errorf("the edition is %v", got)
	}
}

func TestOpen_RefusesAFileWithoutCountries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := must.Value(os.ReadFile(writeCountries(t, map[string]string{"81.2.69.0/24": "GB"})))(t)
	for name, content := range map[string][]byte{
		"empty":     {},
		"text":      []byte("no database"),
		"cut short": good[:len(good)-10],
		"no tree":   good[len(good)/2:],
	} {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, content, 0o600))
		if _, err := OpenCountries(path, false, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
	other := filepath.Join(dir, "other")
	must.NoError(t, visitortest.WriteRecords(other, map[string]visitortest.Record{"81.2.69.0/24": {}}))
	for _, path := range []string{other, dir, filepath.Join(dir, "missing")} {
		if _, err := OpenCountries(path, false, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCountries_SurviveADamagedFile(t *testing.T) {
	t.Parallel()
	good := must.Value(
		os.ReadFile(writeCountries(t, map[string]string{"81.2.69.0/24": "GB", "2001:218::/32": "JP"})))(t)
	for i := range good {
		for _, b := range []byte{0, 0x7f, 0xff, good[i] ^ 1} {
			bad := bytes.Clone(good)
			bad[i] = b
			if db, err := newDatabase(bad); err == nil {
				db.countryCode(netip.MustParseAddr("81.2.69.1"))
				db.countryCode(netip.MustParseAddr("2001:218::1"))
			}
		}
	}
}

func TestWatch_LoadsANewFile(t *testing.T) {
	t.Parallel()
	path := writeCountries(t, map[string]string{"81.2.69.0/24": "GB"})
	synctest.Test(t, func(t *testing.T) {
		c, log := openCountries(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			if err := c.Watch(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * defaultPollInterval)
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("got log %s for an unchanged file, want none", log)
		}
		rewriteCountries(t, path, map[string]string{"81.2.69.0/24": "IE"})
		wantCountry(t, c, "81.2.69.1", "GB")
		time.Sleep(defaultPollInterval + time.Second)
		synctest.Wait()
		wantCountry(t, c, "81.2.69.1", "IE")
		cancel()
		watching.Wait()
	})
}

func TestWatch_KeepsTheOldFileWhenTheNewOneIsBroken(t *testing.T) {
	t.Parallel()
	path := writeCountries(t, map[string]string{"81.2.69.0/24": "GB"})
	c, log := openCountries(t, path)
	logged := func(want int, when string) {
		t.Helper()
		for range 3 {
			checkFile(t, c)
		}
		if got := strings.Count(log.String(), "countries not replaced"); got != want {
			t.Errorf("%s: logged %d times, want %d:\n%s", when, got, want, log)
		}
		wantCountry(t, c, "81.2.69.1", "GB")
	}
	logged(0, "unchanged")
	if err := os.WriteFile(path, []byte("half a file"), 0o600); err != nil { // in place, as cp does
		t.Fatal(err)
	}
	logged(1, "broken")
	must.NoError(t, os.Remove(path))
	logged(2, "gone")
	must.NoError(t, os.Mkdir(path, 0o700))
	logged(3, "a folder")
	must.NoError(t, os.Remove(path))
	rewriteCountries(t, path, map[string]string{"81.2.69.0/24": "GB", "81.2.70.0/24": "IE"})
	logged(3, "repaired")
	wantCountry(t, c, "81.2.70.1", "IE")
}

// checkFile does what Watch does at each interval.
func checkFile(t *testing.T, c *Countries) {
	t.Helper()
	if c.files.Changed() {
		c.reload(t.Context())
	}
}
