package visitor

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/files"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// monthPlaceholder stands for the month in the URL of a download, as in 2026-11.
	monthPlaceholder = "{month}"
	// maxDownload bounds a download, also when it is unpacked: it is in memory until it is checked.
	// Databases of countries have about 10 MB.
	maxDownload = 64 << 20
	// updateTimeout bounds an update, and stallTimeout the wait for its next byte.
	updateTimeout = 10 * time.Minute
	stallTimeout  = 30 * time.Second
	maxRedirects  = 5
	// firstCheck and maxCheck bound the pauses between two checks of the age of a file.
	firstCheck = 4 * time.Second
	maxCheck   = 12 * time.Hour
)

var (
	errSlow       = fmt.Errorf("the download takes longer than %s", updateTimeout)
	errStalled    = fmt.Errorf("the server has sent nothing for %s", stallTimeout)
	errIncomplete = errors.New("the download is incomplete")
	errNotFound   = errors.New("the server responds 404 Not Found")
)

// wellKnown are addresses in networks that universities have had for decades, with their countries.
// A network may still be sold: minWellKnown of them have to be right.
var wellKnown = []struct{ address, country string }{
	{"129.132.98.12", "CH"}, {"129.187.10.25", "DE"}, {"128.232.0.20", "GB"}, {"130.237.28.40", "SE"},
	{"128.100.100.128", "CA"}, {"171.64.64.64", "US"}, {"132.248.10.2", "MX"}, {"143.107.1.1", "BR"},
	{"133.11.0.1", "JP"}, {"137.158.155.1", "ZA"},
}

const minWellKnown = 8

// Updater downloads a file of countries. Every server that uses the file loads the new one by
// Countries.Watch.
type Updater struct {
	// URL leads to a file in MaxMind DB format over https, which may be compressed by gzip and in a tar
	// archive. {month} stands for the month, as in 2026-11. A user and a password are sent as basic
	// authentication.
	URL string
	// Path is the file that is replaced.
	Path string
	// Now is the clock.
	Now func() time.Time
	// Transport sends requests; nil selects http.DefaultTransport.
	Transport http.RoundTripper
}

// Keep updates the file, until the context ends, when it is missing or older than the age. It logs
// the first failure of a series.
//
// The file belongs to the node or to a shared disk, so no lease in the database can say who updates it.
// Nodes check at random times instead: those with one disk find the file that another has replaced.
func (u Updater) Keep(ctx context.Context, age time.Duration, log *slog.Logger) error {
	failures := poll.Failures{Log: log, Message: "updating the countries failed"}
	for pause := firstCheck; poll.Wait(ctx, pause/2+rand.N(pause/2)) == nil; pause = min(2*pause, maxCheck) {
		var err error
		if info, problem := os.Stat(u.Path); problem != nil || u.Now().Sub(info.ModTime()) > age {
			_, err = u.Update(ctx)
		}
		failures.Report(ctx, err)
	}
	return nil
}

// Update replaces the file by the one of this month or, if that does not exist yet, of the month before.
// It refuses one that does not know the countries of well-known addresses, and leaves the file as it is
// after every error. Errors contain no secrets of the URL.
func (u Updater) Update(ctx context.Context) (Edition, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, updateTimeout, errSlow)
	defer cancel()
	now := u.Now().UTC()
	thisMonth := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	content, err := u.download(ctx, thisMonth)
	if errors.Is(err, errNotFound) && strings.Contains(u.URL, monthPlaceholder) {
		content, err = u.download(ctx, thisMonth.AddDate(0, -1, 0))
	}
	if err != nil {
		return Edition{}, fmt.Errorf("countries from %s: %w", u.source(), err)
	}
	db, err := newDatabase(content)
	if err == nil {
		err = db.checkWellKnown()
	}
	if err != nil {
		return Edition{}, fmt.Errorf("countries from %s are not used: %w", u.source(), err)
	}
	if err := files.Replace(u.Path, content, 0o644); err != nil {
		return Edition{}, fmt.Errorf("storing countries: %w", err)
	}
	return db.edition(), nil
}

// source is the URL without what may be secret.
func (u Updater) source() string {
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return "an invalid URL"
	}
	return parsed.Scheme + "://" + parsed.Host + parsed.Path
}

// download returns the database of a month, unpacked.
func (u Updater) download(ctx context.Context, of time.Time) ([]byte, error) {
	address, err := url.Parse(strings.ReplaceAll(u.URL, monthPlaceholder, of.Format("2006-01")))
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, errors.New("the URL must be one of https://")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	content, err := u.get(ctx, address, func() { stalled.Reset(stallTimeout) })
	var problem *url.Error
	switch {
	case ctx.Err() != nil: // also after a response that the server ended when the client left
		return nil, context.Cause(ctx)
	case err == nil:
		return content, nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, errIncomplete
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, fmt.Errorf("it has more than %d MiB: choose a database of countries alone", maxDownload>>20)
	case errors.As(err, &problem): // it repeats the URL, or the one of a redirect
		return nil, problem.Err
	}
	return nil, err
}

// get requests the database, and calls progress at each part of it that arrives.
func (u Updater) get(ctx context.Context, address *url.URL, progress func()) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "Linkforge")
	client := http.Client{Transport: u.Transport, CheckRedirect: checkRedirect}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errNotFound
	default:
		return nil, fmt.Errorf("the server responds %s", response.Status)
	}
	return unpack(progressing{response.Body, progress})
}

// checkRedirect implements http.Client.CheckRedirect.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != "https" {
		return errors.New("the server redirects to a URL that is not one of https://")
	}
	if len(via) > maxRedirects {
		return errors.New("the server redirects too often")
	}
	return nil
}

// progressing calls a function at each part of a body that arrives.
type progressing struct {
	io.Reader
	progress func()
}

// Read implements io.Reader.
func (p progressing) Read(into []byte) (n int, err error) {
	n, err = p.Reader.Read(into)
	if n > 0 {
		p.progress()
	}
	return n, err
}

// unpack returns the database in a download. It recognizes gzip and tar by their first bytes.
func unpack(download io.Reader) ([]byte, error) {
	in, isCompressed, err := startsWith(download, 0, "\x1f\x8b")
	if err == nil && isCompressed {
		in, err = gzip.NewReader(in)
	}
	if err != nil {
		return nil, err
	}
	in, isArchive, err := startsWith(http.MaxBytesReader(nil, io.NopCloser(in), maxDownload), 257, "ustar")
	if err != nil {
		return nil, err
	}
	if !isArchive {
		return io.ReadAll(in)
	}
	archive := tar.NewReader(in)
	for {
		file, err := archive.Next()
		if err == io.EOF {
			return nil, errors.New("the archive has no .mmdb file")
		}
		if err != nil {
			return nil, err
		}
		if path.Ext(file.Name) == ".mmdb" {
			return io.ReadAll(archive)
		}
	}
}

// startsWith reports whether a stream has a text at an offset. It returns the stream from its start.
func startsWith(stream io.Reader, offset int, text string) (io.Reader, bool, error) {
	in := bufio.NewReader(stream)
	start, err := in.Peek(offset + len(text))
	if errors.Is(err, io.EOF) { // it is shorter
		return in, false, nil
	}
	return in, err == nil && string(start[offset:]) == text, err
}

// checkWellKnown detects a database that is incomplete, or of something else.
func (d *database) checkWellKnown() error {
	var wrong []string
	for _, known := range wellKnown {
		if got := d.countryCode(netip.MustParseAddr(known.address)); got != known.country {
			wrong = append(wrong, fmt.Sprintf("%s is in %q, not %q", known.address, known.country, got))
		}
	}
	if right := len(wellKnown) - len(wrong); right < minWellKnown {
		return fmt.Errorf("it knows the countries of %d of %d well-known addresses: %s", right, len(wellKnown),
			strings.Join(wrong, ", "))
	}
	return nil
}
