package visitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/oschwald/maxminddb-golang/v2"
)

const (
	// defaultPollInterval is the interval at which Watch polls unless Every is set.
	defaultPollInterval = 30 * time.Second
	// maxFile bounds the size of a file in memory. The largest file of cities in 2025 has 130 MB.
	maxFile = 1 << 30
	// maxSampledNetworks is the number of networks that are searched for a country, to detect a
	// file of another kind.
	maxSampledNetworks = 10_000
)

// Countries maps IP addresses to countries, from a file in MaxMind DB format. A nil Countries, and
// one without a file, knows no country.
type Countries struct {
	// Every is the interval at which Watch polls the file; 30 seconds unless set.
	Every time.Duration

	path  string
	files *poll.Files
	log   *slog.Logger
	db    atomic.Pointer[database]
}

// OpenCountries reads the file at the path, whole: it may be replaced in any way. It fails if the
// file has no countries. An optional file may be missing: Watch loads it when it appears.
func OpenCountries(path string, isOptional bool, log *slog.Logger) (*Countries, error) {
	c := &Countries{path: path, files: poll.NewFiles(false, path), log: log}
	if err := c.load(); err != nil && !(isOptional && errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("countries in %s: %w", path, err)
	}
	return c, nil
}

// Edition is the description in a file of countries.
type Edition struct {
	// Type is the name of the database, as in DBIP-Country-Lite; empty without a file.
	Type    string
	BuiltAt time.Time
}

// IsDBIP reports whether the file is one of DB-IP. The licence of its free ones, CC BY 4.0, requires
// pages with countries to link to DB-IP.
func (e Edition) IsDBIP() bool { return strings.Contains(e.Type, "DBIP") }

// Edition returns that of the file in use, or zero.
func (c *Countries) Edition() Edition {
	if c == nil {
		return Edition{}
	}
	return c.db.Load().edition()
}

// CountryCode returns the country of an address as ISO 3166-1 alpha-2. It returns an empty string
// for an unknown country, such as that of a private address.
func (c *Countries) CountryCode(address netip.Addr) string {
	if c == nil {
		return ""
	}
	address = address.Unmap()
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return ""
	}
	return c.db.Load().countryCode(address)
}

// Watch polls for a new file until the context ends, and loads it. A broken or missing file is
// logged once, and the previous one stays in use.
func (c *Countries) Watch(ctx context.Context) error {
	if c == nil {
		return nil
	}
	c.files.Watch(ctx, cmp.Or(c.Every, defaultPollInterval), c.reload)
	return nil
}

func (c *Countries) reload(ctx context.Context) {
	if err := c.load(); err != nil {
		c.log.ErrorContext(ctx, "countries not replaced", "path", c.path, "error", err)
		return
	}
	e := c.Edition()
	c.log.InfoContext(ctx, "countries replaced", "path", c.path, "type", e.Type, "built", e.BuiltAt)
}

func (c *Countries) load() error {
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return errors.New("not a file of at most 1 GiB")
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return err
	}
	db, err := newDatabase(content)
	if err != nil {
		return err
	}
	c.db.Store(db) // concurrent readers continue with the old one
	return nil
}

// database is one file's content. It is never closed, only forgotten: it lies in ordinary memory.
type database struct {
	reader  *maxminddb.Reader
	records sync.Pool // decoding into one that is used again allocates nothing
}

// record has the fields that are read of a network: its country, or else the country of its
// registered owner.
type record struct {
	Country    country `maxminddb:"country"`
	Registered country `maxminddb:"registered_country"`
}

type country struct {
	Code string `maxminddb:"iso_code"`
}

// newDatabase checks that a file holds countries, not what else the format is used for.
func newDatabase(content []byte) (*database, error) {
	reader, err := maxminddb.OpenBytes(content)
	if err != nil {
		return nil, err
	}
	db := &database{reader: reader, records: sync.Pool{New: func() any { return new(record) }}}
	if db.edition().Type == "" {
		return nil, errors.New("the file does not name its type")
	}
	left := maxSampledNetworks
	for network := range reader.Networks() {
		if err := network.Err(); err != nil {
			return nil, err
		}
		if db.read(network) != "" {
			return db, nil
		}
		if left--; left == 0 {
			break
		}
	}
	return nil, fmt.Errorf("no countries in a file of type %q", reader.Metadata.DatabaseType)
}

// edition returns zero for a nil database.
func (d *database) edition() Edition {
	if d == nil {
		return Edition{}
	}
	return Edition{Type: d.reader.Metadata.DatabaseType, BuiltAt: d.reader.Metadata.BuildTime().UTC()}
}

// countryCode returns nothing for a nil database.
func (d *database) countryCode(address netip.Addr) string {
	if d == nil || address.Is6() && d.reader.Metadata.IPVersion == 4 {
		return ""
	}
	return d.read(d.reader.Lookup(address))
}

// read returns the country code of a network; empty if the network has none or its record is
// damaged.
func (d *database) read(network maxminddb.Result) string {
	if !network.Found() {
		return ""
	}
	r := d.records.Get().(*record)
	defer d.records.Put(r)
	*r = record{}
	if err := network.Decode(r); err != nil {
		return ""
	}
	if code := cmp.Or(r.Country.Code, r.Registered.Code); isCode(code) {
		return code
	}
	return ""
}

func isCode(s string) bool {
	return len(s) == 2 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'A' && s[1] <= 'Z'
}
