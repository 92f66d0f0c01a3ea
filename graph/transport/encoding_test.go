package transport

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// encodedBodies are requests by whether they are UTF-8 without surrogates alone.
var encodedBodies = map[string]bool{
	`{"query":"{ node(id: \"ä\\u00e4\\ud83d\\ude00\\u{1F600}\") { id } }"}`:                       true,
	`{"query":"query($i: ID!) { node(id: $i) { id } }","variables":{"i":"\ud83d\ude00 \\ud83d"}}`: true,
	// is no escape there
	`{"query":"{ node(id: \"\"\"\\ud83d\"\"\") { id } } # \\ud83d"}`:                true,
	"\ufeff" + `{"query":"{ __typename }"}`:                                         true,
	`{"query":"{ node(id: \"\\ud83d\") { id } }"}`:                                  false,
	`{"query":"{ node(id: \"\\uDE00\\uD83D\") { id } }"}`:                           false,
	`{"query":"{ __typename } # \ud83d"}`:                                           false,
	`{"query":"query($i: ID!) { node(id: $i) { id } }","variables":{"i":"\ude00"}}`: false,
	`{"query":"{ __typename }","variables":{"\ud83d":1}}`:                           false,
	"{\"query\":\"{ node(id: \\\"p\xe4ss\\\") { id } }\"}":                          false,
	"{\"query\":\"{ __typename }\",\"operationName\":\"\xc3\"}":                     false,
	"{\"query\":\"{ __typename }\",\"x\":\"\xed\xa0\xbd\xed\xb8\x80\"}":             false,
	"\xff\xfe{\x00}\x00": false,
}

func TestHandler_RefusesBodiesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := httptest.NewServer(b.Handler)
	t.Cleanup(server.Close)
	t.Cleanup(b.stop)
	for body, ok := range encodedBodies {
		for _, accept := range []string{mediaGraphQL, mediaJSON} {
			r := b.send(t, member, http.MethodPost, "/graphql", "application/json", body, accept)
			if (r.Status == 200) != ok || !ok && (r.Status != 400 || !strings.Contains(r.Text, "UTF-8")) {
				t.Errorf("%q: %d %s", body, r.Status, r.Text)
			}
		}
		conn, _, err := websocket.Dial(t.Context(), server.URL,
			&websocket.DialOptions{Subprotocols: []string{protocol}})
		must.NoError(t, err)
		for _, m := range []string{
			`{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":` +
				strings.TrimPrefix(body, "\ufeff") + `}`,
		} {
			must.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(m)))
			_, _, err = conn.Read(t.Context())
		}
		if closed := websocket.CloseStatus(err); (err == nil) != ok ||
			!ok && (!strings.Contains(err.Error(), "UTF-8") ||
				closed != closeBadMessage && closed != websocket.StatusInvalidFramePayloadData) {
			t.Errorf("%q over a WebSocket: %v", body, err)
		}
		_ = conn.CloseNow()
	}
}

func TestHandler_RefusesQueriesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const query = "/graphql?query=%7B__typename%7D"
	for target, status := range map[string]int{
		query: 200, query + "&variables=" + url.QueryEscape("\ufeff{\"\u00e4\":\"\\ud83d\\ude00\"}"): 200,
		"/graphql?query=%7Bnode(id:%22%E4%22)%7Bid%7D%7D": 400, query + "&x=%ff": 400, query + "&%E4=1": 400,
		query + "&variables=" + url.QueryEscape(`{"x":"\ud83d"}`): 400, query + "&operationName=%C3": 400,
		"/graphql?query=" + url.QueryEscape(`{node(id:"\ud83d"){id}}`): 400,
	} {
		r := b.send(t, "", http.MethodGet, target, "", "", mediaJSON)
		if r.Status != status || status == 400 && !strings.Contains(r.Text, "UTF-8") {
			t.Errorf("%s: %d %s", target, r.Status, r.Text)
		}
	}
	for _, part := range []string{"&variables={%22a%22:%22b;c%22}", "&variables=%7B%zz"} {
		if r := b.send(t, "", http.MethodGet, query+part, "", "", mediaJSON); r.Status != 400 ||
			!strings.Contains(r.Text, "percent-encode") {
			t.Errorf("%s: %d %s", part, r.Status, r.Text)
		}
	}
}
