package importsource

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/linkfield"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// The form of archives of a workspace that this version reads.
const (
	archiveFormat    = "linkforge-workspace"
	archiveVersion   = 1
	maxArchive       = 1 << 30 // bytes without compression
	maxManifest      = 1 << 20
	manifestFile     = "manifest.json"
	linksSection     = "links"
	archiveMalformed = "The file is no complete archive of a workspace. Download it again."
)

// archiveFiles are the names of the files in an archive, by section.
var archiveFiles = regexp.MustCompile(`^(?:(folders|domains|members|links|versions|audit)/\d{5}|(clicks)/\d{4}-\d{2})\.jsonl$`)

// manifest is what an archive states about itself.
type manifest struct {
	Format        string
	SchemaVersion int
	Sections      []manifestSection
}

type manifestSection struct {
	Name   string
	Files  []string
	SHA256 string
}

// CheckArchive reads an archive of a workspace to its end, and compares its files with its manifest. Rows does not, so that
// it can begin before the end. It returns InvalidInput, or the error of the reader.
func CheckArchive(file io.Reader) error {
	var last *manifest
	var found []manifestSection
	var sum hash.Hash
	err := walkArchive(file, func(name, section string, content io.Reader) error {
		if name == manifestFile {
			last = &manifest{}
			text, err := io.ReadAll(io.LimitReader(content, maxManifest+1))
			if err == nil && (len(text) > maxManifest || json.Unmarshal(text, last) != nil) {
				err = errs.New(errs.InvalidInput, "The manifest of the archive is no valid JSON.")
			}
			return err
		}
		if n := len(found); n == 0 || found[n-1].Name != section {
			found, sum = append(found, manifestSection{Name: section}), sha256.New()
		}
		if _, err := io.Copy(sum, content); err != nil {
			return err
		}
		at := &found[len(found)-1]
		at.Files, at.SHA256 = append(at.Files, name), hex.EncodeToString(sum.Sum(nil))
		return nil
	})
	switch {
	case err != nil:
		return err
	case last == nil:
		return errs.New(errs.InvalidInput, archiveMalformed)
	case last.Format != archiveFormat || last.SchemaVersion < 1 || last.SchemaVersion > archiveVersion:
		return errs.New(errs.InvalidInput, "The archive has the format %s and version %d. This server reads %s up to %d. "+
			"Upgrade it first.", quoted(last.Format), last.SchemaVersion, archiveFormat, archiveVersion)
	}
	isEmpty := func(s manifestSection) bool { return len(s.Files) == 0 }
	equal := func(a, b manifestSection) bool {
		return a.Name == b.Name && a.SHA256 == b.SHA256 && slices.Equal(a.Files, b.Files)
	}
	if !slices.EqualFunc(found, slices.DeleteFunc(last.Sections, isEmpty), equal) {
		return errs.New(errs.InvalidInput, "The files of the archive are not those of its manifest. Download it again.")
	}
	return nil
}

// quoted returns a name of an archive for a message.
func quoted(name string) string { return fmt.Sprintf("%q", label(name)) }

// walkArchive calls the function for each file.
func walkArchive(file io.Reader, each func(name, section string, content io.Reader) error) error {
	source := &recorder{in: file}
	unzipped, err := gzip.NewReader(source)
	if err != nil {
		return source.malformed(err)
	}
	limited := &io.LimitedReader{R: unzipped, N: maxArchive + 1}
	err = eachFile(tar.NewReader(limited), each)
	if err == nil {
		_, err = io.Copy(io.Discard, limited) // the checksum of the compression is at the end
	}
	if limited.N <= 0 {
		return errs.New(errs.InvalidInput, "The archive must have at most 1 GiB without compression.")
	}
	return source.malformed(err)
}

func eachFile(archive *tar.Reader, each func(name, section string, content io.Reader) error) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		parts := archiveFiles.FindStringSubmatch(header.Name)
		if header.Typeflag != tar.TypeReg || parts == nil && header.Name != manifestFile {
			return errs.New(errs.InvalidInput, "The archive has the unknown file %s.", quoted(header.Name))
		}
		section := ""
		if parts != nil {
			section = parts[1] + parts[2]
		}
		if err := each(header.Name, section, archive); err != nil {
			return err
		}
	}
}

// recorder remembers the error of a reader, to tell it from malformed data.
type recorder struct {
	in  io.Reader
	err error
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// malformed returns the error of the reader, or else InvalidInput.
func (r *recorder) malformed(err error) error {
	typed := &errs.Error{}
	switch {
	case err == nil || r.err != nil:
		return r.err
	case errors.As(err, &typed) || errors.Is(err, errStopped):
		return err
	}
	return errs.New(errs.InvalidInput, archiveMalformed).Because(err)
}

// archive reads the links of an archive.
func (r *reader) archive(f *format) error {
	return walkArchive(r.file.in, func(_, section string, content io.Reader) error {
		if section != linksSection {
			return nil
		}
		r.file = newScanner(content)
		return r.lines(f)
	})
}

// archived is a link as exports write it.
var archived = format{
	properties: slices.Concat([]property{
		to(setID, "id"), to(func(m *mapper, v value) {
			if text, ok := m.text(v); ok {
				m.row.SourceURL = text
			}
		}, "shortUrl"),
		to(setCode, "code"), to(setHost, "domain"),
		urlOf("url"),
		to(setTitle, "title"), to(setNote, "note"), to(setTags, "tags"), to(setFolder, "folder"),
		to(setStart, "startsAt"), to(setEnd, "expiresAt"), to(setLimit, "maxClicks"), to(setStatus, "redirectStatus"),
		to(setArchived, "archived"), to(setStatsPublic, "statsPublic"), to(setExternalID, "externalId"),
		to(setPairs, "metadata"), to(setRouting, "routing"), to(setPast, "origins"),
		to(setCreated, "createdAt"), to(setClicks, "clickCount"), to(setLastClicked, "lastClickedAt"),
		to(func(m *mapper, _ value) { m.row.Deleted = true }, "deletedAt"),
	}, each(handled, "strategy", "updatedAt")),
}

// setPairs maps an object of keys and texts.
func setPairs(m *mapper, v value) {
	properties, ok := v.is.(map[string]any)
	if !ok {
		lose(Invalid)(m, v)
		return
	}
	for _, pair := range newObject(properties, false) {
		setMetadata(m, pair)
	}
	if _, err := linkfield.NewMetadata(m.row.Metadata); err != nil {
		m.row.Metadata = nil
		m.lose(v, Invalid)
	}
}

// setRouting maps each part of a routing.
var setRouting = nested(
	to(setArchivedRules, "rules"),
	to(part(func(c *routing.Change, to *routing.Forwarding) { c.Query = optional.Set(to) }), "query"),
	to(part(func(c *routing.Change, to *bool) { c.ForwardPath = optional.Set(to) }), "forwardPath"),
	to(part(func(c *routing.Change, to *routing.UTM) { c.UTM = optional.Set(to) }), "utm"),
	to(part(func(c *routing.Change, to *string) { c.PendingURL = optional.Set(to) }), "pendingUrl"),
	to(part(func(c *routing.Change, to *string) { c.EndedURL = optional.Set(to) }), "endedUrl"),
	to(part(func(c *routing.Change, to *routing.Card) { c.Card = optional.Set(to) }), "card"),
	to(setArchivedGate, "gate"),
	to(part(func(c *routing.Change, to *routing.BotPolicy) { c.Bots = optional.Set(to) }), "bots"),
	to(part(func(c *routing.Change, to []string) { c.QRSources = optional.Set(to) }), "qrSources"),
	to(part(func(c *routing.Change, to []*routing.Test) { c.Tests = optional.Set(to) }), "tests"),
)

// part returns a setter of a part of a routing, which is written as it is stored.
func part[T any](set func(c *routing.Change, to T)) setter {
	return func(m *mapper, v value) {
		v.name = "routing." + v.name
		to, ok := decode[T](v.is)
		one := &routing.Change{}
		set(one, to)
		if !ok {
			m.lose(v, Invalid)
		} else if m.accepts(v, one) {
			set(&m.change, to)
		}
	}
}

// decode returns a value of the item as a type that has all its properties.
func decode[T any](is any) (to T, ok bool) {
	text, err := json.Marshal(is)
	if err != nil {
		return to, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return to, decoder.Decode(&to) == nil
}

// setArchivedRules maps rules. Those of the new link get ids of their own.
func setArchivedRules(m *mapper, v value) {
	v.name = "routing." + v.name
	list, _ := v.is.([]any)
	for _, one := range list {
		rule, ok := decode[*routing.Rule](one)
		if !ok || rule == nil || slices.Contains(rule.Targets, nil) {
			m.lose(v, Invalid)
			continue
		}
		rule.ID = ""
		for _, target := range rule.Targets {
			target.ID = ""
		}
		m.addRule(v, rule)
	}
}

// setArchivedGate maps a gate without its password, which is not exported.
func setArchivedGate(m *mapper, v value) {
	gate, ok := decode[struct {
		HasPassword, Confirm bool
		Notice               *string
	}](v.is)
	if !ok || gate.HasPassword {
		m.row.Deleted = true
		m.lose(value{name: "routing.gate.password"}, NotExported)
	}
	if gate.Confirm {
		m.gate().Confirm.To = new(true)
	}
	notice := value{"routing.gate.notice", gate.Notice}
	one := &routing.GateChange{Notice: optional.Set(gate.Notice)}
	if gate.Notice != nil && m.accepts(notice, &routing.Change{Gate: optional.Set(one)}) {
		m.gate().Notice.To = gate.Notice
	}
}

// setPast maps where the link had been imported from before.
func setPast(m *mapper, v value) {
	list, _ := v.is.([]any)
	for _, one := range list {
		past, ok := decode[Past](one)
		texts := past.Label + past.SourceID + optional.Value(past.SourceURL)
		if !ok || !slices.Contains(everySource, past.Source) || len(texts) > maxSourceID+urlnorm.MaxBytes ||
			strings.ContainsFunc(texts, unicode.IsControl) || len(m.row.Past) == maxReports {
			m.lose(v, Invalid)
			continue
		}
		m.row.Past = append(m.row.Past, past)
	}
}
