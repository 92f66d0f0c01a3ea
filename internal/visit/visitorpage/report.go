package visitorpage

import (
	_ "embed"
	"net/http"
)

//go:embed report.html
var reportContent string

// reports can be sent to this host: nothing redirects the answer.
var reports = newPage(reportContent, "; form-action 'self'")

// ReportForm is the form that visitors report a link with, and the values that the visitor has
// entered.
type ReportForm struct {
	ShortURL, Reason, Details string
	// Reasons are the texts of the catalogue to choose from: the keys after "report.".
	Reasons []string
	// Error is the key of the text that says why a report was refused; empty before the first one.
	Error string
}

// WriteReportForm answers with the form in the language of the visitor.
func WriteReportForm(w http.ResponseWriter, r *http.Request, status int, f ReportForm) {
	l := LanguageOf(r)
	w.Header().Add("Vary", "Accept-Language")
	plain := l.T("report.title") + "\n"
	if f.Error != "" {
		plain += l.T(f.Error) + "\n"
	}
	p := page{
		Page: reports, status: status, isForm: true, plain: plain + l.T("report.program") + "\n",
		view: struct {
			Language
			ReportForm
			Title, Text string
		}{l, f, l.T("report.title"), l.T("report.text")},
	}
	p.write(w, r)
}
