package graph

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/graph/transport/transporttest"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// mediaGraphQL is the media type of GraphQL responses.
const mediaGraphQL = "application/graphql-response+json"

// bundle is an endpoint over a database, and the log that it writes.
type bundle struct {
	*transport.Handler
	Config
	db         *db.DB
	log        *bytes.Buffer
	statements dbtest.Counter
}

func setup(t testing.TB, d *db.DB, options ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{db: d, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	all := must.Value(stores.Open(stores.Options{
		Config: instance(), DB: &db.DB{DB: d.WithQueryHook(&b.statements), Kind: d.Kind}, Redis: dbtest.Redis(t, ""),
		PasswordCost: bcrypt.MinCost, Log: log, Now: time.Now,
	}))(t)
	c := Config{
		Config: transport.Config{Bounds: instance().Bounds, Maxima: limit.UsualMaxima(), Log: log, Now: time.Now},
		Stores: all, Codes: qr.NewRenderer(), HitQuota: 100, Meter: ratelimit.NewMeter(all.Limits, time.Now),
		RequestRate: 1 << 40, CostRate: 1 << 40,
	}
	c.Dispatcher = dispatch.New(dispatch.Config{
		Store: c.Webhooks, Client: http.DefaultClient, Workspaces: c.Workspaces, Links: c.Links,
		Limits: c.Limits, Log: log,
	})
	for _, option := range options {
		option(&c)
	}
	b.Config, b.Handler = c, New(c)
	return b
}

// instance is the configuration of http://sho.rt, where an account may own any number of workspaces.
var instance = sync.OnceValue(func() config.Config {
	c, err := config.Parse(map[string]string{
		"LINKFORGE_PUBLIC_URL": "http://sho.rt", "LINKFORGE_JWT_SECRET": strings.Repeat("j", 32),
		"LINKFORGE_CODE_SECRET": strings.Repeat("c", 32), "LINKFORGE_ENCRYPTION_KEY": strings.Repeat("0a", 32),
	}, config.Checks{})
	if err != nil {
		panic(err)
	}
	c.MaxWorkspaces = 0
	return c
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
	m := must.Value(b.Workspaces.Create(t.Context(), account.Actor{AccountID: a.ID}, name, name))(t)
	return person{accountID: a.ID, token: b.token(t, a.ID), workspace: m}
}

// withAda is setup, with a user.
func withAda(t testing.TB, d *db.DB, options ...func(*Config)) (*bundle, person) {
	t.Helper()
	b := setup(t, d, options...)
	return b, b.person(t, "ada")
}

func (b *bundle) token(t testing.TB, accountID string) string {
	t.Helper()
	actor := account.Actor{AccountID: accountID, SessionID: id.New(id.Session)}
	token, _, err := b.Accounts.Tokens.Issue(actor, time.Now())
	must.NoError(t, err)
	return token
}

type reply = transporttest.Reply

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
	return transporttest.Send(t, b, token, method, target, contentType, body, accept)
}

func (b *bundle) link(t *testing.T, p person, url string) *link.Link {
	t.Helper()
	return b.create(t, p.workspace, creation.Input{URL: url})
}

func (b *bundle) create(t *testing.T, m workspace.Membership, in creation.Input) *link.Link {
	t.Helper()
	l, _, err := b.Creation.Create(t.Context(), m, in)
	must.NoError(t, err)
	return l
}
