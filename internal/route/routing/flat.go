package routing

import "encoding/binary"

// AppendText appends a text with its length.
func AppendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// AppendNumber appends the lowest bytes of a number.
func AppendNumber(b []byte, n uint64, bytes int) []byte {
	for i := range bytes {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

// FlatReader decodes a value from its front. A flat value is bytes without pointers, so that the
// garbage collector sees one object where a cache keeps many fields. Reading allocates nothing:
// texts are parts of the encoded value. Values are written by this process, never truncated, and
// never stored.
type FlatReader string

// Byte returns the next byte.
func (r *FlatReader) Byte() byte {
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}

// Number returns the next number, which has the given number of bytes.
func (r *FlatReader) Number(bytes int) (n uint64) {
	for i := range bytes {
		n |= uint64((*r)[i]) << (8 * i)
	}
	*r = (*r)[bytes:]
	return n
}

// Text returns the next text.
func (r *FlatReader) Text() string {
	n, shift := 0, 0
	for {
		b := r.Byte()
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		shift += 7
	}
	text := (*r)[:n]
	*r = (*r)[n:]
	return string(text)
}
