package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/cli/manifest"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// doWithRetry is do, again after the time that the server names if it refuses the request for now.
func (c Client) doWithRetry(ctx context.Context, data any, operation string, variables map[string]any) error {
	for attempt := 1; ; attempt++ {
		err := c.Do(ctx, data, operation, variables)
		refused, ok := errors.AsType[*requestError](err)
		if !ok || refused.Extensions.RetryAfter == 0 || attempt == maxAttempts {
			return err
		}
		if err := poll.Wait(ctx, time.Duration(refused.Extensions.RetryAfter)*time.Second); err != nil {
			return err
		}
	}
}

const (
	// maxAttempts is how often a request is sent that the server refuses for now.
	maxAttempts = 20
	// These are numbers of links of a query. A query that is too large for the server is halved.
	linksPerPage     = 100
	routingsPerQuery = 25
	idsPerQuery      = 100
	codesPerQuery    = 50
	versionsPerQuery = 50
	// maxCall and maxCallBytes bound a call that changes links. The server takes 10 MiB by default.
	maxCall      = 1000
	maxCallBytes = 4 << 20
)

// inCalls calls a function with parts of a list of up to most elements, and with smaller ones if
// the server refuses a part as too large.
func inCalls[T any](all []T, most int, call func(part []T) error) error {
	for len(all) > 0 {
		part := all[:min(most, len(all))]
		err := call(part)
		if isTooLarge(err) && len(part) > 1 {
			most = (len(part) + 1) / 2
			continue
		}
		if err != nil {
			return err
		}
		all = all[len(part):]
	}
	return nil
}

// linkReader reads links of a workspace and what their comparison depends on.
type linkReader struct {
	Client
	workspaceID string
	settings    manifest.Settings
	// links are the links that were read, and known has their ids.
	links []*manifest.Existing
	known map[string]bool
}

func (c Client) reader(workspaceID string) *linkReader {
	return &linkReader{Client: c, workspaceID: workspaceID, known: map[string]bool{}}
}

// allStates selects links in any state.
var allStates = []string{"ACTIVE", "SCHEDULED", "EXPIRED", "EXHAUSTED", "DELETED", "DISABLED"}

// read reads the links that a manifest is compared with: those of its owner, with its external ids,
// or with its codes.
func (r *linkReader) read(ctx context.Context, file *manifest.File) error {
	if err := r.readOwned(ctx, file.Owner); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, e := range r.links {
		found[e.ExternalID] = true
	}
	missing := slices.DeleteFunc(file.ExternalIDs(), func(externalID string) bool { return found[externalID] })
	if err := inCalls(missing, idsPerQuery, func(part []string) error {
		return r.readExternalIDs(ctx, part)
	}); err != nil {
		return err
	}
	return inCalls(file.MissingCodes(r.links, r.settings), codesPerQuery,
		func(part []*manifest.Link) error { return r.readCodes(ctx, part) })
}

// readOwned reads the links of an owner, and the settings. Links without a routing are read without
// it.
func (r *linkReader) readOwned(ctx context.Context, owner string) error {
	if err := r.readSettings(ctx); err != nil {
		return err
	}
	for _, hasRouting := range []bool{false, true} {
		selection, fragments, size := manifest.Selection, "", linksPerPage
		if hasRouting {
			selection, fragments, size = selection+
				manifest.RoutingSelection, manifest.RoutingFragments, routingsPerQuery
		}
		links, _, err := readLinks[*manifest.Existing](ctx, r.Client, linkQuery{
			workspaceID: r.workspaceID, selection: selection, fragments: fragments, size: size, limit: math.MaxInt,
			filter: map[string]any{"metadata": map[string]any{"key": "owner", "value": owner}, "status": allStates,
				"hasRouting": hasRouting},
		})
		if err != nil {
			return err
		}
		r.add(links...)
	}
	return nil
}

// add adds links that are not known yet.
func (r *linkReader) add(links ...*manifest.Existing) {
	for _, l := range links {
		if !r.known[l.ID] {
			r.links, r.known[l.ID] = append(r.links, l), true
		}
	}
}

// readSettings reads the settings. Without permission to read domains (at most 100 in a workspace),
// links with codes of their own would look like others, so it returns the server's error.
func (r *linkReader) readSettings(ctx context.Context) error {
	var got struct {
		Workspace *struct {
			DefaultRedirectStatus int
			CaseSensitiveCodes    bool
			Domains               struct {
				Nodes []struct {
					ID            string
					CaseSensitive bool
				}
			}
		}
	}
	err := r.doWithRetry(ctx, &got,
		`query ($w: ID!) { workspace(by: {id: $w}) { defaultRedirectStatus caseSensitiveCodes
		domains(first: 100) { nodes { id caseSensitive } } } }`, map[string]any{"w": r.workspaceID})
	if err == nil && got.Workspace == nil {
		err = fmt.Errorf("there is no workspace %s, or the key is not of it", quoted(r.workspaceID))
	}
	if err != nil {
		return err
	}
	w := got.Workspace
	r.settings = manifest.Settings{
		DefaultRedirectStatus: w.DefaultRedirectStatus, CaseSensitiveCodes: w.CaseSensitiveCodes,
		CaseSensitiveDomains: map[string]bool{},
	}
	for _, d := range w.Domains.Nodes {
		r.settings.CaseSensitiveDomains[d.ID] = d.CaseSensitive
	}
	return nil
}

// readExternalIDs reads the links with external ids.
func (r *linkReader) readExternalIDs(ctx context.Context, externalIDs []string) error {
	var got struct {
		Workspace struct {
			Links struct{ Nodes []struct{ ID string } }
		}
	}
	err := r.doWithRetry(ctx, &got,
		`query ($w: ID!, $ids: [String!]!, $states: [LinkStatus!]!) { workspace(by: {id: $w}) {
		links(first: 100, filter: {externalIds: $ids, status: $states}) { nodes { id } } } }`,
		map[string]any{"w": r.workspaceID, "ids": externalIDs, "states": allStates})
	if err != nil {
		return err
	}
	var ids []string
	for _, n := range got.Workspace.Links.Nodes {
		ids = append(ids, n.ID)
	}
	return r.readIDs(ctx, ids)
}

// readCodes reads the links that have the codes of wanted links.
func (r *linkReader) readCodes(ctx context.Context, wanted []*manifest.Link) error {
	var declared, fields strings.Builder
	variables := map[string]any{"w": r.workspaceID}
	for i, l := range wanted {
		name := fmt.Sprintf("l%d", i)
		if l.CustomCode == nil {
			variables[name] = l.OriginalURL
			fmt.Fprintf(&declared, " $%s: String!", name)
			fmt.Fprintf(&fields, "%s: previewCode(workspaceId: $w, url: $%[1]s) { existing { id } } ", name)
			continue
		}
		variables[name] = map[string]any{"code": map[string]any{"workspaceId": r.workspaceID, "code": l.CustomCode,
			"domainId": l.DomainID}}
		fmt.Fprintf(&declared, " $%s: LinkBy!", name)
		fmt.Fprintf(&fields, "%s: link(by: $%[1]s) { id } ", name)
	}
	got := map[string]*struct {
		ID       string
		Existing *struct{ ID string }
	}{}
	err := r.doWithRetry(ctx, &got, `query ($w: ID!`+declared.String()+`) { w: workspace(by: {id: $w}) { __typename } `+
		fields.String()+`}`, variables)
	var ids []string
	for _, found := range got {
		if found != nil && found.Existing != nil {
			found.ID = found.Existing.ID
		}
		if found != nil && found.ID != "" {
			ids = append(ids, found.ID)
		}
	}
	if err != nil {
		return err
	}
	return r.readIDs(ctx, ids)
}

// readIDs reads links by their ids.
func (r *linkReader) readIDs(ctx context.Context, ids []string) error {
	return inCalls(ids, routingsPerQuery, func(part []string) error {
		var got struct{ Nodes []*manifest.Existing }
		err := r.doWithRetry(ctx, &got, `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link {`+manifest.Selection+
			manifest.RoutingSelection+`} } }`+
			manifest.RoutingFragments, map[string]any{"ids": part})
		r.add(slices.DeleteFunc(got.Nodes, func(e *manifest.Existing) bool { return e == nil })...)
		return err
	})
}

// readLastChanges reads who last changed the links that a plan changes, and when.
func (r *linkReader) readLastChanges(ctx context.Context, plan *manifest.Plan) error {
	changes := slices.DeleteFunc(slices.Clone(plan.Changes), func(c *manifest.Change) bool { return c.ID == "" })
	return inCalls(changes, versionsPerQuery, func(part []*manifest.Change) error {
		var got struct {
			Nodes []*struct {
				Versions struct {
					Nodes []struct {
						From    time.Time
						ActorID *string
						Actor   *struct{ Name string }
					}
				}
			}
		}
		ids := make([]string, 0, len(part))
		for _, c := range part {
			ids = append(ids, c.ID)
		}
		err := r.doWithRetry(ctx, &got,
			`query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link {
				versions(first: 1) { nodes { from actorId actor { name } } } } } }`,
			map[string]any{"ids": ids})
		if err != nil {
			return err
		}
		for i, n := range got.Nodes {
			if n == nil || len(n.Versions.Nodes) == 0 {
				continue
			}
			v := n.Versions.Nodes[0]
			by := optional.Value(v.ActorID) // none without permission to read members
			if v.Actor != nil {
				by = v.Actor.Name
			}
			part[i].LastChange = &manifest.LastChange{At: v.From, By: by}
		}
		return nil
	})
}

// applyRun is a run of `links apply`.
type applyRun struct {
	Client
	workspaceID string
	out         io.Writer
	// operations are the ids of the calls that have changed links, oldest first.
	operations []string
}

// apply makes the changes, in an order that leads there from wherever it is interrupted. Links that
// are replaced lose their external ids first, so that the new ones get them, and are deleted last,
// unless a new one has taken over their code.
func (a *applyRun) apply(ctx context.Context, plan *manifest.Plan) error {
	var before, upserts []map[string]any
	var deletions []string
	for _, c := range plan.Changes {
		if c.Action != manifest.Delete {
			upserts = append(upserts, c.Input)
		}
		if c.Action == manifest.Delete || c.Action == manifest.Replace {
			deletions = append(deletions, c.ID)
		}
		before = append(before, c.Before...)
	}
	if _, err := changeLinks(ctx, a, "updateLinks", "links", before); err != nil {
		return err
	}
	upserted, err := changeLinks(ctx, a, "upsertLinks", "links", upserts)
	if err != nil {
		return err
	}
	deletions = slices.DeleteFunc(deletions, func(linkID string) bool { return upserted[linkID] })
	_, err = changeLinks(ctx, a, "deleteLinks", "ids", deletions)
	return err
}

// changedLinks is the payload of a mutation that changes links.
type changedLinks struct {
	Results []struct {
		Link   *struct{ ID string }
		Errors UserErrors
	}
	OperationID *string
}

// changeLinks runs a mutation for all elements of a field of its input, in several calls if
// necessary, and returns the ids of the links. A call with an error changes nothing; those before it stay.
func changeLinks[T any](ctx context.Context, a *applyRun, mutation, field string, all []T) (map[string]bool, error) {
	ids := map[string]bool{}
	err := inCalls(all, maxCall, func(part []T) error {
		text, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if len(text) > maxCallBytes && len(part) > 1 {
			return errTooLarge
		}
		got, err := mutate[changedLinks](ctx, a.Client, mutation, map[string]any{"workspaceId": a.workspaceID,
			field: json.RawMessage(text), "onError": "ALL_OR_NOTHING"},
			"results { link { id } errors { code message field } } operationId")
		if err != nil {
			return err
		}
		var failed []error
		rolledBack := map[string]error{}
		for i, r := range got.Results {
			if r.Link != nil {
				ids[r.Link.ID] = true
			}
			switch err := r.Errors.First(); {
			case err == nil:
			case r.Errors[0].Code == "CONFLICT": // also of all other links of a call that fails
				rolledBack[r.Errors[0].Message] = fmt.Errorf("%s: %w", nameOf(part[i]), err)
			default:
				failed = append(failed, fmt.Errorf("%s: %w", nameOf(part[i]), err))
			}
		}
		if err := errors.Join(failed...); err != nil {
			return err
		}
		if len(rolledBack) > 0 {
			return errors.Join(slices.Collect(maps.Values(rolledBack))...)
		}
		if got.OperationID != nil {
			a.operations = append(a.operations, *got.OperationID)
			fmt.Fprintf(a.out, "%s: %d links, operation %s\n", mutation, len(part), *got.OperationID)
		}
		return nil
	})
	return ids, err
}

// nameOf returns the external id or the id of a link in the input of a mutation.
func nameOf(input any) string {
	if fields, ok := input.(map[string]any); ok {
		return quoted(fmt.Sprint(cmp.Or(fields["externalId"], fields["id"])))
	}
	return fmt.Sprint(input)
}

// printUndo prints how to undo the run. A link that two calls have changed goes back as far as the
// newest one.
func (a *applyRun) printUndo() {
	if len(a.operations) == 0 {
		return
	}
	fmt.Fprintln(a.out, "undo the run with linkforge links undo OPERATION, or with these calls, in this order:")
	for _, operationID := range slices.Backward(a.operations) {
		fmt.Fprintf(a.out, "  mutation { revertOperation(input: {workspaceId: %q, operationId: %q}) { remaining "+
			"errors { message } } }\n",
			a.workspaceID, operationID)
	}
}
