package errs

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	gql "github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// declared are the kinds that errs.go declares, by name; their values count up from zero.
func declared(t *testing.T) (names []string) {
	t.Helper()
	file := must.Value(parser.ParseFile(token.NewFileSet(), "errs.go", nil, 0))(t)
	for _, d := range file.Decls {
		constants, ok := d.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func TestKind_HasStatusAndCode(t *testing.T) {
	t.Parallel()
	names := declared(t)
	if last := len(names) - 1; names[0] != "Internal" || names[last] != "Unavailable" || Unavailable != Kind(last) ||
		len(responses) != len(names) {
		t.Fatalf("%d responses, Unavailable is %d, for %v", len(responses), Unavailable, names)
	}
	form, seen := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`), map[string]bool{}
	for k, name := range names {
		kind := Kind(k)
		if code := kind.Code(); !form.MatchString(code) || seen[code] {
			t.Errorf("%s: the code %q is no code, or another kind's", name, code)
		}
		seen[kind.Code()] = true
		if kind.Status() < 400 || http.StatusText(kind.Status()) == "" {
			t.Errorf("%s: status %d", name, kind.Status())
		}
		if kind.String() != kind.Code() {
			t.Errorf("%s reads %s", kind.Code(), kind)
		}
	}
}

func TestKind_IsDocumentedInSchema(t *testing.T) {
	t.Parallel()
	schema := must.Value(gqlparser.LoadSchema(&gql.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	var want, got []string
	for kind := range responses {
		if kind.IsUserError() {
			want = append(want, kind.Code())
		}
	}
	want = append(want, Forbidden.Code(), Unavailable.Code()) // of tasks
	for _, value := range schema.Types["ErrorCode"].EnumValues {
		got = append(got, value.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	wanttest.Equal(t, want, got, "enum ErrorCode")
}

func TestFrom_FindsWrappedError(t *testing.T) {
	t.Parallel()
	e := New(SlugTaken, "The slug %q is taken.", "promo").At("slug")
	for name, err := range map[string]error{
		"bare":       e,
		"wrapped":    fmt.Errorf("keeping: %w", e),
		"twice":      fmt.Errorf("creating: %w", fmt.Errorf("keeping: %w", e)),
		"joined":     errors.Join(context.Canceled, e),
		"as a cause": fmt.Errorf("creating: %w", errors.Join(e)),
	} {
		if From(err) != e || !Is(err, SlugTaken) || Is(err, NotFound) || Is(err, Internal) {
			t.Errorf("%s: %+v", name, From(err))
		}
	}
	outer := New(Unavailable, "").Because(e)
	if From(fmt.Errorf("asking: %w", outer)) != outer || Is(outer, SlugTaken) || !errors.Is(outer, e) {
		t.Error("an error's own kind does not hide its cause's")
	}
}

func TestAll_CollectsUserErrors(t *testing.T) {
	t.Parallel()
	title, tag := New(InvalidInput, "Too long.").At("title"), New(InvalidInput, "Empty.").At("1")
	internal := errors.New("connection refused")
	if err := All(nil, Under(nil, "tags"), At(nil, "tags")); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := All(title, internal, tag); err != internal {
		t.Errorf("an internal error became %v", err)
	}
	one := New(InvalidURL, "No URL.").At("url")
	err := Under(All(nil, one, fmt.Errorf("checking: %w", All(nil, title, Under(All(tag), "tags")))), "link")
	var fields []string
	for _, e := range From(err).Each() {
		fields = append(fields, e.Kind.Code()+" "+strings.Join(e.Field, "."))
	}
	wanttest.Equal(t, []string{"INVALID_URL link.url", "INVALID_INPUT link.title", "INVALID_INPUT link.tags.1"}, fields,
		"errors")
	if err := All(New(NotFound, "No folder."), title); len(From(err).Each()) != 1 || From(err) != title {
		t.Errorf("with one that is about a look-up: %v", err)
	}
	for range 3 * Most {
		err = All(err, New(InvalidInput, "Another."))
	}
	if n := len(From(err).Each()); n != Most {
		t.Errorf("%d errors, want at most %d", n, Most)
	}
}

func TestFrom_TreatsOtherErrorsAsInternal(t *testing.T) {
	t.Parallel()
	plain := errors.New("connection refused by 10.0.0.7")
	for _, err := range []error{plain, fmt.Errorf("asking: %w", plain), context.Canceled} {
		if e := From(err); e.Kind != Internal || !Is(err, Internal) || !errors.Is(e, err) {
			t.Errorf("%v became %+v", err, e)
		}
	}
	for kind := range responses {
		if Is(nil, kind) {
			t.Errorf("nothing is of kind %s", kind)
		}
	}
}

func TestError_HidesCauseFromCaller(t *testing.T) {
	t.Parallel()
	cause := errors.New("password for 10.0.0.7 is hunter2")
	for kind := range responses {
		message := "A sentence."
		want := message
		if kind == Internal { // its text was not written for users
			want = "Internal server error. Try again in a moment."
		}
		e := New(kind, "%s", message).Because(cause)
		if got := e.Public(); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if got := e.Error(); got != "A sentence.: "+cause.Error() {
			t.Errorf("%s: the log reads %q", kind, got)
		}
	}
	for _, e := range []*Error{From(cause), New(Internal, "").Because(cause), New(Unavailable, "").Because(cause)} {
		if got := e.Public(); got == "" || strings.Contains(got, "hunter2") || e.Error() != cause.Error() {
			t.Errorf("%s: got public message %q, error %q", e.Kind, got, e)
		}
	}
}

// TestKind_IsDocumentedInGuide compares the tables of docs/guide/graphql-api.md with the kinds.
func TestKind_IsDocumentedInGuide(t *testing.T) {
	t.Parallel()
	guide := must.Value(os.ReadFile("../../../docs/guide/graphql-api.md"))(t)
	_, tables, _ := strings.Cut(string(guide), "\n## Error codes\n")
	userErrors, requestErrors, _ := strings.Cut(tables, "\nRequest errors:\n")
	for kind := range responses {
		table, row := requestErrors, fmt.Sprintf("\n| `%s` | %d | ", kind.Code(), kind.Status())
		if kind.IsUserError() {
			table = userErrors
		}
		if !strings.Contains(table, row) {
			t.Errorf("no row %q", row)
		}
	}
	if got := strings.Count(tables, "\n| `"); got != len(responses) {
		t.Errorf("%d rows for %d kinds", got, len(responses))
	}
}
