package playground

import (
	"strconv"
	"strings"
)

// acceptsGzip reports whether a client that sent these Accept-Encoding fields takes gzip, and does not like the
// plain form better (RFC 9110, section 12.5.3).
func acceptsGzip(fields []string) bool {
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
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || q < 0 || q > 1 {
		return 0
	}
	return q
}
