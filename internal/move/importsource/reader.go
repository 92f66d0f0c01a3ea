package importsource

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// format describes the items of a source.
type format struct {
	// list is where a JSON file that is an object has its items. Each element of a file that is an
	// array is such an object if isPaged, and otherwise an item.
	list    []string
	isPaged bool
	// isKeyed means that the items are the values of an object.
	isKeyed bool
	// version is the required value of the field "version" of the object.
	version string
	// isFolded means that names are compared by their letters and digits, without case.
	isFolded bool
	// isTable means that items are records of a CSV file, whose unknown columns are only ignored,
	// and isOwn that the file is of the user, who need not have counted clicks.
	isTable, isOwn bool
	// status is that of redirects; zero means the default of the workspace.
	status int
	// properties are mapped in this order, known are their names.
	properties []property
	known      map[string]bool
	// complete maps what does not depend on one property. It may be nil.
	complete func(*mapper)
	// expand returns further links of the item. It may be nil.
	expand func(*mapper) []*Row
}

// formats are the JSON and the CSV format of a source; nil if it has none.
type formats struct{ json, csv *format }

// reader turns a file into rows.
type reader struct {
	settings *Settings
	file     *scanner
	yield    func(*Row) bool
	stopped  bool
	// take takes the JSON of an item: item maps it to rows.
	take func(f *format, text []byte, isLong bool) error
	line int64
	// record is the item as an archive has it; nil for other sources.
	record *ArchivedLink
	// folders are the names of folders by id, and foldsCase the hosts that ignore the case of
	// codes.
	folders   map[string]string
	foldsCase map[string]bool
	// known are names of the file by what their words say.
	known map[string]named
}

// errStopped ends reading after the caller has seen enough.
var errStopped = errors.New("stopped")

func (r *reader) read() error {
	of, ok := sources[r.settings.Source]
	if !ok {
		return errs.New(errs.InvalidInput, "The source %s has no files.", r.settings.Source).At("source")
	}
	if r.settings.Source != Linkforge {
		if err := r.checkKind(); err != nil {
			return err
		}
	}
	if r.settings.Source == Linkforge {
		return r.archive(of.json)
	}
	if err := r.file.begin(); err != nil {
		return err
	}
	if r.settings.Fetched || r.settings.Source == JSONLines {
		return r.lines(of.json)
	}
	first, err := r.file.first()
	switch {
	case errors.Is(err, io.EOF):
		return errs.New(errs.InvalidInput, "The file is empty.")
	case err != nil:
		return err
	case of.json != nil && (first == '{' || first == '[' || of.csv == nil):
		return r.document(of.json)
	}
	return r.csv(of.csv)
}

// lines reads one JSON object a line.
func (r *reader) lines(f *format) error {
	for {
		line, isLong, err := r.file.line(MaxItem)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if r.settings.Fetched && r.isRecord(line) {
			continue
		}
		r.line++
		if len(line) == 0 && !isLong {
			continue
		}
		if err := r.take(f, line, isLong); err != nil {
			return err
		}
	}
}

// document reads one JSON array or object.
func (r *reader) document(f *format) error {
	first, err := r.file.peek()
	if err != nil {
		return err
	}
	switch {
	case first == '{':
		err = r.object(f, f.list)
	case first == '[' && f.isPaged:
		err = r.file.array(func() error { return r.object(f, f.list) })
	case first == '[':
		err = r.items(f)
	default:
		err = r.file.malformed()
	}
	if err != nil {
		return err
	}
	if _, err := r.file.peek(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, r.file.malformed())
	}
	return nil
}

// items reads the list of items.
func (r *reader) items(f *format) error {
	item := func() error {
		r.line++
		text, isLong, err := r.file.value(MaxItem)
		if err != nil {
			return err
		}
		return r.take(f, text, isLong)
	}
	if first, err := r.file.peek(); f.isKeyed && err == nil && first == '{' {
		return r.file.object(func(string) error { return item() })
	}
	return r.file.array(item)
}

// maxRecords is the number of folders, and of domains, that a reader remembers.
const maxRecords = 10_000

// records are the objects in a file apart from its items; fetched items begin with them. They do
// not apply to items before them.
var records = map[string]func(*reader, []byte){
	"folders": func(r *reader, text []byte) {
		var folders []struct{ ID, Name string }
		if json.Unmarshal(text, &folders) != nil {
			return // their links report the loss
		}
		if r.folders == nil {
			r.folders = map[string]string{}
		}
		for _, f := range folders[:min(len(folders), maxRecords-len(r.folders))] {
			r.folders[f.ID] = f.Name
		}
	},
	"domains": func(r *reader, text []byte) {
		var domains []struct {
			Hostname      string
			CaseSensitive *bool
		}
		if json.Unmarshal(text, &domains) != nil {
			return
		}
		if r.foldsCase == nil {
			r.foldsCase = map[string]bool{}
		}
		for _, d := range domains[:min(len(domains), maxRecords-len(r.foldsCase))] {
			host, _ := hostOf(d.Hostname)
			r.foldsCase[host] = d.CaseSensitive != nil && !*d.CaseSensitive
		}
	},
}

// isJSON reports whether text is JSON in UTF-8, which decoding does not change silently.
func isJSON(text []byte) bool { return json.Valid(text) && validate.IsJSONText(text) }

// isRecord reads a line of fetched items that is a record about them.
func (r *reader) isRecord(line []byte) bool {
	for name, read := range records {
		if !bytes.HasPrefix(line, []byte(`{"`+name+`":`)) {
			continue
		}
		var record map[string]json.RawMessage
		if isJSON(line) && json.Unmarshal(line, &record) == nil && len(record) == 1 {
			read(r, record[name])
			return true
		}
	}
	return false
}

// item maps one JSON value.
func (r *reader) item(f *format, text []byte, isLong bool) error {
	if isLong {
		return r.fail("The item must have at most 1 MiB.")
	}
	if !json.Valid(text) {
		text = escapeControls(text)
	}
	if !isJSON(text) {
		return r.fail("The item must be valid JSON in UTF-8.")
	}
	var properties map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&properties); err != nil || properties == nil {
		return r.fail("The item must be a JSON object.")
	}
	if r.settings.Source == Linkforge {
		r.record = &ArchivedLink{}
		if json.Unmarshal(text, r.record) != nil {
			r.record = nil // the mapper reports the error
		}
	}
	return r.rows(f, newObject(properties, f.isFolded))
}

// csv reads a table with a header line.
func (r *reader) csv(f *format) error {
	delimiter, err := r.file.delimiter()
	if err != nil {
		return err
	}
	table := csv.NewReader(r.file.limited(MaxItem))
	table.Comma = delimiter
	table.FieldsPerRecord = -1
	table.ReuseRecord = true
	const maxColumns = 200
	header, err := table.Read()
	if err != nil || !validText(header) {
		return errs.New(errs.InvalidInput, "The file must begin with a header line in UTF-8.").Because(err)
	}
	if len(header) > maxColumns {
		return errs.New(errs.InvalidInput, "The header line must have at most %d columns; it has %d.", maxColumns,
			len(header))
	}
	header = slices.Clone(header)
	if !hasColumns(f, header) {
		return errs.New(errs.InvalidInput,
			"The header line must have a column for the URL. Check the names of the columns.")
	}
	for {
		r.file.renew()
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		r.line++
		malformed := &csv.ParseError{}
		switch {
		case errors.As(err, &malformed):
			err = r.fail("The record is no valid CSV. Check its quotation marks.")
		case err != nil:
			return err
		case !validText(record):
			err = r.fail("The record must be UTF-8.")
		case strings.TrimSpace(strings.Join(record, "")) == "": // as spreadsheets save empty lines
			continue
		case len(record) > len(header) && strings.Join(record[len(header):], "") != "":
			err = r.fail("The record has more cells than the header line.")
		default:
			err = r.rows(f, newRecord(header, record, f.isFolded))
		}
		if err != nil {
			return err
		}
	}
}

// hasColumns reports whether the header names the URL of links.
func hasColumns(f *format, header []string) bool {
	for _, p := range f.properties {
		if !p.isURL {
			continue
		}
		for _, name := range header {
			if slices.Contains(p.names, nameOf(name, f.isFolded)) {
				return true
			}
		}
	}
	return false
}

func validText(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) })
}

// fail returns a row without an item.
func (r *reader) fail(message string) error {
	m := newMapper(r, nil, object{})
	m.fail("", errs.New(errs.InvalidInput, "%s", message))
	m.identify(m.row)
	return r.put(m.row)
}

// rows maps an item.
func (r *reader) rows(f *format, item object) error {
	for _, row := range newMapper(r, f, item).rows() {
		if err := r.put(row); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) put(row *Row) error {
	if !r.yield(row) {
		r.stopped = true
		return errStopped
	}
	return nil
}

// object has the properties of an item by the names that the table of its format has.
type object map[string]value
