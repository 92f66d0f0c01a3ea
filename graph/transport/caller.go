package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Caller is the sender of an operation.
type Caller struct {
	// Subject identifies the user, API key or anonymous address whose requests, cost and streams
	// are limited.
	Subject string
	// Groups are the subjects that the caller shares with others: the account and workspace behind
	// an API key, and the network of the address. Their limits are wider.
	Groups []Group
	// RequestsPerMinute is the rate of a caller that has one of its own; zero for others.
	RequestsPerMinute int64
	// Owner is the account, workspace or network that concurrent work is attributed to.
	Owner string
	// Anonymous callers may send smaller bodies.
	Anonymous bool
	// Attach adds the caller to a context for resolvers; nil adds nothing.
	Attach func(context.Context) context.Context
}

// Group is a subject that several callers belong to. Together they may use the rate of Callers
// callers.
type Group struct {
	Subject string
	Callers int64
}

type callerKey struct{}

func (c Caller) attach(ctx context.Context) context.Context {
	if c.Attach != nil {
		ctx = c.Attach(ctx)
	}
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) Caller { return ctx.Value(callerKey{}).(Caller) }

// Budget deducts points from the budgets of a caller and its groups within a window, and returns
// the caller's. It returns RateLimited if too few remain in any. A nil Budget limits nothing.
type Budget func(ctx context.Context, c Caller, points int64) (limit.Allowance, error)

func (b Budget) spend(ctx context.Context, c Caller, points int64) (limit.Allowance, error) {
	if b == nil {
		return limit.Allowance{}, nil
	}
	return b(ctx, c, points)
}

// addAllowance adds the state of a budget to the headers of a response
// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
func addAllowance(head http.Header, name string, a limit.Allowance) {
	if a.Known {
		head.Add("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=%d`, name, a.Limit, int(a.Window.Seconds())))
		head.Add("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, name, a.Left, int(a.Reset.Seconds())))
	}
}

// addCost adds the caller's budget of points to the headers, as it is after an operation.
func addCost(head http.Header, operation *graphql.OperationContext) {
	if operation == nil {
		return
	}
	if b := limit.BillOf(operation); b != nil {
		a := b.Allowance
		a.Left = b.Left()
		addAllowance(head, "cost", a)
	}
}

// authenticate returns the caller of a request, and counts the request. Response headers state the
// remaining requests of the caller. The status belongs to the error.
func (h *Handler) authenticate(
	ctx context.Context, head http.Header, authorization string,
) (caller Caller, status int, err error) {
	caller, refused := h.config.Authenticate(ctx, authorization)
	allowance, err := h.config.Requests.spend(ctx, caller, 1)
	addAllowance(head, "requests", allowance)
	if err != nil {
		return caller, http.StatusTooManyRequests, err
	}
	if errs.Is(refused, errs.Unauthenticated) {
		head.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	if refused != nil {
		return caller, errs.From(refused).Kind.Status(), refused
	}
	return caller, 0, nil
}

// chargeCost takes the cost of an operation from the caller's budget. It returns RateLimited. A few
// expensive operations are limited like many cheap requests.
func (h *Handler) chargeCost(ctx context.Context, operation *graphql.OperationContext) (err error) {
	b := limit.BillOf(operation)
	b.Allowance, err = h.config.Cost.spendOn(ctx, b.Cost)
	b.ResetsAt = h.config.Now().Add(b.Allowance.Reset).UTC().Truncate(time.Microsecond)
	return err
}

// ChargeWork takes points from the caller's budget for a part of the running operation whose cost
// was not known before. An operation without a bill, of a webhook, has no budget. It returns
// RateLimited.
func (b Budget) ChargeWork(ctx context.Context, points int) error {
	bill := limit.BillOf(graphql.GetOperationContext(ctx))
	if bill == nil {
		return nil
	}
	bill.Work.Add(int64(points))
	_, err := b.spendOn(ctx, points)
	return err
}

// spendOn takes points from the budget of an operation's caller. It returns RateLimited.
func (b Budget) spendOn(ctx context.Context, points int) (limit.Allowance, error) {
	allowance, err := b.spend(ctx, callerOf(ctx), int64(points))
	if errs.Is(err, errs.RateLimited) && !allowance.OfGroup {
		err = errs.New(errs.RateLimited,
			"The operation would exceed your budget of %d points per minute. "+
				"Try again in %s, or request fewer fields or smaller pages.", allowance.Limit, allowance.Reset).
			After(allowance.Reset)
	}
	return allowance, err
}
