package main

import "testing"

// routingFields select the identities of a link's routing.
const routingFields = `routing { rules { id: ruleId name targets { id: targetId url share clickCount } }
	query { mode } forwardPath endedUrl
	warnings { code field } }`

type routedView struct {
	ID       string
	ShortURL string
	Routing  struct {
		Rules []struct {
			ID      string
			Targets []struct {
				ID         string
				ClickCount int64
			}
		}
		Warnings []struct{ Code string }
	}
}

// route changes the routing of a link.
func (w tenant) route(t *testing.T, linkID string, routing map[string]any) routedView {
	t.Helper()
	var data struct {
		UpdateLink struct {
			Link   routedView
			Errors []struct {
				Message string
				Field   []string
			}
		}
	}
	w.must(t, &data,
		`mutation ($id: ID!, $routing: LinkRoutingInput) { updateLink(input: {id: $id, routing: $routing}) {
		link { id shortUrl `+routingFields+` } errors { message field } } }`,
		map[string]any{"id": linkID, "routing": routing})
	if len(data.UpdateLink.Errors) > 0 {
		t.Fatalf("%+v", data.UpdateLink.Errors)
	}
	return data.UpdateLink.Link
}

const (
	iPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
		"Version/17.5 Mobile/15E148 Safari/604.1"
	desktopChrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/126.0.0.0 Safari/537.36"
)

type explanation struct {
	Status    int
	Location  string
	Reason    string
	RuleIndex int
	// Candidates are the positions of the targets that a draw may choose.
	Candidates []int
	Steps      []struct{ Step, Outcome, Detail string }
}

func (w tenant) explain(t *testing.T, shortURL string, visit map[string]any) explanation {
	t.Helper()
	var data struct{ ExplainRedirect explanation }
	w.must(t, &data, `query ($url: String!, $visit: VisitSampleInput) {
		explainRedirect(by: {shortUrl: $url}, visit: $visit) {
		status location reason ruleIndex steps { step outcome detail } } }`, map[string]any{"url": shortURL,
		"visit": visit})
	return data.ExplainRedirect
}
