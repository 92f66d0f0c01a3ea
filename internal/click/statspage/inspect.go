package statspage

import (
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Texts are the texts of a language. Its own text is the language's tag.
type Texts interface {
	~string
	T(key string, pairs ...string) string
}

// Inspection describes a link to a visitor who has not followed it.
type Inspection struct {
	ShortURL string
	// Host is the canonical host of the destination, URL the location; empty texts mean that the
	// owner hides it.
	Host, URL string
	// Others are the canonical hosts that the link leads to for some visitors only.
	Others    []string
	CreatedAt time.Time
	// ReportURL is the page where the link can be reported.
	ReportURL string
	// Stats follow unless they are nil.
	Stats *Page
}

// hostName is a host as visitors read it. ASCII is empty unless it differs.
type hostName struct{ Name, ASCII string }

// nameOf returns a canonical host in Unicode, and its ASCII form, whose letters are unambiguous:
// many Unicode letters look like others.
func nameOf(host string) hostName {
	if name := urlnorm.Unicode(host); name != host {
		return hostName{name, host}
	}
	return hostName{Name: host}
}

// inspectView is an inspection in the words of its template.
type inspectView struct {
	Language interface {
		T(string, ...string) string
	}
	Title     string
	Host      *hostName
	URL       string
	Others    []hostName
	ShortURL  string
	Created   string
	ReportURL string
	Stats     *view
}

// WriteInspection answers with the page in a language.
func WriteInspection[T Texts](w http.ResponseWriter, r *http.Request, texts T, in Inspection) {
	v := inspectView{
		Language: texts, Title: texts.T("inspect.hidden.title"), URL: tame(in.URL), ShortURL: tame(in.ShortURL),
		Created: in.CreatedAt.UTC().Format(time.DateOnly), ReportURL: in.ReportURL,
	}
	if in.Host != "" {
		name := nameOf(in.Host)
		v.Host, v.Title = &name, texts.T("inspect.title", "host", name.Name)
	}
	for _, host := range in.Others {
		v.Others = append(v.Others, nameOf(host))
	}
	if in.Stats != nil {
		stats := newView(*in.Stats)
		v.Stats = &stats
	}
	w.Header().Add("Vary", "Accept-Language")
	respond(w, r, inspectPage, v)
}
