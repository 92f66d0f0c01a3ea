package web

import (
	"net/http"

	"github.com/linkforge/linkforge/internal/visitorpage"
)

// Page answers with a small page in English: HTML for browsers, one line of text for all other clients.
// It is never cached and never indexed. Pages for visitors of short URLs are those of package visitorpage.
func Page(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	visitorpage.WriteEnglish(w, r, status, title, text)
}
