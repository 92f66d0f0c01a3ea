package routing

import (
	"archive/zip"
	_ "embed"
	"io"
	"strings"
	"sync"
	"time"
)

// database is lib/time/zoneinfo.zip of Go 1.26.
//
//go:embed zoneinfo.zip
var database string

// zones returns the zones by their names; each is parsed once, because that takes longer than a
// redirect.
var zones = sync.OnceValue(func() map[string]func() *time.Location {
	files, err := zip.NewReader(strings.NewReader(database), int64(len(database)))
	if err != nil {
		panic("the embedded tz database: " + err.Error())
	}
	all := make(map[string]func() *time.Location, len(files.File))
	for _, file := range files.File {
		all[file.Name] = sync.OnceValue(func() *time.Location { return parse(file) })
	}
	return all
})

// LoadZone returns the zone with a name of the tz database, as in Europe/Berlin; nil for another
// name. The database is embedded in the binary, so that all nodes agree, regardless of the zone
// files of their machines.
func LoadZone(name string) *time.Location {
	load, ok := zones()[name]
	if !ok {
		return nil
	}
	return load()
}

// parse returns nil for a folder.
func parse(file *zip.File) *time.Location {
	opened, err := file.Open()
	if err != nil {
		return nil
	}
	defer opened.Close()
	data, err := io.ReadAll(opened)
	if err != nil {
		return nil
	}
	location, err := time.LoadLocationFromTZData(file.Name, data)
	if err != nil {
		return nil
	}
	return location
}
