package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) ExportMyData(
	ctx context.Context, in gen.ExportMyDataInput,
) (*gen.ExportMyDataPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	p, err := passwordOrProof("password", in.Password, in.Proof)
	if err != nil {
		return nil, err
	}
	data, next, err := r.exportPart(ctx, actor, in.After)
	if err != nil {
		return nil, err
	}
	// Last, so that a part that cannot be read spends no code.
	if err := r.Accounts.RequireProof(ctx, actor, p, web.AddressOf(ctx)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding personal data: %w", err)
	}
	return &gen.ExportMyDataPayload{Data: new(string(text)), Next: optional.Of(next)}, nil
}

// exportPart returns one part of a user's data, and the cursor of the next one: the name of a list
// and the ID after which to continue; empty after the last part.
func (r *mutationResolver) exportPart(
	ctx context.Context, actor account.Actor, after *string,
) (data map[string]any, next string, err error) {
	data = map[string]any{}
	part, lastID, _ := strings.Cut(optional.Value(after), " ")
	switch {
	case after == nil:
		next = "links"
		if data["account"], err = r.Accounts.Export(ctx, actor); err == nil {
			data["workspaces"], err = r.exportWorkspaces(ctx, actor)
		}
	case part == "links" && (lastID == "" || id.Valid(id.Link, lastID)):
		data["links"], lastID, err = r.LinkList.Export(ctx, actor, lastID)
		next = "links " + lastID
		if lastID == "" {
			next = "changes"
		}
	case part == "changes" && (lastID == "" || id.Valid(id.Event, lastID)):
		data["changes"], lastID, err = r.Audit.Export(ctx, actor.AccountID, workspace.Opened(actor), lastID)
		next = "changes " + lastID
		if lastID == "" {
			next = ""
		}
	default:
		err = errs.New(errs.InvalidInput, "after must be the next of the part before.").At("after")
	}
	return data, next, err
}

// exportedWorkspaces are the memberships and API keys of a user.
type exportedWorkspaces struct {
	workspace.Exported

	APIKeys []apikey.Exported `json:"apiKeys"`
}

func (r *mutationResolver) exportWorkspaces(
	ctx context.Context, actor account.Actor,
) (e exportedWorkspaces, err error) {
	if e.Exported, err = r.Workspaces.Export(ctx, actor); err == nil {
		e.APIKeys, err = r.APIKeys.Export(ctx, actor.AccountID)
	}
	return e, err
}

func (r *mutationResolver) DeleteMyAccount(
	ctx context.Context, in gen.DeleteMyAccountInput,
) (*gen.DeleteMyAccountPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	p, err := passwordOrProof("password", in.Password, in.Proof)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.Delete(ctx, actor, p, web.AddressOf(ctx), r.Workspaces.LeaveAll)
	return &gen.DeleteMyAccountPayload{DeletedID: &actor.AccountID}, err
}
