package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// flags returns the settings as kong reads them from that command line.
func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := NewFlags(nil, checks)
	parser := must.Value(kong.New(&struct{}{}, kong.Embed(f.Grammar())))(t)
	must.Value(parser.Parse(args))(t)
	return f
}

func TestRead_AcceptsFlags(t *testing.T) {
	t.Parallel()
	f := flags(t, "--hit-quota=many", "--hit-quota=5", "--max-cost=7", "--migrate", "off",
		"--code-secret=short", "--env=")
	c, err := f.CheckDatabase()
	if err != nil || c.HitQuota != 5 || c.Bounds.Cost != 7 || c.Migrate || !c.Development || c.CodeSecrets != nil {
		t.Errorf("%+v: %v", c, err)
	}
	if _, err := f.Check(); !slices.Equal(blamed(err), []string{"LINKFORGE_CODE_SECRET"}) {
		t.Errorf("with secrets: %v", err)
	}
	if !f.Has("LINKFORGE_CODE_SECRET") || f.Has("LINKFORGE_JWT_SECRET") {
		t.Error("only one of the secrets has a value")
	}
}

func TestReadDatabase_NeedsNoSecrets(t *testing.T) {
	t.Parallel()
	args := []string{"--database-url=postgres://linkforge:hunter2@db.internal/linkforge", "--code-secret=short"}
	c, err := flags(t, args...).CheckDatabase()
	if err != nil || "--database-url="+c.DatabaseURL != args[0] || c.JWTSecrets != nil || c.CodeSecrets != nil {
		t.Errorf("%+v: %v", c, err)
	}
	_, err = flags(t, append(args, "--database-pool=none")...).CheckDatabase()
	if fmt.Sprint(blamed(err)) != "[LINKFORGE_DATABASE_POOL]" {
		t.Errorf("everything else is checked: %v", err)
	}
}

// TestConfig_FieldsHaveTags checks defects of tags that would cause no error.
func TestConfig_FieldsHaveTags(t *testing.T) {
	t.Parallel()
	texts := help()
	eachSetting(reflect.ValueOf(Config{}), func(field reflect.Value, tag reflect.StructTag) {
		env := tag.Get("env")
		if !strings.HasPrefix(env, "LINKFORGE_") || texts[env] == "" || checks.parser(tag.Get("syntax")) == nil {
			t.Errorf("%s: %s", env, tag)
		}
		for _, name := range []string{"min", "max"} {
			var err error
			switch field.Interface().(type) {
			case int, int64:
				_, err = strconv.ParseInt(tag.Get(name), 10, 64)
			case time.Duration:
				_, err = ParseDuration(tag.Get(name))
			}
			if err != nil {
				t.Errorf("%s has no %s: %v", env, name, err)
			}
		}
	})
}
