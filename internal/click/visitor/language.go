package visitor

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// The limits of an Accept-Language header. Those of browsers are shorter.
const (
	maxLanguages      = 16
	maxAcceptLanguage = 512
)

// Languages returns the tags of an Accept-Language header with hyphens, the most preferred first:
// by quality value, then in the order of the header. Wildcards and languages with the value 0 are
// none.
func Languages(header string) []string { return slices.Collect(languages(header)) }

// PreferredLanguage returns the primary subtag of the most preferred language of an Accept-Language
// header, in lower case; empty if there is none.
func PreferredLanguage(header string) string {
	for tag := range languages(header) {
		primary, _ := primarySubtag(tag)
		return strings.ToLower(primary)
	}
	return ""
}

// languages yields the tags of a header as Languages does. One with the value 1 is yielded before
// the rest of the header is read.
func languages(header string) iter.Seq[string] {
	return func(yield func(string) bool) {
		type weighted struct {
			tag    string
			weight float64
		}
		var less [maxLanguages]weighted // than 1
		n := 0
		for entry := range entries(header) {
			tag, parameter, _ := strings.Cut(entry, ";")
			tag = strings.TrimSpace(tag)
			_, isLanguage := primarySubtag(tag)
			weight := parseWeight(strings.TrimSpace(parameter))
			if !isLanguage || !(weight > 0) { // it may be NaN
				continue
			}
			tag = strings.ReplaceAll(tag, "_", "-")
			if weight < 1 {
				less[n] = weighted{tag, weight}
				n++
			} else if !yield(tag) {
				return
			}
		}
		slices.SortStableFunc(less[:n], func(a, b weighted) int { return cmp.Compare(b.weight, a.weight) })
		for _, language := range less[:n] {
			if !yield(language.tag) {
				return
			}
		}
	}
}

// entries yields the entries of a header that are read. It leaves out one that the limit cuts off.
func entries(header string) iter.Seq[string] {
	if len(header) > maxAcceptLanguage {
		header = header[:strings.LastIndexByte(header[:maxAcceptLanguage], ',')+1]
	}
	return func(yield func(string) bool) {
		for range maxLanguages {
			entry, rest, more := strings.Cut(header, ",")
			if !yield(entry) || !more {
				return
			}
			header = rest
		}
	}
}

// primarySubtag returns the first subtag if it is a language: not "*", "x-private" or "i-klingon".
func primarySubtag(tag string) (string, bool) {
	end := 0
	for end < len(tag) && (tag[end]|0x20 >= 'a' && tag[end]|0x20 <= 'z') {
		end++
	}
	return tag[:end], end >= 2 && end <= 8 && (end == len(tag) || tag[end] == '-' || tag[end] == '_')
}

// parseWeight reads "q=0.8". What cannot be read is not wanted.
func parseWeight(s string) float64 {
	if s == "" {
		return 1
	}
	if len(s) < 3 || len(s) > 10 || s[0]|0x20 != 'q' || s[1] != '=' {
		return 0
	}
	weight, err := strconv.ParseFloat(s[2:], 64)
	if err != nil {
		return 0
	}
	return weight
}
