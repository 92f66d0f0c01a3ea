package routing_test

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	summer := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"UTC": "12:00", "Europe/Berlin": "14:00", "Asia/Kathmandu": "17:45", "America/Argentina/Buenos_Aires": "09:00",
		"Etc/GMT+5": "07:00",
	} {
		if at := routing.LoadZone(name); at == nil || summer.In(at).Format("15:04") != want || at.String() != name {
			t.Errorf("%s: %v", name, at)
		}
	}
}

// TestLoad_HasOneNameForAZone: another spelling of a path is no name, and neither is what depends
// on the machine.
func TestLoad_HasOneNameForAZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "Local", "localtime", "./localtime", "posixrules", "posix/Europe/Berlin", "right/UTC", "Europe", "Europe/",
		"Europe//Berlin", "./Europe/Berlin", "/Europe/Berlin", "Europe/../Europe/Berlin", "europe/berlin",
		"Europe/Berlin ", "Europe/Berlin\x00", "CEST-2",
	} {
		if at := routing.LoadZone(name); at != nil {
			t.Errorf("%q is %v", name, at)
		}
	}
}
