package statspage

import (
	_ "embed"
	"strings"
)

// countryText has a code and an English name on each line. The tables of golang.org/x/text would do
// as well, but they make the server 2.7 MB larger.
//
//go:embed countries.txt
var countryText string

var countries = readCountries(countryText)

func readCountries(text string) map[string]string {
	names := make(map[string]string, 256)
	for line := range strings.Lines(text) {
		code, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[code] = name
	}
	return names
}

// country is the name of a country, or the code itself if it has none.
func country(code string) string {
	if code == "" {
		return "Unknown"
	}
	if name, ok := countries[strings.ToUpper(code)]; ok {
		return name
	}
	return code
}
