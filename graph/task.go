package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/archive"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/parity"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *workspaceResolver) Tasks(
	ctx context.Context, m *workspace.Membership, first *int, after *string, filter *task.Filter,
) (*gen.TaskConnection, error) {
	load := func(ctx context.Context, m workspace.Membership, request page.Request) (page.Page[*task.Task], error) {
		return r.Config.Tasks.List(ctx, m, optional.Value(filter), request)
	}
	return list(ctx, *m, newest, id.Task, first, after, load, taskIDs)
}

func taskIDs(t *task.Task) (taskID, accountID string) { return t.ID, t.ActorID }

func (r *mutationResolver) CancelTask(ctx context.Context, in gen.CancelTaskInput) (*gen.CancelTaskPayload, error) {
	t, err := forItem(ctx, &r.Config, in.ID, r.Tasks.WorkspaceOf, r.Tasks.Cancel)
	return &gen.CancelTaskPayload{Task: t}, err
}

func (r *taskResolver) CreatedBy(ctx context.Context, t *task.Task) (*account.Account, error) {
	return visibleAccount(ctx, t.In, t.ActorID)
}

func (r *taskResolver) Failure(_ context.Context, t *task.Task) (*gen.UserError, error) {
	e := t.Failure()
	if e == nil {
		return nil, nil
	}
	code := gen.ErrorCode(e.Kind.Code())
	if !code.IsValid() {
		code = gen.ErrorCodeUnavailable
	}
	return &gen.UserError{Code: code, Message: e.Public(), Field: e.Field}, nil
}

// Report returns the result of a task.
func (r *taskResolver) Report(_ context.Context, t *task.Task) (limit.TaskReport, error) {
	switch t.Kind {
	case task.ParityCheck:
		return reportOr(parity.ReportOf(t))
	case task.WorkspaceExport:
		return reportOr(archive.ReportOf(t))
	}
	return reportOr(importer.ReportOf(t))
}

// reportOr returns a report, or nil: a nil pointer in the interface would not be null.
func reportOr[R any](report *R, err error) (limit.TaskReport, error) {
	if report == nil || err != nil {
		return nil, err
	}
	return report, nil
}

func (r *mutationResolver) ExportWorkspace(
	ctx context.Context, in gen.ExportWorkspaceInput,
) (*gen.ExportWorkspacePayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	t, err := r.Archives.Create(ctx, m, archive.Settings{Sections: in.Sections, Clicks: optional.Value(in.ClickRange)})
	return &gen.ExportWorkspacePayload{Task: t}, err
}

func (r *workspaceArchiveResolver) URL(ctx context.Context, report *archive.Report) (*string, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	return r.Archives.SignDownload(report, actor.SessionID)
}

func (r *mutationResolver) CheckParity(ctx context.Context, in gen.CheckParityInput) (*gen.CheckParityPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if in.Sample != nil && *in.Sample < 1 {
		return nil, errs.New(errs.InvalidInput, "sample must be at least 1.").At("sample")
	}
	t, err := r.Parity.Create(ctx, m,
		parity.Settings{ImportID: optional.Value(in.ImportID), Sample: optional.Value(in.Sample)})
	return &gen.CheckParityPayload{Task: t}, err
}

func (r *parityReportResolver) Differences(
	ctx context.Context, report *parity.Report, first *int, after *string, verdicts []parity.Verdict,
) (*gen.ParityDifferenceConnection, error) {
	load := func(ctx context.Context, t *task.Task, request page.Request) (page.Page[*parity.Row], error) {
		return r.Parity.Rows(ctx, t, verdicts, request)
	}
	p, err := list(ctx, report.Task, task.RowOrder, "", first, after, load, nil)
	loader.Expect(&loader.Of(ctx).In(report.In).Links, p.Items, func(row *parity.Row) string { return row.LinkID })
	return p, err
}

func (r *parityDifferenceResolver) Link(ctx context.Context, row *parity.Row) (*link.Link, error) {
	return loader.Of(ctx).In(row.In).Links.Get(ctx, row.LinkID)
}

func (r *mutationResolver) CreateImport(
	ctx context.Context, in gen.CreateImportInput,
) (*gen.CreateImportPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	settings := importer.Settings{
		Source: in.Source, Label: optional.Value(in.Label), DryRun: optional.Or(in.DryRun, true),
		OnConflict: optional.Or(in.OnConflict, importer.Skip), FolderID: in.FolderID, Tags: in.Tags,
	}
	for _, h := range in.Hosts {
		settings.Hosts = append(settings.Hosts, *h)
	}
	if in.API != nil {
		settings.API = &importer.API{
			BaseURL: optional.Value(in.API.BaseURL), Account: optional.Value(in.API.Account), Token: in.API.Token,
			ClickTotals: optional.Or(in.ClickTotals, true),
		}
	}
	t, err := r.Imports.Create(ctx, m, settings)
	if err != nil || in.API != nil {
		return &gen.CreateImportPayload{Task: t}, err
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	url, until, err := r.Imports.SignUpload(t, actor.SessionID)
	return &gen.CreateImportPayload{Task: t, UploadURL: &url, UploadExpiresAt: &until}, err
}

func (r *mutationResolver) ApplyImport(ctx context.Context, in gen.ApplyImportInput) (*gen.ApplyImportPayload, error) {
	t, err := forItem(ctx, &r.Config, in.TaskID, r.Tasks.WorkspaceOf, r.Imports.Apply)
	if err != nil {
		return nil, errs.From(err).At("taskId")
	}
	return &gen.ApplyImportPayload{Task: t}, nil
}

func (r *importReportResolver) Rows(
	ctx context.Context, report *importer.Report, first *int, after *string, outcomes []importer.Outcome,
	lossesOnly *bool,
) (*gen.ImportRowConnection, error) {
	filter := importer.RowFilter{Outcomes: outcomes, LossesOnly: optional.Value(lossesOnly)}
	load := func(ctx context.Context, t *task.Task, request page.Request) (page.Page[*importer.Row], error) {
		return r.Imports.Rows(ctx, t, filter, request)
	}
	p, err := list(ctx, report.Task, task.RowOrder, "", first, after, load, nil)
	loader.Expect(&loader.Of(ctx).In(report.In).Links, p.Items,
		func(row *importer.Row) string { return optional.Value(row.LinkID) })
	return p, err
}

func (r *importHostResolver) Domain(ctx context.Context, h *importer.HostCount) (*domain.Domain, error) {
	return loader.Of(ctx).In(h.In).Domains.Get(ctx, optional.Value(h.DomainID))
}

func (r *importRowResolver) SourceURL(_ context.Context, row *importer.Row) (*string, error) {
	return optional.Of(row.SourceURL), nil
}

func (r *importRowResolver) Link(ctx context.Context, row *importer.Row) (*link.Link, error) {
	return loader.Of(ctx).In(row.In).Links.Get(ctx, optional.Value(row.LinkID))
}

func (r *importRowResolver) Errors(_ context.Context, row *importer.Row) ([]*gen.UserError, error) {
	if e := row.Failure(); e != nil {
		return userErrors(e, "")
	}
	return userErrors(nil, "")
}

func (r *importLossResolver) Value(_ context.Context, l *importsource.Loss) (*string, error) {
	return optional.Of(l.Value), nil
}

func (r *importLossResolver) Form(_ context.Context, l *importsource.Loss) (*string, error) {
	return optional.Of(l.Form), nil
}

func (r *linkResolver) Origins(ctx context.Context, l *link.Link) ([]*importer.Origin, error) {
	return notNull(loader.Of(ctx).In(l.In).Origins.Get(ctx, l.ID))
}
