package webhook

import (
	"context"
	"errors"

	"github.com/linkforge/linkforge/internal/workspace"
)

// clicksLoop creates deliveries of clicks until the context ends.
func (d *Dispatcher) clicksLoop(ctx context.Context) { <-ctx.Done() }

// clickBody renders a batch of clicks again.
func (d *Dispatcher) clickBody(context.Context, workspace.Membership, *Webhook, *Delivery) (string, error) {
	return "", errors.New("not implemented")
}
