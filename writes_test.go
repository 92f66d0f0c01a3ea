package linkforge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// linkWriters are the functions that update links: all else goes through them.
var linkWriters = []string{"link.AssignRootCodes", "link.FoldCodes", "link.releaseExternalIDs", "link.write",
	"upkeep.setMachine"}

var (
	linksTag   = regexp.MustCompile(`\btable:links\b`)
	linksTable = regexp.MustCompile("^[\"`]links\\b")
	updateText = regexp.MustCompile(`(?i)\bupdate\s+(only\s+)?"?links\b`)
)

// TestLinks_HaveOneWritePath reads the code for statements that update links.
func TestLinks_HaveOneWritePath(t *testing.T) {
	t.Parallel()
	writers := map[string]bool{}
	for _, files := range parsePackages(t, "internal", "server", "graph") {
		rows := linkRows(files)
		for _, file := range files {
			for _, d := range file.Decls {
				if writesLinks(d, rows) {
					name := "a declaration"
					if f, ok := d.(*ast.FuncDecl); ok {
						name = f.Name.Name
					}
					writers[file.Name.Name+"."+name] = true
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(writers)); !slices.Equal(got, linkWriters) {
		t.Errorf("links are updated by\n%v, and may be by\n%v", got, linkWriters)
	}
}

// TestWritesLinks_FindsStatements checks the check.
func TestWritesLinks_FindsStatements(t *testing.T) {
	t.Parallel()
	const types = "package p\ntype Link struct { M bun.BaseModel `bun:\"table:links\"` }\n" +
		"type found struct { Link `bun:\",extend\"` }\ntype Other struct{}\n"
	for body, want := range map[string]bool{
		`tx.NewUpdate().Model((*Link)(nil)).Set("a = 1")`:             true,
		`tx.NewUpdate().Model(l).Column("a")`:                         true,
		`tx.NewUpdate().Model(&found{}).WherePK()`:                    true,
		`tx.NewUpdate().Table("links").Set("a = 1")`:                  true,
		`tx.NewUpdate().TableExpr("links AS l")`:                      true,
		`q := tx.NewUpdate(); q.Model((*Link)(nil))`:                  true,
		"tx.NewRaw(`UPDATE links SET a = 1`)":                         true,
		"tx.Exec(`WITH x AS (SELECT 1) update\n\t\"links\" SET a`)":   true,
		`tx.NewInsert().Model(&Link{}).On("CONFLICT (id) DO UPDATE")`: true,
		`tx.NewUpdate().Model((*Other)(nil)).Set("a = 1")`:            false,
		`tx.NewUpdate().Table("link_tags").Set("a = 1")`:              false,
		`tx.NewRaw("UPDATE link_usage SET links = 1")`:                false,
		`tx.NewSelect().Model((*Link)(nil))`:                          false,
		`tx.NewDelete().Model(l)`:                                     false,
	} {
		t.Run(body, func(t *testing.T) {
			file := must.Value(parser.ParseFile(token.NewFileSet(), "p.go", types+"func f() { "+body+" }", 0))(t)
			if got := writesLinks(file.Decls[len(file.Decls)-1], linkRows([]*ast.File{file})); got != want {
				t.Errorf("%t", got)
			}
		})
	}
}

// parsePackages parses the Go files below the directories, without tests and their helper packages, by their directory.
func parsePackages(t *testing.T, dirs ...string) map[string][]*ast.File {
	t.Helper()
	files := map[string][]*ast.File{}
	for _, dir := range dirs {
		must.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
			return err
		}))
	}
	return files
}

// linkRows are the types of a package that are rows of links: by their tag, or because they embed
// one. The package's other types are in the map too, with false.
func linkRows(files []*ast.File) map[string]bool {
	rows := map[string]bool{}
	for range 3 { // embedded types may be declared later
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				is := rows[spec.Name.Name]
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						is = is || field.Tag != nil && linksTag.MatchString(field.Tag.Value)
						is = is || len(field.Names) == 0 && isLinkRow(field.Type, rows)
					}
				}
				rows[spec.Name.Name] = is
				return true
			})
		}
	}
	return rows
}

// isLinkRow reports whether an expression names a row of links: (*Link)(nil), &Link{}, link.Link.
func isLinkRow(e ast.Expr, rows map[string]bool) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			is = is || ok && x.Name == "link" && n.Sel.Name == "Link"
		case *ast.Ident:
			is = is || rows[n.Name]
		}
		return true
	})
	return is
}

// writesLinks reports whether a declaration updates links. In a package that has a row of links, a
// variable as the model of an update counts as one.
func writesLinks(d ast.Decl, rows map[string]bool) (writes bool) {
	hasRows := slices.Contains(slices.Collect(maps.Values(rows)), true)
	updates, upserts := calls(d, "NewUpdate"), calls(d, "On")
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			writes = writes || n.Kind == token.STRING && updateText.MatchString(n.Value)
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !updates && !upserts || len(n.Args) == 0 {
				return true
			}
			switch s.Sel.Name {
			case "Model":
				typed := reflect.TypeOf(n.Args[0]) != reflect.TypeFor[*ast.Ident]()
				writes = writes || isLinkRow(n.Args[0], rows) || hasRows && updates && !typed
			case "Table", "TableExpr", "ModelTableExpr":
				lit, ok := n.Args[0].(*ast.BasicLit)
				writes = writes || ok && linksTable.MatchString(lit.Value)
			}
		}
		return true
	})
	return writes
}

// calls reports whether a declaration calls a method of the name.
func calls(d ast.Decl, name string) (found bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			found = true
		}
		return true
	})
	return found
}
