// Package visitorpage renders the pages that visitors of short URLs see: messages, gates,
// confirmations and the form that reports a link; and the forms that mail leads to, in English.
// They have one style (style.css) and one catalogue of texts (texts.json), need no script, and show
// neither cookies nor anything that a request chose, except the requested address. Programs, which do
// not accept HTML, receive plain text.
package visitorpage

import (
	"bytes"
	_ "embed"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/linkforge/linkforge/internal/platform/web"
)

var (
	//go:embed style.css
	style string
	//go:embed message.html
	messageContent string
	//go:embed form.html
	formContent string
)

// Pages with a form have no form-action in their policies, because Chromium applies it also to the
// redirect that follows the form.
var (
	messages = newPage(messageContent, "; form-action 'none'")
	forms    = newPage(formContent, "")
)

// newPage returns a page of a content, with an addition to its policy.
func newPage(content, policy string) web.Page {
	p := web.NewPage(style, content)
	p.Policy += policy
	return p
}

// Message names a page of a title and a text: the keys of the catalogue before ".title" and
// ".text".
type Message string

// The messages.
const (
	NotFound         Message = "notFound"
	Expired          Message = "expired"
	Exhausted        Message = "exhausted"
	Disabled         Message = "disabled"
	WorkspaceDeleted Message = "workspaceDeleted"
	OverQuota        Message = "overQuota"
	Throttled        Message = "throttled"
	Unavailable      Message = "unavailable"
	PageNotFound     Message = "pageNotFound"
	Home             Message = "home"
	NoStats          Message = "noStats"
	Blocked          Message = "blocked"
	// ManyAttempts has the placeholder minutes.
	ManyAttempts Message = "manyAttempts"
	Reported     Message = "reported"
	ManyReports  Message = "manyReports"
)

// Write answers with a message in the language of the visitor. Pairs replace placeholders, see
// Language.T.
func Write(w http.ResponseWriter, r *http.Request, status int, m Message, pairs ...string) {
	l := LanguageOf(r)
	w.Header().Add("Vary", "Accept-Language")
	text := string(m) + ".text"
	p := messagePage(status, l, l.T(string(m)+".title"), l.T(text, pairs...), "")
	if !strings.Contains(catalogue[l][text], "{") {
		p.fixed = fixedPage{l, m}
	}
	p.write(w, r)
}

// WriteEnglish answers with a message that the catalogue does not have, in English.
func WriteEnglish(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	p := messagePage(status, english, title, text, "")
	p.write(w, r)
}

// WriteDone answers that a form has taken effect, in English. The reader goes on at the URL next,
// which may be empty.
func WriteDone(w http.ResponseWriter, r *http.Request, title, text, next string) {
	p := messagePage(http.StatusOK, english, title, text, next)
	p.write(w, r)
}

// WriteInternalError answers a request whose handler has failed.
func WriteInternalError(w http.ResponseWriter, r *http.Request) {
	WriteEnglish(w, r, http.StatusInternalServerError, "Internal server error", "Try again in a moment.")
}

// WriteNotUTF8 answers a request that is not UTF-8.
func WriteNotUTF8(w http.ResponseWriter, r *http.Request) {
	WriteEnglish(w, r, http.StatusBadRequest, "Not UTF-8", "Encode the text of the request in UTF-8.")
}

func messagePage(status int, l Language, title, text, next string) page {
	return page{
		Page: messages, status: status, plain: title + ". " + text + "\n",
		view: struct{ Language, Title, Text, Next string }{string(l), title, text, next},
	}
}

// Form is a page with a button that the visitor must press to continue. It shows nothing of the
// destination.
type Form struct {
	// ShortURL is the requested address without its scheme, query and further path.
	ShortURL string
	// Notice is a text of the owner of the link; it may be empty.
	Notice string
	// NeedsPassword adds a field for the password. IsWrong means that the visitor sent a wrong one.
	NeedsPassword, IsWrong bool
}

// WriteForm answers with a form in the language of the visitor. The form is sent to the same
// address, with the field password, or confirm=1.
func WriteForm(w http.ResponseWriter, r *http.Request, status int, f Form) {
	l := LanguageOf(r)
	w.Header().Add("Vary", "Accept-Language")
	p := page{
		Page: forms, status: status, isForm: true, plain: f.plain(l),
		view: struct {
			Language
			Form
			Title, Text string
		}{l, f, l.T(f.kind() + ".title"), l.T(f.kind() + ".text")},
	}
	p.write(w, r)
}

// kind returns the keys of the catalogue before the dot.
func (f *Form) kind() string {
	switch {
	case f.NeedsPassword:
		return "password"
	case f.Notice != "":
		return "notice"
	}
	return "confirm"
}

// plain returns the form for programs: how to pass it.
func (f *Form) plain(l Language) string {
	lines := []string{l.T(f.kind() + ".title"), f.Notice, "", l.T(f.kind() + ".program")}
	if f.IsWrong {
		lines[2] = l.T("password.wrong")
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return strings.Join(lines, "\n") + "\n"
}

// page is a response before it is written.
type page struct {
	web.Page
	status int
	view   any
	// plain is the response to programs.
	plain string
	// isForm means that the page has a form.
	isForm bool
	// fixed identifies a page that is the same in each response; zero means that it is not.
	fixed fixedPage
}

// fixedPage is a message without placeholders.
type fixedPage struct {
	language Language
	message  Message
}

// fixedPages are the HTML texts of fixed pages that have been written. While a dependency is
// unavailable, rendering would take a third of the processor's time.
var fixedPages sync.Map

// html returns the page as HTML. The text must not be changed.
func (p *page) html() []byte {
	isFixed := p.fixed != fixedPage{}
	if isFixed {
		if text, ok := fixedPages.Load(p.fixed); ok {
			return text.([]byte)
		}
	}
	b := new(bytes.Buffer)
	_ = p.Execute(b, p.view) // plain values into a buffer: there is nothing to fail
	if isFixed {
		fixedPages.Store(p.fixed, b.Bytes())
	}
	return b.Bytes()
}

// write writes a page: HTML for browsers, plain text for all other clients. It is neither cached
// nor indexed.
func (p *page) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if p.isForm { // else the browser would send the form with the origin null
		h.Set("Referrer-Policy", "same-origin")
	}
	h.Add("Vary", "Accept")
	body := []byte(p.plain)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", p.Policy)
		body = p.html()
	} else {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
}
