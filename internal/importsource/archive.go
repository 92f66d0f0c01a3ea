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
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/linkfield"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// The form of archives of a workspace. Package archive writes them.
const (
	ArchiveFormat = "linkforge-workspace"
	// ArchiveVersion is the newest version that is read, and the one that is written.
	ArchiveVersion = 1
	// ManifestFile is the last file of an archive.
	ManifestFile = "manifest.json"

	maxArchive       = 1 << 30 // bytes without compression
	maxFiles         = 10_000
	maxManifest      = 1 << 20
	foldersSection   = "folders"
	linksSection     = "links"
	archiveMalformed = "The file is no complete archive of a workspace. Download it again."
)

// archiveFiles are the names of the files in an archive, by section.
var archiveFiles = regexp.MustCompile(
	`^(?:(folders|domains|members|links|versions|audit)/\d{5,}|(clicks)/\d{4}-\d{2}(?:-\d{5,})?)\.jsonl$`)

// Manifest is what an archive states about itself.
type Manifest struct {
	Format        string            `json:"format"`
	SchemaVersion int               `json:"schemaVersion"`
	StartedAt     time.Time         `json:"startedAt"`
	FinishedAt    time.Time         `json:"finishedAt"`
	Instance      string            `json:"instance"`
	Workspace     ManifestWorkspace `json:"workspace"`
	Sections      []ManifestSection `json:"sections"`
	// Omitted are the names of sections that the archive does not have.
	Omitted []string `json:"omitted"`
}

// ManifestWorkspace is the workspace that an archive holds.
type ManifestWorkspace struct {
	ID                    string `json:"id"`
	Slug                  string `json:"slug"`
	Name                  string `json:"name"`
	DefaultStrategy       string `json:"defaultStrategy"`
	DefaultRedirectStatus int    `json:"defaultRedirectStatus"`
}

// ManifestSection is a part of an archive. SHA256 is that of its files in their order, in hexadecimal.
type ManifestSection struct {
	Name    string   `json:"name"`
	Files   []string `json:"files"`
	Records int64    `json:"records"`
	SHA256  string   `json:"sha256"`
}

// ArchivedLink is the record of a link. Domain is the host of a code that belongs to a domain, and Folder the name of the folder;
// nil means none.
type ArchivedLink struct {
	ID             string            `json:"id"`
	ShortURL       string            `json:"shortUrl"`
	Code           string            `json:"code"`
	Domain         *string           `json:"domain"`
	URL            string            `json:"url"`
	Strategy       string            `json:"strategy"`
	Title          *string           `json:"title"`
	Note           *string           `json:"note"`
	Tags           []string          `json:"tags"`
	Folder         *string           `json:"folder"`
	StartsAt       *time.Time        `json:"startsAt"`
	ExpiresAt      *time.Time        `json:"expiresAt"`
	MaxClicks      *int64            `json:"maxClicks"`
	RedirectStatus int               `json:"redirectStatus"`
	Archived       bool              `json:"archived"`
	StatsPublic    bool              `json:"statsPublic"`
	ExternalID     *string           `json:"externalId"`
	Metadata       map[string]string `json:"metadata"`
	Routing        *ArchivedRouting  `json:"routing"`
	Origins        []Past            `json:"origins"`
	CreatedAt      time.Time         `json:"createdAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
	DeletedAt      *time.Time        `json:"deletedAt"`
	DisabledAt     *time.Time        `json:"disabledAt"`
	ClickCount     int64             `json:"clickCount"`
	LastClickedAt  *time.Time        `json:"lastClickedAt"`
}

// ArchivedRouting is a routing with its gate as archives have it: without the password.
type ArchivedRouting struct {
	*routing.Routing
	Gate *ArchivedGate `json:"gate,omitempty"`
}

// ArchivedGate is a gate in an archive.
type ArchivedGate struct {
	HasPassword bool    `json:"hasPassword"`
	Notice      *string `json:"notice,omitempty"`
	Confirm     bool    `json:"confirm,omitempty"`
}

// NewArchivedRouting returns the routing as archives have it; nil for nil.
func NewArchivedRouting(r *routing.Routing) *ArchivedRouting {
	if r == nil {
		return nil
	}
	a := &ArchivedRouting{Routing: r}
	if r.Gate != nil {
		a.Gate = &ArchivedGate{HasPassword: r.Gate.HasPassword(), Notice: r.Gate.Notice, Confirm: r.Gate.Confirm}
	}
	return a
}

// IsSame reports whether two records describe the same state of a link. Its short URL, the numbers of its clicks, its origins and the
// time of its last change are no part of that.
func (l *ArchivedLink) IsSame(other *ArchivedLink) bool {
	described := func(l ArchivedLink) string {
		l.ShortURL, l.ClickCount, l.LastClickedAt, l.Origins, l.UpdatedAt = "", 0, nil, nil, time.Time{}
		text, err := json.Marshal(l)
		if err != nil { // as for a time that JSON cannot have
			return err.Error()
		}
		return string(text)
	}
	return described(*l) == described(*other)
}

// CheckArchive reads an archive of a workspace to its end, compares its files with its manifest, and returns the names of its folders.
// Rows does not, so that it can begin before the end. It returns InvalidInput, or the error of the reader.
func CheckArchive(file io.Reader) (folders []string, err error) {
	var last *Manifest
	var found []ManifestSection
	var sum hash.Hash
	err = walkArchive(file, func(name, section string, content io.Reader) error {
		if name == ManifestFile {
			last = &Manifest{}
			text, err := io.ReadAll(io.LimitReader(content, maxManifest+1))
			if err == nil && (len(text) > maxManifest || json.Unmarshal(text, last) != nil) {
				err = errs.New(errs.InvalidInput, "The manifest of the archive is no valid JSON.")
			}
			return err
		}
		if n := len(found); n == 0 || found[n-1].Name != section {
			found, sum = append(found, ManifestSection{Name: section}), sha256.New()
		}
		content = io.TeeReader(content, sum)
		if section == foldersSection {
			if folders, err = readFolders(content, folders); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		at := &found[len(found)-1]
		at.Files, at.SHA256 = append(at.Files, name), hex.EncodeToString(sum.Sum(nil))
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, errs.New(errs.InvalidInput, archiveMalformed)
	case last.Format != ArchiveFormat || last.SchemaVersion < 1 || last.SchemaVersion > ArchiveVersion:
		return nil, errs.New(errs.InvalidInput, "The archive has the format %s and version %d. This server reads %s up to %d. "+
			"Upgrade it first.", quoted(last.Format), last.SchemaVersion, ArchiveFormat, ArchiveVersion)
	}
	isEmpty := func(s ManifestSection) bool { return len(s.Files) == 0 }
	equal := func(a, b ManifestSection) bool {
		return a.Name == b.Name && a.SHA256 == b.SHA256 && slices.Equal(a.Files, b.Files)
	}
	if !slices.EqualFunc(found, slices.DeleteFunc(last.Sections, isEmpty), equal) {
		return nil, errs.New(errs.InvalidInput, "The files of the archive are not those of its manifest. Download it again.")
	}
	return folders, nil
}

// readFolders adds the names of folders in a file.
func readFolders(content io.Reader, names []string) ([]string, error) {
	for lines := newScanner(content); ; {
		line, isLong, err := lines.line(MaxItem)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		var f struct{ Name string }
		if isLong || json.Unmarshal(line, &f) != nil {
			return nil, errs.New(errs.InvalidInput, "The folders of the archive are no valid JSON.")
		}
		if len(names) < maxRecords && utf8.RuneCountInString(f.Name) <= maxFolder {
			names = append(names, f.Name)
		}
	}
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
	size := int64(0) // of a sparse file, also what the archive does not have
	for files := 0; ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		parts := archiveFiles.FindStringSubmatch(header.Name)
		if header.Typeflag != tar.TypeReg || parts == nil && header.Name != ManifestFile {
			return errs.New(errs.InvalidInput, "The archive has the unknown file %s.", quoted(header.Name))
		}
		if size += header.Size; size > maxArchive || files == maxFiles {
			return errs.New(errs.InvalidInput, "The archive must have at most 1 GiB without compression, in %d files.", maxFiles)
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
			text, _ := v.is.(string)
			if _, _, ok := cutShortURL(text); ok {
				m.row.SourceURL = withScheme(text)
			} else {
				m.lose(v, Invalid)
			}
		}, "shortUrl"),
		to(setCode, "code"), to(setHost, "domain"),
		urlOf("url"),
		to(setTitle, "title"), to(setNote, "note"), to(setTags, "tags"), to(setFolder, "folder"),
		to(setStart, "startsAt"), to(setEnd, "expiresAt"), to(setLimit, "maxClicks"), to(setStatus, "redirectStatus"),
		to(setArchived, "archived"), to(setStatsPublic, "statsPublic"), to(setExternalID, "externalId"),
		to(setPairs, "metadata"), to(setRouting, "routing"), to(setPast, "origins"),
		to(setCreated, "createdAt"), to(setClicks, "clickCount"), to(setLastClicked, "lastClickedAt"),
		to(setDeleted, "deletedAt"), to(setDeleted, "disabledAt"),
	}, each(handled, "strategy", "updatedAt")),
}

func setDeleted(m *mapper, _ value) { m.row.Deleted = true }

// setPairs maps an object of keys and texts.
func setPairs(m *mapper, v value) {
	properties, ok := v.is.(map[string]any)
	if !ok {
		lose(Invalid)(m, v)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		setMetadata(m, value{key, properties[key]})
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
			if target.ID = ""; target.MaxClicks != nil { // of which some may be used up
				m.lose(value{v.name + ".targets.maxClicks", *target.MaxClicks}, Approximated)
			}
		}
		m.addRule(v, rule)
	}
}

// setArchivedGate maps a gate without its password, which is not exported.
func setArchivedGate(m *mapper, v value) {
	gate, ok := decode[ArchivedGate](v.is)
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
	list, ok := v.is.([]any)
	if !ok {
		m.lose(v, Invalid)
	}
	for _, one := range list {
		is, _ := one.(map[string]any)
		text := func(name string) string {
			text, _ := is[name].(string)
			return text
		}
		p := Past{Source: Source(text("source")), Label: text("label"), SourceID: text("sourceId"), SourceURL: optional.Of(text("sourceUrl"))}
		p.CreatedAt, p.LastClickedAt = m.instantOr(v, is["createdAt"]), m.instantOr(v, is["lastClickedAt"])
		if n, ok := integer(is["clicks"]); ok && n >= 0 {
			p.Clicks = &n
		}
		importedAt := m.instantOr(v, is["importedAt"])
		_, _, isURL := cutShortURL(text("sourceUrl"))
		if !slices.Contains(everySource, p.Source) || importedAt == nil || utf8.RuneCountInString(p.Label) > maxName || p.SourceID == "" ||
			len(p.SourceID) > maxSourceID || len(text("sourceUrl")) > urlnorm.MaxBytes || p.SourceURL != nil && !isURL ||
			strings.ContainsFunc(p.Label+p.SourceID+text("sourceUrl"), unicode.IsControl) || len(m.row.Past) == maxPast {
			m.lose(v, Invalid)
			continue
		}
		p.ImportedAt = *importedAt
		m.row.Past = append(m.row.Past, p)
	}
}

// maxPast is how many earlier origins of a link an archive has.
const maxPast = 20

// instantOr returns an instant within a value; nil for null.
func (m *mapper) instantOr(v value, is any) *time.Time {
	if is == nil {
		return nil
	}
	return m.instant(value{v.name, is})
}
