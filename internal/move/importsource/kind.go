package importsource

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// kind is what a file is by its first bytes. Its text describes it in a message.
type kind string

// The kinds that no source has, except for the first two, which are archives of workspaces.
const (
	gzipFile kind = "compressed with gzip"
	tarFile  kind = "a tar archive"
	zipFile  kind = "a ZIP archive or a spreadsheet"
	binary   kind = "no text"
	webPage  kind = "a web page"
	textFile kind = ""
)

// kindBytes is how much of a file its kind depends on: the header of a tar archive.
const kindBytes = 512

// kindOf returns the kind of a file that begins with the text.
func kindOf(start []byte) kind {
	for _, k := range []struct {
		magic string
		kind  kind
	}{
		{"\x1f\x8b", gzipFile}, {"PK\x03\x04", zipFile}, {"PK\x05\x06", zipFile}, {"\xd0\xcf\x11\xe0", zipFile},
		{"%PDF-", binary}, {"BZh", binary}, {"\xfd7zXZ\x00", binary}, {"\x28\xb5\x2f\xfd", binary},
		{"7z\xbc\xaf\x27\x1c", binary}, {"SQLite format 3\x00", binary}, {"PAR1", binary}, {"Rar!\x1a", binary},
	} {
		if bytes.HasPrefix(start, []byte(k.magic)) {
			return k.kind
		}
	}
	if len(start) >= 262 && string(start[257:262]) == "ustar" {
		return tarFile
	}
	text := strings.ToLower(string(bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\ufeff")), white)))
	if strings.HasPrefix(text, "<!doctype html") || strings.HasPrefix(text, "<html") {
		return webPage
	}
	return textFile
}

// checkKind refuses a file that is no text. It leaves errors of the file to those who read it.
func (r *reader) checkKind() error {
	start, _ := r.file.in.Peek(kindBytes)
	switch k := kindOf(start); k {
	case textFile:
		return nil
	case gzipFile:
		return errs.New(errs.InvalidInput, "The file is compressed with gzip. Decompress it; an archive of a "+
			"Linkforge workspace is imported with the source LINKFORGE.")
	case tarFile:
		return errs.New(errs.InvalidInput, "The file is a tar archive. Send the file in it; an archive of a Linkforge "+
			"workspace is imported with the source LINKFORGE.")
	case zipFile:
		return errs.New(errs.InvalidInput, "The file is %s. Send the file in it, or save the spreadsheet as CSV.", k)
	case webPage:
		return errs.New(errs.InvalidInput, "The file is a web page, such as that of a log-in, and no export.")
	default:
		return errs.New(errs.InvalidInput, "The file is no text. Export links as the source %s names them.",
			r.settings.Source)
	}
}

// openArchive returns the content of a tar archive, which may be compressed with gzip: browsers
// decompress downloads. It returns InvalidInput for another kind of file.
func openArchive(file io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(file, kindBytes)
	start, err := in.Peek(kindBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch k := kindOf(start); {
	case k == gzipFile:
		return openGzip(in)
	case k == tarFile:
		return in, nil
	case len(start) == 0:
		return nil, errs.New(errs.InvalidInput, "The file is empty.")
	case k == textFile:
		return nil, errNoArchive()
	default:
		return nil, errs.New(errs.InvalidInput, "The file is %s, and no archive of a workspace, which is the .tar.gz "+
			"of exportWorkspace.", k)
	}
}

// openGzip returns the tar archive in a file compressed with gzip.
func openGzip(file io.Reader) (io.Reader, error) {
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(unzipped, kindBytes)
	start, err := in.Peek(kindBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if kindOf(start) != tarFile {
		return nil, errNoArchive()
	}
	return in, nil
}

func errNoArchive() error {
	return errs.New(errs.InvalidInput, "The file is no archive of a workspace, which is the .tar.gz of "+
		"exportWorkspace. Import a table with the source CSV, and lines of JSON with JSON_LINES.")
}
