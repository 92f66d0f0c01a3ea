package graph

import (
	"context"
	"reflect"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *linkResolver) Clicks(
	ctx context.Context, l *link.Link, first *int, after *string, span *clickstore.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, l.In, clickstore.Subject{LinkID: l.ID}, first, after, span, filter)
}

func (r *workspaceResolver) Clicks(
	ctx context.Context, m *workspace.Membership, first *int, after *string, span *clickstore.Range,
	filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, *m, clickstore.Subject{}, first, after, span, filter)
}

func (c *Config) clickPage(
	ctx context.Context, m workspace.Membership, of clickstore.Subject, first *int, after *string,
	span *clickstore.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	load := func(ctx context.Context, m workspace.Membership, request page.Request) (page.Page[*gen.Click], error) {
		p, err := c.Stats.List(ctx, m, of, span, filterOf(filter), request)
		return page.Map(p, func(one *click.Click) *gen.Click { return clickOf(m, one) }), err
	}
	_, err := stats.CheckList(span, filterOf(filter))
	p, err := list(ctx, m, newest, id.Click, first, after, load,
		func(c *gen.Click) (string, string) { return c.ID, "" }, err)
	loader.Expect(&loader.Of(ctx).In(m).Links, p.Items, func(c *gen.Click) string { return c.LinkID })
	return p, err
}

func clickOf(m workspace.Membership, c *click.Click) *gen.Click {
	out := &gen.Click{ID: c.PublicID(), LinkID: c.LinkID, In: m, At: c.ClickedAt, Status: c.Status, Bot: c.Bot}
	for i, d := range click.VisitDimensions {
		*textField(out, clickFields[i]) = optional.Of(*d.Text(c))
	}
	return out
}

// filterOf returns the filter of clicks; null selects all.
func filterOf(in *gen.ClickFilter) clickstore.Filter {
	if in == nil {
		return clickstore.Filter{}
	}
	f := clickstore.Filter{Bots: in.Bots, Values: map[click.Dimension]string{}}
	if in.Status != nil {
		f.Values[click.Status] = strconv.Itoa(*in.Status)
	}
	for i, d := range click.VisitDimensions {
		if value := *textField(in, filterFields[i]); value != nil {
			f.Values[d.Name] = *value
		}
	}
	return f
}

// The indexes of the generated fields of click.VisitDimensions.
var (
	clickFields  = visitFields(reflect.TypeFor[gen.Click](), (*click.Definition).FieldName)
	filterFields = visitFields(reflect.TypeFor[gen.ClickFilter](), (*click.Definition).FilterName)
)

// visitFields panics if the schema lacks a dimension, so no process starts without it.
func visitFields(t reflect.Type, nameOf func(*click.Definition) string) (indexes []int) {
	for _, d := range click.VisitDimensions {
		field, ok := t.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, nameOf(d)) })
		if !ok {
			panic("graph: " + t.Name() + " has no field for the dimension " + string(d.Name))
		}
		indexes = append(indexes, field.Index[0])
	}
	return indexes
}

// textField returns a field of a struct that a pointer points to.
func textField(to any, index int) **string {
	return reflect.ValueOf(to).Elem().Field(index).Addr().Interface().(**string)
}

func (r *clickResolver) Link(ctx context.Context, c *gen.Click) (*link.Link, error) {
	return loader.Of(ctx).In(c.In).Links.Get(ctx, c.LinkID)
}

func (r *mutationResolver) ExportClicks(
	ctx context.Context, in gen.ExportClicksInput,
) (*gen.ExportClicksPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	format := optional.Or(in.Format, stats.CSV)
	var bothErr error
	if in.FolderID != nil && in.LinkID != nil {
		bothErr = errs.New(errs.InvalidInput, "Name a folder or a link, not both.").At("folderId")
	}
	of := clickstore.Subject{LinkID: optional.Value(in.LinkID)}
	if of.Links, err = r.LinkList.Selected(m, nil, in.FolderID); err != nil {
		return nil, err
	}
	s, err := r.Stats.Stats(ctx, m, of, in.Range, "", filterOf(in.Filter))
	err = errs.All(bothErr, err, stats.CheckBOM(format, optional.Value(in.Bom)))
	if err != nil {
		return nil, err
	}
	if in.LinkID != nil {
		if err := r.isLinkOf(ctx, m, *in.LinkID); err != nil {
			return nil, err
		}
	}
	if in.FolderID != nil {
		folders := r.Folders.Rows()
		folders.Permission = workspace.ReadStats
		if _, err := folders.Get(ctx, m, *in.FolderID); err != nil {
			return nil, errs.From(err).At("folderId")
		}
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	url, until, err := r.Exports.SignExport(s, in.FolderID, format, optional.Value(in.Bom), actor.SessionID)
	return &gen.ExportClicksPayload{URL: &url, ExpiresAt: &until}, err
}
