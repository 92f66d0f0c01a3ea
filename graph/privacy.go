package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/apikey"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// ExportMyData implements gen.MutationResolver.
func (r mutation) ExportMyData(ctx context.Context, in gen.ExportMyDataInput) (*gen.ExportMyDataPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	payload := &gen.ExportMyDataPayload{}
	if _, err = r.Accounts.Confirm(ctx, actor, in.Password, web.AddressOf(ctx)); err == nil {
		err = r.export(ctx, actor, in.After, payload)
	}
	payload.Errors, err = userErrors(err)
	return payload, err
}

// export fills in one part. Where the next one begins is the name of a list, and the id after which to go on.
func (r mutation) export(ctx context.Context, actor account.Actor, after *string, payload *gen.ExportMyDataPayload) error {
	part, data, next := "", map[string]any{}, ""
	var lastID string
	if after != nil {
		part, lastID, _ = strings.Cut(*after, " ")
	}
	var err error
	switch {
	case after == nil:
		next = "links"
		if data["account"], err = r.Accounts.Export(ctx, actor); err == nil {
			data["workspaces"], err = r.exportWorkspaces(ctx, actor)
		}
	case part == "links" && (lastID == "" || id.Valid(id.Link, lastID)):
		data["links"], lastID, err = r.Links.Export(ctx, actor, lastID)
		next = "links " + lastID
		if lastID == "" {
			next = "changes"
		}
	case part == "changes" && (lastID == "" || id.Valid(id.Event, lastID)):
		data["changes"], lastID, err = r.Audit.Export(ctx, actor.AccountID, lastID)
		next = "changes " + lastID
		if lastID == "" {
			next = ""
		}
	default:
		err = errs.New(errs.InvalidInput, "after must be the next of the part before.").At("after")
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("writing down personal data: %w", err)
	}
	payload.Data = new(string(text))
	if next != "" {
		payload.Next = &next
	}
	return nil
}

// exportedWorkspaces is the user's part in workspaces.
type exportedWorkspaces struct {
	workspace.Exported

	APIKeys []apikey.Exported `json:"apiKeys"`
}

func (r mutation) exportWorkspaces(ctx context.Context, actor account.Actor) (e exportedWorkspaces, err error) {
	if e.Exported, err = r.Workspaces.Export(ctx, actor); err == nil {
		e.APIKeys, err = r.Keys.Export(ctx, actor.AccountID)
	}
	return e, err
}

// DeleteMyAccount implements gen.MutationResolver.
func (r mutation) DeleteMyAccount(ctx context.Context, in gen.DeleteMyAccountInput) (*gen.DeleteMyAccountPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.Delete(ctx, actor, in.Password, web.AddressOf(ctx), r.Workspaces.LeaveAll)
	deleted := err == nil
	mend, err := userErrors(err)
	return &gen.DeleteMyAccountPayload{Deleted: deleted, Errors: mend}, err
}
