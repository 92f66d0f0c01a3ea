package visitorpage

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/linkforge/linkforge/internal/click/visitor"
)

// english is the language of visitors whose language is not in the catalogue.
const english Language = "en"

// Language is a language of the catalogue: a primary subtag of BCP 47.
type Language string

//go:embed texts.json
var textsJSON []byte

// catalogue has the texts by language and key. Words in braces are placeholders. A test compares
// the keys and placeholders of all languages.
var catalogue = parseCatalogue(textsJSON)

func parseCatalogue(file []byte) (texts map[Language]map[string]string) {
	if err := json.Unmarshal(file, &texts); err != nil {
		panic(fmt.Sprintf("texts.json: %v", err))
	}
	return texts
}

// LanguageOf returns the most preferred language of a request if the catalogue has it, else
// English. A response that depends on it has Accept-Language in Vary.
func LanguageOf(r *http.Request) Language {
	wanted := Language(visitor.PreferredLanguage(r.Header.Get("Accept-Language")))
	if _, ok := catalogue[wanted]; ok {
		return wanted
	}
	return english
}

// T returns a text with its placeholders replaced. Pairs are names and values, as in "minutes",
// "15".
func (l Language) T(key string, pairs ...string) string {
	text := catalogue[l][key]
	for i := 0; i+1 < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, "{"+pairs[i]+"}", pairs[i+1])
	}
	return text
}
