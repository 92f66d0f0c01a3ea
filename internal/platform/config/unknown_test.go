package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestFlags_RefuseMisspeltVariables passes the environment of a process. Only its LINKFORGE_
// variables are settings.
func TestFlags_RefuseMisspeltVariables(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"LINKFORGE_DATBASE_URL":      "LINKFORGE_DATABASE_URL",
		"LINKFORGE_DATABASE_URLS":    "LINKFORGE_DATABASE_URL",
		"LINKFORGE_ORIGIN":           "LINKFORGE_ORIGINS",
		"LINKFORGE_PUBLICURL":        "LINKFORGE_PUBLIC_URL",
		"LINKFORGE_SMTP_HOST":        "LINKFORGE_SMTP_URL",
		"LINKFORGE_":                 "LINKFORGE_TLS",
		"linkforge_code_secret":      "LINKFORGE_CODE_SECRET",
		"LINKFROGE_DATABASE_URL":     "LINKFORGE_DATABASE_URL",
		"LINK_FORGE_DATABASE_URL":    "LINKFORGE_DATABASE_URL",
		"LINKFORGE_SERVICE_HOST":     "enableServiceLinks: false",
		"LINKFORGE_PORT":             "enableServiceLinks: false",
		"LINKFORGE_PORT_80_TCP_ADDR": "enableServiceLinks: false", "LINKFORGE_REDIS_PORT": "enableServiceLinks: false",
		"LINKFORGE_POSTGRESQL_SERVICE_HOST": "enableServiceLinks: false",
		"LINKFORGE_TEST_ANYTHING":           "", "LINKFORGE_DATA_DIR": "", "PATH": "", "LINK": "", "DATABASE_URL": "",
		"VITE_LINKFORGE_URL": "", "WITH_LINKFORGE_URL": "",
	} {
		f := flags(t)
		f.unknown = NewFlags([]string{name + "=hunter2"}, checks).unknown
		for command, check := range map[string]func() (Config, error){"serve": f.Check, "others": f.CheckDatabase} {
			_, err := check()
			if want == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", name, command, err)
				}
				continue
			}
			if !cmp.Equal(blamed(err), []string{name}) || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: %v, want an error that names %s", name, command, err, want)
			}
		}
	}
	if _, err := Parse(map[string]string{"LINKFORGE_ORIGIN": "*", "LINKFORGE_HIT_QUOTE": "1", "LINKFORGE_LISTEN": "x"},
		checks); !slices.Equal(
		blamed(err), []string{"LINKFORGE_HIT_QUOTE", "LINKFORGE_LISTEN", "LINKFORGE_ORIGIN"}) {
		t.Errorf("all problems together: %v", err)
	}
}

func TestLoad_ProductionRequiresURLAndDatabase(t *testing.T) {
	t.Parallel()
	const databaseURL, publicURL = "LINKFORGE_DATABASE_URL", "LINKFORGE_PUBLIC_URL"
	for _, c := range []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"neither", map[string]string{}, []string{databaseURL, publicURL}},
		{"a data folder", map[string]string{"LINKFORGE_DATA_DIR": "/data", publicURL: "https://sho.rt"},
			[]string{databaseURL}},
		{"empty values", map[string]string{databaseURL: "", publicURL: ""}, []string{databaseURL, publicURL}},
		{"SQLite", map[string]string{databaseURL: "sqlite", publicURL: "https://sho.rt"}, nil},
		{"PostgreSQL", with(setup(), publicURL, "https://sho.rt"), nil},
	} {
		for _, word := range []string{"production", "Production"} {
			got, err := Parse(with(c.env, "LINKFORGE_ENV", word), checks)
			wanttest.Equal(t, c.want, blamed(err), "%s blames", c.name)
			if got.Embedded() != (c.name != "PostgreSQL") {
				t.Errorf("%s: embedded is %v", c.name, got.Embedded())
			}
		}
	}
}
