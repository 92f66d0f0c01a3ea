package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// readBytes is how much is read at a time: many records, and more than the longest.
const readBytes = 1 << 20

// Record is a stored record and its end.
type Record struct {
	Data []byte
	End  int64
}

// Chunk is what lies in a log from a position on.
type Chunk struct {
	Records []Record
	// Next is the position after them.
	Next int64
	// Damaged are bytes between them that are no records: a disk's fault, not that of a process
	// that was killed.
	Damaged []byte
}

// Read returns up to most records after the position, which is 0 or the end of a record. Fewer
// records mean the end of the log. A record that a killed process did not complete is dropped: its
// Append never returned.
func (j *Log) Read(position int64, most int) (c Chunk, err error) {
	j.mu.Lock()
	segments := append([]segment(nil), j.segments...)
	j.mu.Unlock()
	c.Next = position
	for i, s := range segments {
		if s.end <= c.Next {
			continue
		}
		c.Next = max(c.Next, s.begin) // what lay between was released
		if err := j.readSegment(s, &c, most, i == len(segments)-1); err != nil {
			return c, fmt.Errorf("reading a journal: %w", err)
		}
		if len(c.Records) >= most {
			break
		}
	}
	return c, nil
}

// readSegment adds the segment's records to the chunk. Only the last segment may end with an
// incomplete record.
func (j *Log) readSegment(s segment, c *Chunk, most int, last bool) error {
	file, err := os.Open(j.path(s.begin))
	if err != nil {
		return err
	}
	defer file.Close()
	for c.Next < s.end && len(c.Records) < most {
		buffer := make([]byte, min(readBytes, s.end-c.Next))
		n, err := file.ReadAt(buffer, c.Next-s.begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil // the file has become shorter than it was
		}
		// A file that is shorter than it was may end within a record, as the last one may.
		isCut := n < len(buffer)
		c.take(buffer[:n], most, isCut || c.Next+int64(n) == s.end, isCut || last)
	}
	return nil
}

// take adds the records in the buffer. Records do not continue in the next buffer at the end of a
// segment, and an incomplete record at the end of the last segment is dropped.
func (c *Chunk) take(rest []byte, most int, end, last bool) {
	for len(rest) > 0 && len(c.Records) < most {
		record, size := parse(rest)
		if size == 0 && !end && len(rest) < headerBytes+MaxRecord {
			return // it may continue in the next buffer
		}
		if size == 0 {
			size = nextRecord(rest)
			if size == len(rest) && !end {
				// a record that begins in these bytes may continue in the next buffer
				size -= headerBytes + MaxRecord - 1
			}
			if size < len(rest) || !last {
				c.Damaged = append(c.Damaged, rest[:size]...)
			}
			c.Next += int64(size)
			rest = rest[size:]
			continue
		}
		c.Next += int64(size)
		c.Records = append(c.Records, Record{Data: record, End: c.Next})
		rest = rest[size:]
	}
}

// parse returns the record that the bytes begin with, and how many bytes it takes: none when they
// begin with no record.
func parse(b []byte) (record []byte, size int) {
	if len(b) < headerBytes {
		return nil, 0
	}
	length := binary.LittleEndian.Uint32(b)
	if length == 0 || length > MaxRecord || int(length) > len(b)-headerBytes {
		return nil, 0
	}
	record = b[headerBytes : headerBytes+length]
	if crc32.Checksum(record, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0
	}
	return record, headerBytes + int(length)
}

// nextRecord is where the next record begins after bytes that are none, or their length when there
// is no more.
func nextRecord(b []byte) int {
	used := len(bytes.TrimRight(b, "\x00")) // no record begins in room that was not used
	for i := 1; i < used; i++ {
		if _, size := parse(b[i:]); size > 0 {
			return i
		}
	}
	return len(b)
}

// used returns the number of written bytes of a file: the last segment of a killed process still
// has its full allocated size. Zeros at the end of a record remain.
func used(file *os.File, size int64) (int64, error) {
	buffer := make([]byte, min(readBytes, size))
	for end := size; end > 0; {
		begin := max(0, end-int64(len(buffer)))
		n, err := file.ReadAt(buffer[:end-begin], begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if written := len(bytes.TrimRight(buffer[:n], "\x00")); written > 0 {
			return min(size, begin+int64(written)+MaxRecord), nil
		}
		end = begin
	}
	return 0, nil
}
