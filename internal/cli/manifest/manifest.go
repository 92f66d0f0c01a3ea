// Package manifest owns links as code. parse.go reads the file with the links of an owner, and
// write.go writes it. link.go has the normal form of links, and plan.go compares the
// normal forms with the links that exist. The package is pure: package cli reads and changes links
// through the API. Fields have the names of the API.
package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// maxLinks is the number of links of a file.
const maxLinks = 10_000

// ownerKey is the key of the metadata that has the owner. replacedKey is that of the metadata of a
// link that is being replaced: it has lost its external id, and will be deleted.
const (
	ownerKey    = "owner"
	replacedKey = "replaced"
)

// File is a manifest. Its links are in normal form.
type File struct {
	Owner string
	Links []*Link
}

// ExternalIDs returns the external ids of the links.
func (f *File) ExternalIDs() (ids []string) {
	for _, l := range f.Links {
		ids = append(ids, l.externalID(f.Owner))
	}
	return ids
}

// MissingCodes returns the links whose custom code, or URL if it determines the code, no existing
// link has.
func (f *File) MissingCodes(existing []*Existing, s Settings) (missing []*Link) {
	known := map[string]bool{"": true}
	for _, e := range existing {
		known[s.identity(e.link())] = true
	}
	for _, l := range f.Links {
		if !known[s.identity(l)] {
			missing = append(missing, l)
		}
	}
	return missing
}

// Problem is an error of a file, at a line and a column that are counted from 1.
type Problem struct {
	Line, Column int
	Text         string
}

// Problems are all errors of a file, by position.
type Problems []Problem

// maxShown is the number of problems that Error lists.
const maxShown = 20

// Error returns a line for each of the first problems.
func (p Problems) Error() string {
	var lines []string
	for _, one := range p[:min(len(p), maxShown)] {
		lines = append(lines, fmt.Sprintf("%d:%d: %s", one.Line, one.Column, Printable(json.RawMessage(one.Text))))
	}
	if more := len(p) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

func byPosition(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
}
