package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// A file of a section ends with maxRecords records, or with the record that exceeds maxFile
	// bytes: an export holds one file in memory.
	maxRecords = 10_000
	maxFile    = 4 << 20
	// readAtOnce is how many records a statement reads.
	readAtOnce = 200
)

// progress is the cursor of an export.
type progress struct {
	StartedAt time.Time `json:"startedAt"`
	// Sections lists the complete sections, and Section is the one in progress: Hash is the state
	// of its hash, and After the position of its last record.
	Sections []importsource.ManifestSection `json:"sections"`
	Section  importsource.ManifestSection   `json:"section"`
	Hash     []byte                         `json:"hash,omitempty"`
	After    string                         `json:"after,omitempty"`
	Records  int64                          `json:"records"`
	// Chunks and Bytes are the size of the archive, and Sum is the state of its hash. SHA256 is the
	// hash of the complete archive.
	Chunks int    `json:"chunks"`
	Bytes  int64  `json:"bytes"`
	Sum    []byte `json:"sum,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// export is an export on this node.
type export struct {
	*Store
	*task.Holding
	in       Settings
	progress progress
	total    *int64
}

func (e *export) now() time.Time { return db.Instant(e.Now()) }

// Run implements task.Handler: each step adds a file to the archive.
func (s *Store) Run(ctx context.Context, h *task.Holding) error {
	e := &export{Store: s, Holding: h, total: h.Total,
		progress: progress{StartedAt: h.CreatedAt.UTC().Truncate(time.Second)}}
	if err := json.Unmarshal([]byte(h.Input), &e.in); err != nil {
		return fmt.Errorf("decoding the arguments of an export: %w", err)
	}
	ctx, err := h.Member.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return err
	}
	if h.Cursor == "" {
		err = e.count(ctx)
	} else {
		err = json.Unmarshal([]byte(h.Cursor), &e.progress)
	}
	for err == nil && e.progress.SHA256 == "" {
		began := time.Now() // not the injected clock: this is about the machine's load
		if err = e.step(ctx); err == nil {
			err = h.Rest(ctx, time.Since(began))
		}
	}
	return err
}

// count sets the total, which is about that of the records.
func (e *export) count(ctx context.Context) error {
	e.total = new(int64(0))
	for _, one := range sections {
		if !slices.Contains(e.in.Sections, one.is) {
			continue
		}
		n, err := one.count(e, ctx)
		if err != nil {
			return fmt.Errorf("counting %s: %w", one.is, err)
		}
		*e.total += n
	}
	return nil
}

// step adds the next file to the archive.
func (e *export) step(ctx context.Context) error {
	next := e.progress
	next.Sections, next.Section.Files = slices.Clone(next.Sections), append([]string{}, next.Section.Files...)
	file, err := e.nextFile(ctx, &next)
	if err != nil {
		return err
	}
	isLast := file.name == importsource.ManifestFile
	packed, err := file.pack(next.StartedAt, isLast)
	if err != nil {
		return err
	}
	if next.Bytes += int64(len(packed)); next.Bytes > e.MaxBytes {
		return errs.New(errs.QuotaExceeded,
			"The archive has more than %d bytes. Choose fewer sections, or a shorter range of clicks.",
			e.MaxBytes)
	}
	sum := ""
	if next.Sum, sum, err = extend(next.Sum, packed); err != nil {
		return err
	}
	if isLast {
		next.SHA256, e.total = sum, &next.Records
	}
	if e.total != nil && *e.total < next.Records { // more records came meanwhile
		e.total = &next.Records
	}
	err = e.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		number := e.progress.Chunks
		for chunk := range slices.Chunk(packed, task.ChunkSize) {
			if err := e.Append(ctx, tx, number, chunk); err != nil {
				return err
			}
			number++
		}
		if next.Chunks = number; isLast { // an empty chunk ends the file
			if err := e.Append(ctx, tx, number, []byte{}); err != nil {
				return err
			}
		}
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		return e.Step(ctx, tx, string(text), next.Records, e.total)
	})
	e.progress = next
	return err
}

// file is a file in the archive.
type file struct {
	name    string
	content bytes.Buffer
}

// nextFile returns the next file of the archive, and the progress with it: the next one of a
// section with records left, or else the manifest.
func (e *export) nextFile(ctx context.Context, next *progress) (*file, error) {
	for len(next.Sections) < len(e.in.Sections) {
		is := e.in.Sections[len(next.Sections)]
		i := slices.IndexFunc(sections, func(one section) bool { return one.is == is })
		next.Section.Name = strings.ToLower(string(is))
		f := &file{}
		isEnd, err := e.fill(ctx, f, next, sections[i])
		if err != nil {
			return nil, fmt.Errorf("exporting %s: %w", is, err)
		}
		if next.Hash, next.Section.SHA256, err = extend(next.Hash, f.content.Bytes()); err != nil {
			return nil, err
		}
		if isEnd {
			next.Sections = append(next.Sections, next.Section)
			next.Section, next.Hash, next.After = importsource.ManifestSection{Files: []string{}}, nil, ""
		}
		if f.name != "" {
			return f, nil
		}
	}
	return e.manifest(next)
}

// fill writes the next records of a section to a file, and reports whether the section has no more.
func (e *export) fill(ctx context.Context, f *file, next *progress, from section) (isEnd bool, err error) {
	lines := json.NewEncoder(&f.content)
	lines.SetEscapeHTML(false)
	group := ""
	for n := 0; n < maxRecords && f.content.Len() < maxFile; {
		records, err := from.read(e, ctx, next.After, readAtOnce)
		if err != nil || len(records) == 0 {
			return true, err
		}
		for _, one := range records {
			if n == 0 {
				group = one.file
				f.name = next.nameOf(group)
				next.Section.Files = append(next.Section.Files, f.name)
			}
			if one.file != group || n == maxRecords || f.content.Len() >= maxFile {
				return false, nil
			}
			if err := lines.Encode(one.is); err != nil {
				return false, err
			}
			n++
			next.After = one.position
			next.Section.Records++
			next.Records++
		}
	}
	return false, nil
}

// nameOf returns the name of the next file of the section, in the group.
func (p *progress) nameOf(group string) string {
	if group == "" {
		return fmt.Sprintf("%s/%05d.jsonl", p.Section.Name, len(p.Section.Files)+1)
	}
	name, have := p.Section.Name+"/"+group, 0
	for _, one := range p.Section.Files {
		if strings.HasPrefix(one, name) {
			have++
		}
	}
	if have > 0 {
		name += fmt.Sprintf("-%05d", have+1)
	}
	return name + ".jsonl"
}

// manifest returns the last file of the archive.
func (e *export) manifest(next *progress) (*file, error) {
	w := e.Member.Workspace()
	m := importsource.Manifest{
		Format: importsource.ArchiveFormat, SchemaVersion: importsource.ArchiveVersion, StartedAt: next.StartedAt,
		FinishedAt: e.now().Truncate(time.Second), Instance: e.PublicURL, Sections: next.Sections, Omitted: []string{},
		Workspace: importsource.ManifestWorkspace{
			ID: w.ID, Slug: w.Slug, Name: w.Name, DefaultStrategy: w.DefaultStrategy,
			DefaultRedirectStatus: w.DefaultRedirectStatus,
		},
	}
	for _, one := range sections {
		if !slices.Contains(e.in.Sections, one.is) {
			m.Omitted = append(m.Omitted, strings.ToLower(string(one.is)))
		}
	}
	f := &file{name: importsource.ManifestFile}
	lines := json.NewEncoder(&f.content)
	lines.SetIndent("", " ")
	return f, lines.Encode(m)
}

// pack returns the tar entry of the file as a gzip member of its own (RFC 1952); the last member
// also ends the archive. Members are independent, so an export can resume after any of them.
func (f *file) pack(at time.Time, isLast bool) ([]byte, error) {
	packed := bytes.Buffer{}
	zip := gzip.NewWriter(&packed)
	zip.ModTime = at
	archive := tar.NewWriter(zip)
	err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(f.content.Len()),
		Mode: 0o644, ModTime: at})
	if err == nil {
		_, err = archive.Write(f.content.Bytes())
	}
	if err == nil && isLast {
		err = archive.Close()
	} else if err == nil {
		err = archive.Flush()
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing a file: %w", err)
	}
	return packed.Bytes(), nil
}

// extend hashes more bytes after those of the state of a hash, where nil is that of no bytes. It
// returns the next state, and the hash so far in hexadecimal.
func extend(state, more []byte) (next []byte, sum string, err error) {
	h := sha256.New()
	if state != nil {
		err = h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	}
	if err == nil {
		h.Write(more)
		next, err = h.(encoding.BinaryMarshaler).MarshalBinary()
	}
	if err != nil {
		return nil, "", fmt.Errorf("resuming a hash: %w", err)
	}
	return next, hex.EncodeToString(h.Sum(nil)), nil
}
