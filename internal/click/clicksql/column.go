package clicksql

import (
	"encoding/binary"

	"github.com/linkforge/linkforge/internal/click"
)

// column has the values of one dimension of a day's clicks: the distinct values and, for each
// click, the index of its value, in width bytes.
type column struct {
	values        []string
	known         map[string]int
	clicks, width int
	codes         []byte
}

func (c *column) add(value string) {
	code, ok := c.known[value]
	if !ok {
		code = len(c.values)
		c.known[value] = code
		c.values = append(c.values, value)
		c.widen(codeWidth(len(c.values)))
	}
	c.codes, c.clicks = appendCode(c.codes, code, c.width), c.clicks+1
}

// widen stores each index in the given number of bytes.
func (c *column) widen(width int) {
	if width == c.width {
		return
	}
	narrow := codes{width: c.width, bytes: c.codes}
	c.codes, c.width = make([]byte, 0, (c.clicks+1)*width), width
	for click := range c.clicks {
		c.codes = appendCode(c.codes, narrow.clickCode(click), width)
	}
}

func appendCode(b []byte, code, width int) []byte {
	for i := range width {
		b = append(b, byte(code>>(8*i)))
	}
	return b
}

// encode writes a column: how many values there are, their lengths and texts, and a number for each
// click, of as few bytes as the count of values needs; none if there is one value.
func (c *column) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(c.values)))
	for _, value := range c.values {
		b = click.AppendText(b, value)
	}
	return append(b, c.codes...)
}

func codeWidth(values int) (width int) {
	for rest := values - 1; rest > 0; rest >>= 8 {
		width++
	}
	return width
}

// codes is a stored column: its distinct values, and for each click the index of its value.
type codes struct {
	values []string
	width  int
	bytes  []byte
}

// readCodes reads a column of clicks values.
func readCodes(b []byte, clicks int) (c codes, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) || n == 0 && clicks > 0 {
		return c, click.ErrCounts
	}
	b = b[size:]
	for range n {
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return c, click.ErrCounts
		}
		c.values = append(c.values, string(b[size:size+int(length)]))
		b = b[size+int(length):]
	}
	c.width, c.bytes = codeWidth(len(c.values)), b
	if len(b) != c.width*clicks {
		return c, click.ErrCounts
	}
	return c, nil
}

// clickCode returns the index of a click's value.
func (c *codes) clickCode(click int) (code int) {
	for i := range c.width {
		code |= int(c.bytes[click*c.width+i]) << (8 * i)
	}
	return code
}

// valueCode returns the index of a value; -1 if no click has it.
func (c *codes) valueCode(value string) int {
	for code, known := range c.values {
		if known == value {
			return code
		}
	}
	return -1
}
