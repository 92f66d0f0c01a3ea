package graph

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clickstream"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	destinations "github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/history"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/parity"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
)

// mediaGraphQL is the media type of GraphQL responses.
const mediaGraphQL = "application/graphql-response+json"

// bundle is an endpoint over a database, and the log that it writes.
type bundle struct {
	*transport.Handler
	Config
	db         *db.DB
	tokens     account.Tokens
	log        *bytes.Buffer
	statements dbtest.Counter
}

func setup(t testing.TB, d *db.DB, options ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{db: d, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	b.tokens = account.Tokens{Secrets: [][]byte{[]byte(strings.Repeat("s", 32))}, Issuer: "http://sho.rt",
		TTL: time.Hour}
	counted := &db.DB{DB: d.WithQueryHook(&b.statements), Kind: d.Kind}
	k := dbtest.Redis(t, "")
	limits, clicks := ratelimit.New(k, log, time.Now), clicktest.New(t, counted, time.Now)
	links := must.Value(link.NewStore(link.Config{
		DB: counted, Feed: feed.New(counted, log, time.Now), PublicURL: "http://sho.rt", Clicks: clicks, Log: log,
		Now: time.Now,
	}))(t)
	own := must.Value(destinations.NewOwnHosts("http://sho.rt"))(t)
	templates := &folder.TemplateStore{DB: counted, Now: time.Now}
	keys := &apikey.Store{DB: counted, Now: time.Now}
	folders := &folder.Store{DB: counted, Now: time.Now}
	quota := &link.Quota{DB: counted, Default: 1000, Now: time.Now}
	all := &stores.Stores{
		UTMTemplates: templates, Folders: folders,
		Accounts: &account.Store{
			DB: counted, Tokens: b.tokens, Passwords: account.NewUserPasswords(bcrypt.MinCost), Now: time.Now,
			Limits: limits, Keys: keys,
		},
		Workspaces: &workspace.Store{
			DB: counted, Destinations: destinations.Checker{DB: counted, Own: own}, Limits: limits, Now: time.Now,
		},
		Domains:    &domain.Store{DB: counted, Own: own, Now: time.Now},
		APIKeys:    keys,
		Links:      links,
		LinkQuotas: quota,
		Creation: creation.NewStore(creation.Config{
			Links: links, Quota: quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: time.Hour,
			Limits: limits,
		}),
		Edit:       &edit.Store{Store: links, Quota: quota, Folders: folders},
		Schedule:   &edit.Schedules{Store: links},
		History:    &history.Store{Store: links},
		LinkList:   linklist.NewStore(counted, time.Now),
		Moderation: &moderation.Store{DB: counted, Links: links, Limits: limits, Now: time.Now},
		Stats:      clicks.Stats(),
		Exports: stats.Exports{Signer: secrets.Signer{Secrets: b.tokens.Secrets, Now: time.Now},
			PublicURL: "http://sho.rt"},
		Ledger:    &clickstore.Ledger{DB: counted},
		Unmatched: &unmatched.Recorder{DB: counted, Log: log, Now: time.Now},
		Audit:     &audit.Store{DB: counted, Now: time.Now},
	}
	c := Config{
		Config: transport.Config{Bounds: bounds(), Maxima: limit.UsualMaxima(), Log: log, Now: time.Now}, Stores: all,
		Codes:    qr.NewRenderer(),
		HitQuota: 100, Meter: ratelimit.NewMeter(limits, time.Now), RequestRate: 1 << 40, CostRate: 1 << 40,
	}
	box := secrets.Box{Key: []byte(strings.Repeat("k", 32))}
	c.Tasks = task.NewStore(counted, box, time.Now)
	c.Imports = &importer.Store{
		DB: counted, Tasks: c.Tasks, Links: links, Creation: c.Creation, Folders: folders,
		Signer: secrets.Signer{Secrets: b.tokens.Secrets, Now: time.Now}, PublicURL: "http://sho.rt", Now: time.Now,
	}
	c.Parity = &parity.Store{DB: counted, Tasks: c.Tasks, Links: links, Now: time.Now}
	c.Webhooks = &webhook.Store{
		DB: counted, Clicks: clickstream.New(counted, clicks.Store, log, time.Now),
		Destinations: destinations.Checker{DB: counted, Own: own}, Allow: outbound.Public, Sealed: box, Now: time.Now,
	}
	c.Workspaces.Accounts, c.Edit.ReplaceWebhookTags = c.Accounts, c.Webhooks.ReplaceTags
	c.Dispatcher = dispatch.New(dispatch.Config{
		Store: c.Webhooks, Client: http.DefaultClient, Workspaces: c.Workspaces, Renderer: NewRenderer(c),
		Limits: limits, Log: log,
	})
	for _, option := range options {
		option(&c)
	}
	b.Config, b.Handler = c, New(c)
	return b
}

// bounds are those of an instance that is not configured.
var bounds = sync.OnceValue(func() config.Bounds {
	c, err := config.Parse(nil, config.Checks{})
	if err != nil {
		panic(err)
	}
	return c.Bounds
})

// person is a user with a token and a workspace.
type person struct {
	accountID, token string
	workspace        workspace.Membership
}

// person creates a user without the cost of hashing a password.
func (b *bundle) person(t testing.TB, name string) person {
	t.Helper()
	now := db.Instant(time.Now())
	a := account.Account{ID: id.New(id.Account), Email: name + "@example.com", Name: name, CreatedAt: now,
		UpdatedAt: now}
	must.Value(b.db.NewInsert().Model(&a).Exec(t.Context()))(t)
	p := person{accountID: a.ID, token: b.token(t, a.ID)}
	var err error
	if p.workspace, err = b.Workspaces.Create(t.Context(), account.Actor{AccountID: a.ID}, name, name); err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bundle) token(t testing.TB, accountID string) string {
	t.Helper()
	token, _, err := b.tokens.Issue(account.Actor{AccountID: accountID, SessionID: id.New(id.Session)}, time.Now())
	must.NoError(t, err)
	return token
}

// reply is the response to a request.
type reply struct {
	status int
	header http.Header
	text   string
	Data   json.RawMessage
	Errors []struct {
		Message    string
		Path       []any
		Extensions struct{ Code string }
	}
}

// codes are the top-level errors' codes, joined.
func (r reply) codes() string {
	var codes []string
	for _, e := range r.Errors {
		codes = append(codes, e.Extensions.Code)
	}
	return strings.Join(codes, " ")
}

// ask runs an operation with variables given as name, value, name, value.
func (b *bundle) ask(t testing.TB, token, query string, variables ...any) reply {
	t.Helper()
	values := map[string]any{}
	for i := 0; i < len(variables); i += 2 {
		values[variables[i].(string)] = variables[i+1]
	}
	body := must.Value(json.Marshal(map[string]any{"query": query, "variables": values}))(t)
	return b.send(t, token, http.MethodPost, "/graphql", "application/json", string(body), mediaGraphQL)
}

func (b *bundle) send(t testing.TB, token, method, target, contentType, body, accept string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	text := must.Value(io.ReadAll(w.Body))(t)
	answer := reply{status: w.Code, header: w.Header(), text: string(text)}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%d %s: %v", w.Code, text, err)
	}
	return answer
}

// into reads the data of a reply that must have no errors.
func (r reply) into(t *testing.T, target any) {
	t.Helper()
	if len(r.Errors) > 0 {
		t.Fatalf("errors: %s", r.text)
	}
	if err := json.Unmarshal(r.Data, target); err != nil {
		t.Fatalf("%s: %v", r.text, err)
	}
}

// link makes a link and returns its id.
func (b *bundle) link(t *testing.T, p person, url string) *link.Link {
	t.Helper()
	l, _, err := b.Creation.Create(t.Context(), p.workspace, creation.Input{URL: url})
	must.NoError(t, err)
	return l
}
