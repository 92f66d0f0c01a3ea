package web

import (
	"strconv"
	"strings"
)

// AcceptsGzip reports whether a client that sent these Accept-Encoding fields takes gzip, and does
// not like the plain form better (RFC 9110, section 12.5.3).
func AcceptsGzip(fields []string) bool {
	weights := map[string]float64{}
	for coding := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		weights[strings.ToLower(strings.TrimSpace(name))] = weight(params)
	}
	q, named := weights["gzip"]
	if !named {
		q, named = weights["x-gzip"]
	}
	if !named {
		q = weights["*"]
	}
	return q > 0 && q >= weights["identity"]
}

// weight reads a q parameter: 1 when there is none, 0 when it makes no sense.
func weight(params string) float64 {
	name, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 1
	}
	return Quality(strings.TrimSpace(value))
}

// Quality reads the value of a q parameter: 0 when it is no number from 0 to 1.
func Quality(value string) float64 {
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !(q >= 0 && q <= 1) { // which NaN is not
		return 0
	}
	return q
}
