package importsource

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/route/routing"
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
	archiveMalformed = "The archive is not complete. Download it again."
)

// archiveFiles are the names of the files in an archive, by section.
var archiveFiles = regexp.MustCompile(
	`^(?:(folders|domains|members|links|versions|audit)/\d{5,}|(clicks)/\d{4}-\d{2}(?:-\d{5,})?)\.jsonl$`)

// Manifest describes an archive and its files.
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

// ManifestSection is a part of an archive. SHA256 is that of its files in their order, in
// hexadecimal.
type ManifestSection struct {
	Name    string   `json:"name"`
	Files   []string `json:"files"`
	Records int64    `json:"records"`
	SHA256  string   `json:"sha256"`
}

// ArchivedLink is the record of a link. Domain is the host of a code that belongs to a domain, and
// Folder the name of the folder; nil means none. Values that a link does not have are left out.
type ArchivedLink struct {
	ID       string  `json:"id"`
	ShortURL string  `json:"shortUrl"`
	Code     string  `json:"code"`
	Domain   *string `json:"domain"`
	Strategy string  `json:"strategy"`
	// Values have no FolderID. Metadata and Routing are in forms of their own.
	linkfield.Values
	Folder        *string           `json:"folder"`
	Metadata      map[string]string `json:"metadata"`
	Routing       *ArchivedRouting  `json:"routing"`
	Origins       []Past            `json:"origins"`
	CreatedAt     time.Time         `json:"createdAt"`
	UpdatedAt     time.Time         `json:"updatedAt"`
	DeletedAt     *time.Time        `json:"deletedAt"`
	DisabledAt    *time.Time        `json:"disabledAt"`
	ClickCount    int64             `json:"clickCount"`
	LastClickedAt *time.Time        `json:"lastClickedAt"`
	// RootProof is the server's signature of a code that works at its root; nil for others.
	RootProof *string `json:"rootProof,omitempty"`
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

// IsSame reports whether two records describe the same state of a link. Its short URL and the proof of
// that, the numbers of its clicks, its origins and the time of its last change are no part of that.
func (l *ArchivedLink) IsSame(other *ArchivedLink) bool {
	described := func(l ArchivedLink) string {
		l.RootProof = nil
		l.ShortURL, l.ClickCount, l.LastClickedAt, l.Origins, l.UpdatedAt = "", 0, nil, nil, time.Time{}
		text, err := json.Marshal(l)
		if err != nil { // as for a time that JSON cannot have
			return err.Error()
		}
		return string(text)
	}
	return described(*l) == described(*other)
}

// CheckArchive reads an archive of a workspace to its end, compares its files with its manifest,
// and returns the names of its folders. Rows does not, so that it can begin before the end. It
// returns InvalidInput, or the error of the reader.
func CheckArchive(file io.Reader) (folders []string, err error) {
	var last *Manifest
	var found []ManifestSection
	var sum hash.Hash
	err = walkArchive(file, func(name, section string, content io.Reader) error {
		if name == ManifestFile {
			last = &Manifest{}
			text, err := io.ReadAll(io.LimitReader(content, maxManifest+1))
			if err == nil && (len(text) > maxManifest || !isJSON(text) || json.Unmarshal(text, last) != nil) {
				err = errs.New(errs.InvalidInput, "The manifest of the archive is no valid JSON in UTF-8.")
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
		return nil, errs.New(errs.InvalidInput,
			"The archive has the format %s and version %d. This server reads %s up to %d. "+
				"Upgrade it first.", quoted(last.Format), last.SchemaVersion, ArchiveFormat, ArchiveVersion)
	}
	isEmpty := func(s ManifestSection) bool { return len(s.Files) == 0 }
	equal := func(a, b ManifestSection) bool {
		return a.Name == b.Name && a.SHA256 == b.SHA256 && slices.Equal(a.Files, b.Files)
	}
	if !slices.EqualFunc(found, slices.DeleteFunc(last.Sections, isEmpty), equal) {
		return nil, errs.New(errs.InvalidInput,
			"The files of the archive are not those of its manifest. Download it again.")
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
		if isLong || !isJSON(line) || json.Unmarshal(line, &f) != nil {
			return nil, errs.New(errs.InvalidInput, "The folders of the archive are no valid JSON in UTF-8.")
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
	unzipped, err := openArchive(source)
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
	size := int64(0) // also counts the holes of a sparse file
	for files := 0; ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir && files == 0 {
			return errs.New(errs.InvalidInput,
				"The archive was unpacked and packed again. Send it as it was downloaded.")
		}
		parts := archiveFiles.FindStringSubmatch(header.Name)
		if header.Typeflag != tar.TypeReg || parts == nil && header.Name != ManifestFile {
			return errs.New(errs.InvalidInput, "The archive has the unknown file %s.", quoted(header.Name))
		}
		if size += header.Size; size > maxArchive || files == maxFiles {
			return errs.New(errs.InvalidInput, "The archive must have at most 1 GiB without compression, in %d files.",
				maxFiles)
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

// recorder stores the error of a reader, to distinguish it from malformed data.
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
