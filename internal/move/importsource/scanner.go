package importsource

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// scanner reads the structure of a file in one pass: JSON values by their brackets, or lines. It
// decodes nothing, so that a malformed or very large value costs only its own item.
type scanner struct {
	in     *bufio.Reader
	offset int64
	left   int // of the bytes that limited may read
	text   []byte
}

// headerBytes is how much of a file delimiter looks at.
const headerBytes = 64 << 10

func newScanner(file io.Reader) *scanner { return &scanner{in: bufio.NewReaderSize(file, headerBytes)} }

// begin skips a byte order mark. It returns InvalidInput for UTF-16, whose ASCII characters have a
// byte that is zero.
func (s *scanner) begin() error {
	const mark = "\ufeff"
	wide, _ := s.in.Peek(4)
	if is32(wide) {
		return errs.New(errs.InvalidInput, "The file is in UTF-32. Save it as UTF-8.")
	}
	start, err := s.in.Peek(len(mark))
	if len(start) >= 2 && (start[0] == 0 || start[1] == 0 || start[0] >= 0xfe && start[1] >= 0xfe) {
		return errs.New(errs.InvalidInput, "The file is in UTF-16. Save it as UTF-8.")
	}
	if string(start) == mark {
		_, err = s.in.Discard(len(mark))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// is32 reports whether a file that begins with these bytes is in UTF-32, with or without a mark: of
// four bytes of a character, two or more at one side are zero.
func is32(start []byte) bool {
	return len(start) == 4 && (start[0] == 0 && start[1] == 0 || start[2] == 0 && start[3] == 0)
}

func (s *scanner) malformed() error {
	return errs.New(errs.InvalidInput, "The file is no valid JSON near byte %d.", s.offset)
}

// first returns the first byte of the file that is not white space, and consumes nothing.
func (s *scanner) first() (byte, error) {
	start, err := s.in.Peek(headerBytes)
	if text := bytes.TrimLeft(start, white); len(text) > 0 {
		return text[0], nil
	}
	return 0, cmp.Or(err, io.EOF)
}

// white are the characters that JSON has as white space.
const white = " \t\n\r"

// peek returns the next byte that is not white space, and does not consume it.
func (s *scanner) peek() (byte, error) { return s.peekAfter(white) }

// peekAfter consumes some characters, and returns the next one.
func (s *scanner) peekAfter(skipped string) (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(skipped, c) < 0 {
			return c, s.in.UnreadByte()
		}
		s.offset++
	}
}

// next consumes the next byte that is not white space. The end of the file is malformed.
func (s *scanner) next() (byte, error) {
	c, err := s.peek()
	if errors.Is(err, io.EOF) {
		return 0, s.malformed()
	}
	if err != nil {
		return 0, err
	}
	s.offset++
	_, err = s.in.Discard(1)
	return c, err
}

// array reads an array. The function reads one element.
func (s *scanner) array(element func() error) error { return s.sequence('[', ']', element) }

// object reads an object. The function reads the value of a name.
func (s *scanner) object(member func(name string) error) error {
	const maxNameBytes = 1 << 10
	return s.sequence('{', '}', func() error {
		text, isLong, err := s.value(maxNameBytes)
		if err != nil {
			return err
		}
		name := ""
		if !isLong && json.Unmarshal(text, &name) != nil {
			return s.malformed()
		}
		if c, err := s.next(); err != nil || c != ':' {
			return cmp.Or(err, s.malformed())
		}
		return member(name)
	})
}

func (s *scanner) sequence(first, last byte, element func() error) error {
	if c, err := s.next(); err != nil || c != first {
		return cmp.Or(err, s.malformed())
	}
	c, err := s.peek()
	if err == nil && c == last {
		_, err = s.next()
		return err
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch c, err := s.next(); {
		case err != nil:
			return err
		case c == last:
			return nil
		case c != ',':
			return s.malformed()
		}
	}
}

// value reads one value, by its brackets and quotation marks. A longer one than limit is consumed
// and not returned. The text is valid until the next call.
func (s *scanner) value(limit int) (text []byte, isLong bool, err error) {
	first, err := s.peek()
	if errors.Is(err, io.EOF) {
		return nil, false, s.malformed()
	}
	if err != nil {
		return nil, false, err
	}
	text = s.text[:0]
	defer func() { s.text = text }()
	isText, isEscaped, depth := false, false, 0
	for {
		c, err := s.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil, false, s.malformed()
		}
		if err != nil {
			return nil, false, err
		}
		isEnd := false
		switch {
		case isEscaped:
			isEscaped = false
		case isText && c == '\\':
			isEscaped = true
		case c == '"':
			isText = !isText
			isEnd = !isText && depth == 0
		case isText:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
			isEnd = depth == 0
		case depth == 0 && strings.IndexByte(" \t\r\n,:}]", c) >= 0: // after a number or a literal
			if len(text) == 0 && !isLong && c == first {
				return nil, false, s.malformed()
			}
			return text, isLong, s.in.UnreadByte()
		}
		s.offset++
		if len(text) < limit {
			text = append(text, c)
		} else {
			text, limit, isLong = text[:0], 0, true
		}
		if isEnd {
			return text, isLong, nil
		}
	}
}

// line reads one line. Of a longer one than limit nothing is returned.
func (s *scanner) line(limit int) (line []byte, isLong bool, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		s.offset += int64(len(part))
		if len(line)+len(part) > limit {
			line, isLong = nil, true
		} else if !isLong {
			line = append(line, part...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && (len(line) > 0 || isLong):
			return line, isLong, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// separatorLine is the first line of a file for Excel, which names the delimiter.
var separatorLine = regexp.MustCompile(`^(?i: *"? *sep *= *)([,;:|\t])[ "]*[,;:|\t ]*\r?\n`)

// delimiter returns the delimiter that a line sep=; names, and consumes that line; else the most
// frequent of comma, semicolon and tab in the first line, outside of quotation marks, or a vertical
// bar if that line has none of them. It returns
// InvalidInput for a line that ends with CR alone, because all of the file would be its header
// line.
func (s *scanner) delimiter() (rune, error) {
	const emptyLines = " \r\n" // a tab ends the first cell of the header line
	if _, err := s.peekAfter(emptyLines); err != nil {
		return 0, err
	}
	start, _ := s.in.Peek(headerBytes)
	if named := separatorLine.FindSubmatch(start); named != nil {
		delimiter := rune(named[1][0])
		_, err := s.in.Discard(len(named[0]))
		return delimiter, err
	}
	counts, isText := map[byte]int{}, false
	for i, c := range start {
		if c == '"' {
			isText = !isText
		}
		if c == '\r' && !isText && i+1 < len(start) && start[i+1] != '\n' {
			return 0, errs.New(errs.InvalidInput,
				"The lines of the file end with CR alone. Save it with the line ends LF or CRLF.")
		}
		if c == '\n' && !isText {
			break
		}
		if !isText {
			counts[c]++
		}
	}
	best := byte(',')
	if counts[',']+counts[';']+counts['\t'] == 0 && counts['|'] > 0 {
		return '|', nil
	}
	for _, c := range []byte{';', '\t'} {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return rune(best), nil
}

// limited returns a reader of the rest of the file. It fails after that many bytes without a call
// of renew.
func (s *scanner) limited(limit int) io.Reader {
	s.left = limit
	return &limitedReader{s, limit}
}

// renew allows the next record its bytes.
func (s *scanner) renew() { s.left = MaxItem }

type limitedReader struct {
	scanner *scanner
	limit   int
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if l.scanner.left <= 0 {
		return 0, errs.New(errs.InvalidInput,
			"A record of the file has more than %d bytes. Check that all quotation marks are closed.",
			l.limit)
	}
	n, err := l.scanner.in.Read(b)
	l.scanner.left -= n
	return n, err
}

// escapeControls returns JSON text whose strings have no unescaped control characters, as Bitly
// sends them.
func escapeControls(text []byte) []byte {
	escaped := bytes.Buffer{}
	isText, isEscaped := false, false
	for _, c := range text {
		if isText && !isEscaped && c < ' ' {
			fmt.Fprintf(&escaped, `\u%04x`, c)
			continue
		}
		switch {
		case isEscaped:
			isEscaped = false
		case isText && c == '\\':
			isEscaped = true
		case c == '"':
			isText = !isText
		}
		escaped.WriteByte(c)
	}
	return escaped.Bytes()
}
