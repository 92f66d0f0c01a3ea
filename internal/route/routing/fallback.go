package routing

import "strings"

// Fill replaces {code} and {host} of a fallback URL by those of the request, percent-encoded. Check
// lets them occur in path and query only.
func Fill(url, code, host string) string {
	if strings.IndexByte(url, '{') < 0 {
		return url
	}
	b := new(strings.Builder)
	for {
		before, rest, ok := strings.Cut(url, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		value := code
		if name == "host" {
			value = host
		}
		writeSafe(b, value, `/?#[]@!$&'()*+,;=:%"<>\^{|}`+"`")
		url = after
	}
}
