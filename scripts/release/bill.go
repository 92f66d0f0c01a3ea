package main

import (
	"debug/buildinfo"
	"encoding/json"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of CycloneDX 1.5 that a bill of Go modules needs
// (https://cyclonedx.org/docs/1.5/json/).
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		URL        string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// bundled is a package of the playground's page, as its NOTICE names it: two spaces, name, version,
// licence.
var bundled = regexp.MustCompile(`(?m)^  (\S+) (\d\S*) \(`)

// bill writes the components of a binary: the Go version and the modules with their checksums from
// the linker, and the npm packages of the playground from its NOTICE.
func bill(w io.Writer, binary string, notice []byte, version string, at time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	program := library(info.Main.Path, version, "")
	program.Type = "application"
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "vcs.revision" {
			program.Properties = append(program.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{Timestamp: at.Format(time.RFC3339),
		Component: program}}
	b.Components = append(b.Components, library("std", strings.TrimPrefix(info.GoVersion, "go"), ""))
	for _, d := range info.Deps {
		b.Components = append(b.Components, library(actual(d).Path, actual(d).Version, actual(d).Sum))
	}
	for _, p := range bundled.FindAllSubmatch(notice, -1) {
		name, version := string(p[1]), string(p[2])
		url := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + version
		b.Components = append(b.Components,
			component{Type: "library", Ref: url, Name: name, Version: version, URL: url})
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(b)
}

// actual is the module that was built: a replacement, where there is one.
func actual(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func library(path, version, checksum string) component {
	url := "pkg:golang/" + path + "@" + version
	c := component{Type: "library", Ref: url, Name: path, Version: version, URL: url}
	if checksum != "" {
		c.Properties = []property{{"go:sum", checksum}}
	}
	return c
}
