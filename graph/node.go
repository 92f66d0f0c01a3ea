package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// nodeLoader loads a workspace's objects of one type by global ID. Unknown IDs are missing from the
// result. It returns Forbidden if the member may not list such objects.
type nodeLoader func(ctx context.Context, m workspace.Membership, ids ...string) (map[string]limit.Node, error)

// nodeLoaders returns the loaders of the types that belong to a workspace, by the prefix of their
// IDs. Accounts and sessions belong to a user.
func (c *Config) nodeLoaders() map[id.Prefix]nodeLoader {
	return map[id.Prefix]nodeLoader{
		id.Workspace: func(_ context.Context, m workspace.Membership, _ ...string) (map[string]limit.Node, error) {
			return map[string]limit.Node{m.ID(): &m}, nil
		},
		id.Link:       c.linkNodes,
		id.Click:      c.clickNodes,
		id.Delivery:   c.deliveryNodes,
		id.Domain:     nodesOf(c.Domains.Rows().ByID, domainIDs),
		id.Event:      nodesOf(c.eventsByID, eventIDs),
		id.Folder:     nodesOf(c.foldersByID, folderIDs),
		id.Invitation: nodesOf(c.Workspaces.Invitations().ByID, invitationIDs),
		id.Key:        nodesOf(c.APIKeys.Rows().ByID, apiKeyIDs),
		id.Member:     nodesOf(c.Workspaces.MembersByID, memberIDs),
		id.Scheduled:  nodesOf(c.Schedule.ByID, changeIDs),
		id.Task:       nodesOf(c.Tasks.ByID, taskIDs),
		id.Template:   nodesOf(c.UTMTemplates.Rows().ByID, templateIDs),
		id.Webhook:    c.webhookNodes,
	}
}

func (r *queryResolver) Node(ctx context.Context, nodeID string) (limit.Node, error) {
	found, err := r.nodes(ctx, []string{nodeID})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (r *queryResolver) Nodes(ctx context.Context, ids []string) ([]limit.Node, error) {
	if len(ids) < 1 || len(ids) > page.Max {
		return nil, errs.New(errs.InvalidInput, "Request 1 to %d ids. This request has %d.", page.Max, len(ids)).
			At("ids")
	}
	return r.nodes(ctx, ids)
}

// nodes returns the objects with the IDs, and nil for each that does not exist or that the caller
// may not read. It runs as many statements for a hundred IDs as for one of each type and workspace.
func (c *Config) nodes(ctx context.Context, ids []string) ([]limit.Node, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.ownNodes(ctx, actor, ids)
	if err != nil {
		return nil, err
	}
	spaces, spaceOf, err := c.spacesOf(ctx, actor, ids)
	if err != nil {
		return nil, err
	}
	type group struct {
		spaceID string
		prefix  id.Prefix
	}
	groups := map[group][]string{}
	for nodeID, spaceID := range spaceOf {
		if _, ok := spaces[spaceID]; ok {
			g := group{spaceID, id.PrefixOf(nodeID)}
			groups[g] = append(groups[g], nodeID)
		}
	}
	loaders := c.nodeLoaders()
	for g, ids := range groups {
		objects, err := loaders[g.prefix](ctx, spaces[g.spaceID], ids...)
		if err != nil && !errs.Is(err, errs.Forbidden) {
			return nil, err
		}
		maps.Copy(found, objects)
	}
	all := make([]limit.Node, len(ids))
	for i, nodeID := range ids {
		all[i] = found[nodeID]
	}
	return all, nil
}

// spacesOf returns the caller's memberships of workspaces that the IDs belong to, and the workspace
// of each ID that has one, whether or not the caller is a member.
func (c *Config) spacesOf(
	ctx context.Context, actor account.Actor, ids []string,
) (spaces map[string]workspace.Membership, spaceOf map[string]string, err error) {
	spaceOf = map[string]string{}
	for _, find := range []func(context.Context, ...string) (map[string]string, error){
		c.Workspaces.WorkspacesOf, c.Domains.Rows().WorkspacesOf, c.APIKeys.Rows().WorkspacesOf, c.Links.WorkspacesOf,
		c.Audit.WorkspacesOf, c.Webhooks.Rows().WorkspacesOf, c.Schedule.Changes().WorkspacesOf,
		c.UTMTemplates.Rows().WorkspacesOf, c.Folders.Rows().WorkspacesOf, c.Webhooks.DeliveryRows().WorkspacesOf,
		c.Tasks.WorkspacesOf,
	} {
		found, err := find(ctx, ids...)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(spaceOf, found)
	}
	if !slices.ContainsFunc(ids, func(nodeID string) bool { return id.Valid(id.Click, nodeID) }) {
		spaces, err = c.Workspaces.RequireEach(ctx, actor, slices.Collect(maps.Values(spaceOf))...)
		return spaces, spaceOf, err
	}
	if spaces, err = c.Workspaces.RequireAll(ctx, actor); err != nil {
		return nil, nil, err
	}
	found, err := c.Stats.Clicks.WorkspacesOf(ctx, slices.Collect(maps.Keys(spaces)), ids...)
	maps.Copy(spaceOf, found)
	return spaces, spaceOf, err
}

// ownNodes returns the caller's account and sessions among the ids, by id. An API key has none.
func (c *Config) ownNodes(ctx context.Context, actor account.Actor, ids []string) (map[string]limit.Node, error) {
	found := map[string]limit.Node{}
	if actor.AccountID == "" {
		return found, nil
	}
	if slices.Contains(ids, actor.AccountID) {
		own, err := c.accountOf(ctx, actor.AccountID)
		if err != nil {
			return nil, err
		}
		if own != nil {
			found[own.ID] = own
		}
	}
	sessionIDs := slices.DeleteFunc(slices.Clone(ids),
		func(nodeID string) bool { return !id.Valid(id.Session, nodeID) })
	if len(sessionIDs) == 0 {
		return found, nil
	}
	sessions, err := c.Accounts.SessionsByID(ctx, actor, sessionIDs...)
	for _, s := range sessions {
		found[s.ID] = s
	}
	return found, err
}

// nodesOf returns the nodeLoader of a look-up by ID, which expects the objects' accounts to be
// requested.
func nodesOf[T any](
	load func(ctx context.Context, m workspace.Membership, ids ...string) ([]*T, error), ids identify[*T],
) nodeLoader {
	return func(ctx context.Context, m workspace.Membership, nodeIDs ...string) (map[string]limit.Node, error) {
		objects, err := load(ctx, m, nodeIDs...)
		found := make(map[string]limit.Node, len(objects))
		for _, one := range objects {
			nodeID, _ := ids(one)
			found[nodeID] = one
		}
		expectAccounts(ctx, objects, ids)
		return found, err
	}
}

// mapOf returns a look-up by ID whose result is a map.
func mapOf[T any](
	load func(ctx context.Context, m workspace.Membership, ids ...string) ([]*T, error), ids identify[*T],
) func(ctx context.Context, m workspace.Membership, ids ...string) (map[string]*T, error) {
	return func(ctx context.Context, m workspace.Membership, itemIDs ...string) (map[string]*T, error) {
		objects, err := load(ctx, m, itemIDs...)
		found := make(map[string]*T, len(objects))
		for _, one := range objects {
			itemID, _ := ids(one)
			found[itemID] = one
		}
		return found, err
	}
}

// linkNodes is the nodeLoader of links.
func (c *Config) linkNodes(ctx context.Context, m workspace.Membership, ids ...string) (map[string]limit.Node, error) {
	links, found := &loader.Of(ctx).In(m).Links, make(map[string]limit.Node, len(ids))
	links.Expect(ids)
	for _, linkID := range ids {
		l, err := links.Get(ctx, linkID)
		if err != nil {
			return nil, err
		}
		if l != nil {
			found[linkID] = l
		}
	}
	return found, nil
}

// clickNodes is the nodeLoader of clicks.
func (c *Config) clickNodes(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]limit.Node, error) {
	clicks, err := c.Stats.ByID(ctx, m, ids...)
	found := make(map[string]limit.Node, len(clicks))
	for _, c := range clicks {
		found[c.PublicID()] = clickOf(m, c)
	}
	loader.Expect(&loader.Of(ctx).In(m).Links, clicks, func(c *click.Click) string { return c.LinkID })
	return found, err
}
