package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// wrong is an invalid value of an input field, and where its errors are below the field: in the field
// itself if nowhere else.
type wrong struct {
	value any
	at    []string
}

func just(value any) wrong { return wrong{value: value} }

func line(n int) wrong { return just(strings.Repeat("x", n)) }

// elements is a list with errors at indexes.
func elements(list []any, at ...string) wrong { return wrong{list, at} }

var reversed = just(map[string]any{"from": "2025-01-02T00:00:00Z", "to": "2025-01-01T00:00:00Z"})

// wrongFields has an invalid value of each input field that can have one: by its type and name, by its
// type, or by its name.
var wrongFields = map[string]wrong{
	"url": just("ftp://x"), "customCode": just("a b"), "title": line(300), "note": line(3000), "name": line(300),
	"tags": elements([]any{line(60).value, line(70).value}, "0", "1"), "startsAt": just("2020-02-01T00:00:00Z"),
	"expiresAt": just("2020-01-01T00:00:00Z"), "maxClicks": just(0), "redirectStatus": just(200),
	"idempotencyKey": line(300), "externalId": line(300), "pendingUrl": just("ftp://x"),
	"endedUrl": just("ftp://x"), "notFoundUrl": just("ftp://x"), "rootUrl": just("ftp://x"),
	"faviconUrl": just("ftp://x"), "appleAppSiteAssociation": just("{"), "assetLinks": just("["),
	"email": just("nobody"), "newPassword": just("short"),
	"slug": just("No Slug"), "host": just("a/b"), "label": line(300), "details": line(5000),
	"linksPerDay": just(0), "requestsPerMinute": just(0),
	"destinationHosts": elements([]any{"a/b", "example.com", "c/d"}, "0", "2"),
	"origins":          elements([]any{"nowhere"}, "0"), "networks": elements([]any{"everywhere"}, "0"),
	"defaultRedirectStatus": just(200), "defaultStrategy": just("CUSTOM"), "sample": just(0),
	"bom": just(true), "overlapSeconds": just(-1),
	"skipBacklog": just(true), "baseUrl": just("nowhere"), "account": just("a b"),
	"key": just("a b"), "value": line(600), "description": line(600), "imageUrl": just("http://example.com/"),
	"imageAlt": line(300), "share": just(-1), "only": elements([]any{line(200).value}, "0"),
	"source": line(200), "medium": line(200), "campaign": line(200), "term": line(200), "content": line(200),
	"location": line(9000), "userAgent": line(600), "acceptLanguage": line(600), "query": line(5000),
	"path": just("x"), "address": just("x"), "targetId": line(200), "notice": line(3000),
	"qrSources": elements([]any{"a b"}, "0"), "timezone": just("nowhere"), "size": just(1), "margin": just(0),
	"foreground": just("x"), "background": just("x"), "logo": just("x"),
	"RegisterInput.password": just("short"), "LinkGateInput.password": just("short"),
	"ScheduleLinkChangeInput.at": just("2020-01-01T00:00:00Z"), "ImportApiInput.token": just("a b"),
	"AddDomainInput.caseSensitive": just(false), "ClickFilter.*": line(400),
	"RoutingTestInput.status":           just(99),
	"UpdateWebhookInput.status":         just("DISABLED"),
	"VisitSampleInput.country":          just("DEU"),
	"VisitSampleInput.referrer":         line(2000),
	"VisitConditionInput.country":       elements([]any{"DEU"}, "0"),
	"VisitConditionInput.device":        elements([]any{"fridge"}, "0"),
	"VisitConditionInput.os":            elements([]any{line(200).value}, "0"),
	"VisitConditionInput.browser":       elements([]any{line(200).value}, "0"),
	"VisitConditionInput.language":      elements([]any{"x"}, "0"),
	"VisitConditionInput.referrer":      elements([]any{"a/b"}, "0"),
	"VisitConditionInput.network":       elements([]any{"everywhere"}, "0"),
	"VisitConditionInput.during":        just(map[string]any{}),
	"WeeklyScheduleInput.days":          just([]any{}),
	"WeeklyScheduleInput.from":          just("25:00"),
	"WeeklyScheduleInput.to":            just("25:00"),
	"QueryForwardingInput.except":       elements([]any{line(200).value}, "", "0"), // besides only
	"CreateWebhookInput.types":          elements([]any{unsent()}, "0"),
	"UpdateWebhookInput.types":          elements([]any{unsent()}, "0"),
	"TestWebhookInput.type":             just(unsent()),
	"CreateApiKeyInput.scopes":          just([]any{}),
	"ReplaceTagsInput.from":             elements([]any{line(60).value, ""}, "0", "1"),
	"ReplaceTagsInput.to":               line(60),
	"RotateApiKeyInput.oldSecretEndsAt": just("2020-01-01T00:00:00Z"),
	"RedeliverWebhookInput.range":       reversed,
	"ExportClicksInput.range":           reversed,
	"ExportWorkspaceInput.clickRange":   reversed,
	"ExportWorkspaceInput.sections":     just([]any{}),
	// arguments of queries
	"first": just(0), "after": just("x"), "before": just("x"), "search": line(300), "prefix": line(300),
	"tag": line(300), "externalIds": elements([]any{line(300).value}, "0"),
	"withoutTags":            elements([]any{line(60).value}, "0"),
	"LinkFilter.createdById": just("x"), "EventFilter.actorId": just("X"), "EventFilter.subjectId": just("X"),
	"LinkFilter.folderIds":  just(slices.Repeat([]any{"x"}, 30)),
	"LinkFilter.domainIds":  just(slices.Repeat([]any{"x"}, 30)),
	"Workspace.stats.range": reversed, "Workspace.clicks.range": reversed, "Link.stats.range": reversed,
	"Link.clicks.range": reversed, "Query.simulateRouting.range": reversed, "Workspace.events.linkId": just("x"),
	"Workspace.events.types": elements([]any{"LINK_CLICKED"}, "0"),
	"Query.resolvedAt.at":    just("2999-01-01T00:00:00Z"), "Link.asOf.at": just("2999-01-01T00:00:00Z"),
}

// rightFields are the fields whose value only the database, an account or another field makes wrong,
// with the value to send; null to omit one. Ids, enums and Booleans without a wrong value are such
// fields, too.
var rightFields = map[string]any{
	"ExportClicksInput.format": "JSON_LINES", "CreateImportInput.source": "YOURLS",
	"UpdateLinkInput.updatedAt": nil, "RevertLinkInput.updatedAt": nil, "RevertLinkInput.version": 1,
	"PeriodInput.from": "2025-01-02T00:00:00Z", "VisitSampleInput.at": nil, "ClickFilter.status": nil,
	"Workspace.links.last": nil, "TimeBounds.from": nil, "TimeBounds.to": nil, "EventFilter.from": nil,
	"EventFilter.to": nil, "Workspace.events.after": nil, // which may have expired
	"Query.resolvedAt.shortUrl": "x",
	"ReportLinkInput.shortUrl":  "x", // what is no short URL is NOT_FOUND, as one without a link
	// credentials
	"RegisterInput.invitationToken": nil, "LoginInput.email": "x", "LoginInput.password": "x",
	"RequestEmailVerificationInput.email": "x", "RequestPasswordResetInput.email": "x",
	"StartSsoInput.redirectUri": "x", "FinishSsoInput.transaction": "x", "FinishSsoInput.code": "x",
	"FinishSsoInput.state": "x", "FinishSsoInput.issuer": nil, "CompleteLoginInput.challenge": "x",
	"RefreshSessionInput.refreshToken": "x", "ChangePasswordInput.currentPassword": "x", "ConfirmTotpInput.code": "x",
	"VerifyEmailInput.token": "x", "ResetPasswordInput.token": "x",
	"ExportMyDataInput.password": nil,
	"ExportMyDataInput.after":    nil, "DeleteMyAccountInput.password": nil, "AcceptInvitationInput.token": "x",
	"ClaimLinksInput.claimTokens": []any{"x"},
}

// unsent is a type of events that webhooks do not receive.
func unsent() string {
	for _, value := range schema.Types["EventType"].EnumValues {
		if !slices.Contains(webhook.Types(), audit.Action(value.Name)) {
			return value.Name
		}
	}
	panic("webhooks receive all types of events")
}

// wrongInput builds inputs with every field wrong.
type wrongInput struct {
	t   *testing.T
	ids map[string]any
	// want are the paths of the wrong fields.
	want []string
}

func (w *wrongInput) object(d *ast.Definition, path string) map[string]any {
	input := map[string]any{}
	for _, f := range d.Fields {
		if value, ok := w.field(d, f, path+f.Name); ok {
			input[f.Name] = value
		}
	}
	return input
}

func (w *wrongInput) field(parent *ast.Definition, f *ast.FieldDefinition, path string) (value any, isSent bool) {
	name, d := parent.Name+"."+f.Name, schema.Types[f.Type.Name()]
	if value, ok := rightFields[name]; ok {
		return value, value != nil
	}
	if value, ok := w.ids[name]; ok {
		return value, true
	}
	one, ok := wrongFields[name]
	isText := d.Kind == ast.Scalar && !slices.Contains([]string{"ID", "Boolean"}, d.Name)
	if !ok && isText {
		if one, ok = wrongFields[parent.Name+".*"]; !ok {
			one, ok = wrongFields[f.Name]
		}
	}
	switch {
	case ok:
		for _, at := range one.at {
			w.want = append(w.want, strings.TrimSuffix(path+"."+at, "."))
		}
		if len(one.at) == 0 {
			w.want = append(w.want, path)
		}
		return one.value, true
	case d.Kind == ast.InputObject && d.Directives.ForName("oneOf") != nil && f.Type.Elem != nil:
		return w.alternatives(d, path), true
	case d.Kind == ast.InputObject && d.Directives.ForName("oneOf") != nil: // proofs, which are compared with accounts
		return map[string]any{d.Fields[0].Name: "x"}, f.Type.NonNull
	case d.Kind == ast.InputObject && f.Type.Elem != nil:
		return []any{w.object(d, path+".0.")}, true
	case d.Kind == ast.InputObject:
		return w.object(d, path+"."), true
	case isText:
		w.t.Errorf("%s has neither a wrong value nor a reason", name)
	case d.Kind == ast.Enum && f.Type.NonNull:
		value = d.EnumValues[0].Name
	case f.Type.NonNull:
		value = cmp.Or(w.ids[name], w.ids[f.Name])
	}
	if f.Type.Elem != nil && value != nil {
		value = []any{value}
	}
	return value, value != nil
}

// alternatives is a list with an element for each alternative of a type.
func (w *wrongInput) alternatives(d *ast.Definition, path string) (list []any) {
	for _, f := range d.Fields {
		if value, ok := w.field(d, f, path+"."+strconv.Itoa(len(list))+"."+f.Name); ok {
			list = append(list, map[string]any{f.Name: value})
		}
	}
	return list
}

// TestUserErrors_NameEveryWrongField sends each mutation an input in which every field is wrong that can
// be without a look at the database: the payload has an error for each, in the order of the schema. A
// new type or field is part of it, or needs a value or a reason.
func TestUserErrors_NameEveryWrongField(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	l := b.create(t, ada.workspace, creation.Input{URL: "https://example.com/"})
	made := func(mutation, object string, input map[string]any) string {
		in := strings.ToUpper(mutation[:1]) + mutation[1:] + "Input!"
		r := b.ask(t, ada.token,
			"mutation ($in: "+in+") { "+mutation+"(input: $in) { "+object+" { id } } }", "in", input)
		var data map[string]map[string]struct{ ID string }
		must.NoError(t, json.Unmarshal(r.Data, &data))
		return data[mutation][object].ID
	}
	of := func(fields ...any) map[string]any {
		input := map[string]any{"workspaceId": ada.workspace.ID(), "name": "A"}
		for i := 0; i < len(fields); i += 2 {
			input[fields[i].(string)] = fields[i+1]
		}
		return input
	}
	hook := made("createWebhook", "webhook", of("url", "https://example.com/", "types", []string{"LINK_CREATED"}))
	host := of("host", "go.example.com")
	delete(host, "name")
	ids := map[string]any{
		"workspaceId": ada.workspace.ID(), "linkId": l.ID, "id": l.ID, "UpdateWorkspaceInput.id": ada.workspace.ID(),
		"UpdateFolderInput.id":      made("createFolder", "folder", of()),
		"UpdateUtmTemplateInput.id": made("createUtmTemplate", "utmTemplate", of("utm", map[string]any{"source": "a"})),
		"UpdateDomainInput.id":      made("addDomain", "domain", host),
		"RotateApiKeyInput.id":      made("createApiKey", "apiKey", of("scopes", []string{"LINKS_READ"})),
		"UpdateWebhookInput.id":     hook, "RotateWebhookSecretInput.id": hook, "TestWebhookInput.id": hook,
		"RedeliverWebhookInput.id": hook,
	}
	for _, f := range schema.Mutation.Fields {
		in := wrongInput{t: t, ids: ids}
		inputType := f.Arguments[0].Type.Name()
		input := in.object(schema.Types[inputType], "")
		if len(in.want) == 0 {
			continue
		}
		got := b.fieldsOf(t, ada.token, f, input)
		if !slices.IsSortedFunc(got, func(a, b string) int {
			return slices.Compare(positionOf(inputType, strings.Split(a, ".")),
				positionOf(inputType, strings.Split(b, ".")))
		}) {
			t.Errorf("%s: the errors have another order than the schema: %v", f.Name, got)
		}
		for _, path := range in.want {
			if !slices.Contains(got, path) {
				t.Errorf("%s: no error for %s", f.Name, path)
			}
		}
		for _, path := range got {
			if !slices.Contains(in.want, path) {
				t.Errorf("%s: an error for %q", f.Name, path)
			}
		}
	}
}

// TestUserErrors_OfAnUnknownObjectAreAlone: fields are checked for callers who may see the object, since
// some checks resolve hosts or read settings.
func TestUserErrors_OfAnUnknownObjectAreAlone(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	for _, f := range schema.Mutation.Fields {
		in := wrongInput{t: t, ids: map[string]any{"id": "x", "linkId": "x", "workspaceId": "x"}}
		d := schema.Types[f.Arguments[0].Type.Name()]
		input := in.object(d, "")
		key := slices.IndexFunc(d.Fields, func(f *ast.FieldDefinition) bool {
			return f.Type.NonNull && slices.Contains([]string{"workspaceId", "id", "linkId"}, f.Name)
		})
		if key < 0 || len(in.want) == 0 {
			continue
		}
		if got := b.fieldsOf(t, ada.token, f, input); !slices.Equal(got, []string{d.Fields[key].Name}) {
			t.Errorf("%s: errors for %v, want %s", f.Name, got, d.Fields[key].Name)
		}
	}
}

// TestErrors_NameEveryWrongArgument is TestUserErrors_NameEveryWrongField for the fields of queries:
// each wrong argument is an error of its own.
func TestErrors_NameEveryWrongArgument(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, dbtest.MigratedSQLite(t))
	ids := map[string]any{"Query.explainRedirect.by": map[string]any{"id": w.ids(t, w.ada.token, "Link")[0]},
		"Query.simulateRouting.by":      map[string]any{"id": w.ids(t, w.ada.token, "Link")[0]},
		"Query.previewCode.workspaceId": w.ada.workspace.ID()}
	checked := 0
	for _, d := range contract(t).Types {
		way := w.way(t, d.Name)
		if d.Name == "Query" {
			way = "query ($w: ID!) { workspace(by: {id: $w}) { id } %s }"
		}
		for _, f := range d.Fields {
			in := wrongInput{t: t, ids: ids}
			arguments := &ast.Definition{Name: d.Name + "." + f.Name}
			for _, a := range f.Arguments {
				arguments.Fields = append(arguments.Fields, &ast.FieldDefinition{Name: a.Name, Type: a.Type})
			}
			if way == "" || len(arguments.Fields) == 0 || strings.HasPrefix(f.Name, "__") {
				continue
			}
			values := in.object(arguments, "")
			if len(in.want) == 0 {
				continue
			}
			checked++
			if got := w.fieldsOfErrors(t, way, f, values); !slices.Equal(got, in.want) {
				t.Errorf("%s: errors for %v, want %v", arguments.Name, got, in.want)
			}
		}
	}
	if checked < 29 {
		t.Errorf("only %d fields have wrong arguments", checked)
	}
}

// fieldsOfErrors requests a field of the object that a way leads to, and returns the fields of the
// errors.
func (w *nodeWorld) fieldsOfErrors(
	t *testing.T, way string, f *ast.FieldDefinition, values map[string]any,
) (fields []string) {
	t.Helper()
	declared, given, variables := "", "", w.variables(t, way)
	for _, a := range f.Arguments {
		if value, ok := values[a.Name]; ok {
			declared += "$of_" + a.Name + ": " + a.Type.String() + ", "
			given += a.Name + ": $of_" + a.Name + ", "
			variables = append(variables, "of_"+a.Name, value)
		}
	}
	field := f.Name + "(" + given + ") { __typename }"
	r := w.ask(t, w.ada.token, fmt.Sprintf(strings.Replace(way, "query (", "query ("+declared, 1), field), variables...)
	var answer struct {
		Errors []struct{ Extensions struct{ Field []string } }
	}
	must.NoError(t, json.Unmarshal([]byte(r.Text), &answer))
	for _, e := range answer.Errors {
		fields = append(fields, strings.Join(e.Extensions.Field, "."))
	}
	return fields
}

// TestUserErrors_ComeBeforeLookUps: what needs the database is checked only if nothing else is wrong.
func TestUserErrors_ComeBeforeLookUps(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	input := map[string]any{"workspaceId": ada.workspace.ID(), "url": "ftp://x", "title": line(300).value,
		"customCode": "a b", "tags": []any{line(60).value, line(60).value}, "folderId": "fld_unknown",
		"domainId": "dom_unknown", "routing": map[string]any{"utm": map[string]any{"templateId": "utm_unknown"}}}
	create := schema.Mutation.Fields.ForName("createLink")
	wanttest.Equal(t, []string{"url", "customCode", "title", "tags.0", "tags.1"},
		b.fieldsOf(t, ada.token, create, input), "fields of errors")
	input["url"], input["title"], input["customCode"], input["tags"] = "https://example.com/", "a", "ab", nil
	wanttest.Equal(t, []string{"routing.utm.templateId"}, b.fieldsOf(t, ada.token, create, input), "then")
	delete(input, "routing")
	wanttest.Equal(t, []string{"domainId"}, b.fieldsOf(t, ada.token, create, input), "then")
}

// fieldsOf returns the fields of the errors of a mutation and of its results.
func (b *bundle) fieldsOf(t *testing.T, token string, f *ast.FieldDefinition, input map[string]any) (fields []string) {
	t.Helper()
	type payload struct {
		Errors []struct {
			Code  string
			Field []string
		}
	}
	const errors = " errors { code field } "
	selection, payloadType := errors, schema.Types[f.Type.Name()]
	if results := payloadType.Fields.ForName("results"); results != nil {
		selection += "results {" + errors + "}"
	}
	r := b.ask(t, token, "mutation ($in: "+f.Arguments[0].Type.String()+") { "+f.Name+"(input: $in) {"+selection+"} }",
		"in", input)
	var data map[string]struct {
		payload
		Results []payload
	}
	if err := json.Unmarshal(r.Data, &data); err != nil || len(r.Errors) > 0 {
		t.Errorf("%s: %.500s", f.Name, r.Text)
		return nil
	}
	for _, e := range data[f.Name].Errors {
		fields = append(fields, strings.Join(e.Field, "."))
	}
	for i, one := range data[f.Name].Results {
		for _, e := range one.Errors {
			fields = append(fields, "links."+strconv.Itoa(i)+"."+strings.Join(e.Field, "."))
		}
	}
	return fields
}
