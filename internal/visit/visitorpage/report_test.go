package visitorpage

import (
	"net/http"
	"strings"
	"testing"
)

func TestReportForm_KeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	form := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteReportForm(w, r, http.StatusBadRequest, ReportForm{
			ShortURL: `https://sho.rt/a"><script>`, Reason: "MALWARE", Details: "</textarea><script>",
			Error:   "report.refused",
			Reasons: []string{"SPAM", "MALWARE"},
		})
	})
	w := serve(form, "/abuse", accepting(browser))
	body := w.Body.String()
	for _, want := range []string{
		`action="/abuse"`, `value="https://sho.rt/a&#34;&gt;&lt;script&gt;"`,
		"&lt;/textarea&gt;&lt;script&gt;</textarea>",
		`<option value="MALWARE" selected>Its destination distributes harmful software</option>`, `role="alert"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing from %s", want, body)
		}
	}
	if w.Header().Get("Referrer-Policy") != "same-origin" {
		t.Errorf("browsers hide the origin of the form: %v", w.Header())
	}
	if strings.Contains(body, "<script") ||
		!strings.HasSuffix(w.Header().Get("Content-Security-Policy"), "form-action 'self'") {
		t.Errorf("%v: %s", w.Header(), body)
	}
	plain := serve(form, "/abuse", accepting("*/*")).Body.String()
	if !strings.HasPrefix(plain, "Report a short link\nThe report was not accepted.") || strings.Contains(plain, "<") {
		t.Errorf("the plain form is %q", plain)
	}
}
