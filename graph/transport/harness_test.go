package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport/transporttest"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// testSchema is a schema of another project. Its fields are null but for __typename and count.
type testSchema struct{ schema *ast.Schema }

var newTestSchema = sync.OnceValue(func() testSchema {
	return testSchema{gqlparser.MustLoadSchema(&ast.Source{Input: `
		type Query { me: User node(id: ID!): User fail: User crash: User }
		type User { id: ID! friend: User }
		type Mutation { login(input: LoginInput!): User logout: User }
		input LoginInput { email: String! password: String! }
		type Subscription { watch(id: ID!): User wait: Int count(to: Int!): Int! }
	`})}
})

func (s testSchema) Schema() *ast.Schema { return s.schema }

func (s testSchema) Complexity(context.Context, string, string, int, map[string]any) (int, bool) {
	return 0, false
}

func (s testSchema) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	name := map[ast.Operation]string{
		ast.Query: "Query", ast.Mutation: "Mutation", ast.Subscription: "Subscription",
	}[operation.Operation.Operation]
	fields := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{name})
	data := map[string]any{}
	for _, f := range fields {
		switch f.Name {
		case "__typename":
			data[f.Alias] = name
		case "watch":
			return failing(errs.New(errs.Unauthenticated, "Log in."))
		case "fail":
			return failing(errors.New("broken"))
		case "crash":
			panic("crashed")
		case "wait":
			return func(ctx context.Context) *graphql.Response {
				<-ctx.Done()
				return nil
			}
		case "count":
			return count(ctx, f.ArgumentMap(operation.Variables))
		default:
			data[f.Alias] = nil
		}
	}
	return graphql.OneShot(&graphql.Response{Data: mustMarshal(data)})
}

func failing(err error) graphql.ResponseHandler {
	return func(ctx context.Context) *graphql.Response {
		graphql.AddError(ctx, err)
		return &graphql.Response{}
	}
}

// count emits the numbers up to an argument, and fails after 99.
func count(ctx context.Context, arguments map[string]any) graphql.ResponseHandler {
	n, _ := arguments["to"].(int64)
	numbers := make(chan int64)
	StreamOf(ctx).Go(func() error {
		defer close(numbers)
		for i := range n {
			if i == 99 {
				return NewResumable(errs.New(errs.TooSlow, "Too slow."), "99")
			}
			select {
			case numbers <- i + 1:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return func(context.Context) *graphql.Response {
		i, ok := <-numbers
		if !ok {
			return nil
		}
		return &graphql.Response{Data: mustMarshal(map[string]any{"count": i})}
	}
}

// bounds are those of a server that is not configured.
var bounds = sync.OnceValue(func() config.Bounds {
	c, err := config.Parse(nil, config.Checks{})
	if err != nil {
		panic(err)
	}
	return c.Bounds
})

// member is the token of a caller who is not anonymous.
const member = "member"

// bundle is a handler and its log.
type bundle struct {
	*Handler
	log *logBuffer
}

// logBuffer is a log that may be read while an operation ends.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func setup(t testing.TB, options ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{log: &logBuffer{}}
	c := Config{
		Schema: newTestSchema(),
		Authenticate: func(_ context.Context, authorization string) (Caller, error) {
			switch authorization {
			case "":
				return Caller{Subject: "address", Anonymous: true}, nil
			case "Bearer " + member:
				return Caller{Subject: member}, nil
			}
			return Caller{Subject: "address", Anonymous: true},
				errs.New(errs.Unauthenticated, "The token is not valid.")
		},
		Bounds: bounds(), Maxima: limit.UsualMaxima(), Log: slog.New(slog.NewTextHandler(b.log, nil)), Now: time.Now,
	}
	for _, option := range options {
		option(&c)
	}
	b.Handler = New(c)
	return b
}

type reply = transporttest.Reply

// post sends the query without a token.
func (b *bundle) post(t testing.TB, query string) reply {
	t.Helper()
	return b.send(t, "", http.MethodPost, "/graphql", "application/json", string(mustMarshal(request{"query": query})),
		mediaGraphQL)
}

func (b *bundle) send(t testing.TB, token, method, target, contentType, body, accept string) reply {
	t.Helper()
	return transporttest.Send(t, b, token, method, target, contentType, body, accept)
}
