package urlnorm

import (
	"bytes"
	"slices"
	"strings"
)

// appendPath appends the canonical form of a path, which is "/" at least (R5 to R9).
func appendPath(b []byte, path string) []byte {
	start := len(b)
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		b = appendSegment(b, start, segment)
	}
	b = append(b[:start], collapse(b[start:])...)
	if len(b) == start {
		b = append(b, '/')
	}
	return b
}

// appendSegment appends a slash and an encoded segment to the path that begins at start. The dot
// segments are recognized once decoded, since %2e is a dot, and ".." takes the segment before it
// away, even an empty one.
func appendSegment(b []byte, start int, segment string) []byte {
	end := len(b)
	b = append(b, '/')
	b = appendEncoded(b, segment, "")
	switch string(b[end+1:]) {
	case ".":
		return b[:end]
	case "..":
		return b[:start+max(0, bytes.LastIndexByte(b[start:end], '/'))]
	}
	return b
}

// collapse makes runs of slashes one, in place, and drops the slash at the end.
func collapse(path []byte) []byte {
	path = slices.CompactFunc(path, func(a, b byte) bool { return a == '/' && b == '/' })
	return bytes.TrimSuffix(path, []byte("/"))
}
