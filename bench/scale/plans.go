package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statement is one that Linkforge asks, as internal/link has it, in the role that it asks in.
type statement struct{ title, role, text string }

// statements are those whose rows are found among all links.
func (s *stand) statements() []statement {
	workspace := "workspace_id = '" + s.workspaceID(0) + "'"
	page := `SELECT * FROM links WHERE ` + workspace + ` AND purged_at IS NULL AND (deleted_at IS NULL OR disabled_at IS NOT NULL)`
	index := `SELECT id FROM links WHERE ` + workspace + ` AND purged_at IS NULL AND search LIKE '%%%s%%' LIMIT 5001`
	one := s.linkOf(0, s.size(0)/2)
	return []statement{
		{"a redirect that is not in memory", "linkforge_resolver", "SELECT * FROM links WHERE root_code = '" + codeOf(one) + "'"},
		{"a known URL", "linkforge_tenant", fmt.Sprintf(`SELECT * FROM links WHERE %s AND purged_at IS NULL AND strategy = 'DETERMINISTIC'
			AND canonical_hash = '\x%x'`, workspace, sha256.Sum256([]byte(urlOf(one))))},
		{"a page", "linkforge_tenant", page + " ORDER BY id DESC LIMIT 21"},
		{"search, a word", "linkforge_resolver", fmt.Sprintf(index, rareWord)},
		{"search, 8 digits", "linkforge_resolver", fmt.Sprintf(index, fmt.Sprintf("%08d", serial(one)))},
	}
}

// tellPlans prints how PostgreSQL goes about each of them, the second time it is asked.
func (s *stand) tellPlans(ctx context.Context, w io.Writer) error {
	for _, q := range s.statements() {
		plan, err := s.explain(ctx, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.title, err)
		}
		fmt.Fprintf(w, "\n-- %s, %s\n%s\n", q.title, s.title(), plan)
	}
	return nil
}

func (s *stand) explain(ctx context.Context, q statement) (plan string, err error) {
	if _, err := s.conn.Exec(ctx, "SELECT set_config('role', $1, false), set_config('linkforge.workspace', $2, false)", q.role, s.workspaceID(0)); err != nil {
		return "", err
	}
	defer func() {
		_, reset := s.conn.Exec(ctx, "RESET ROLE")
		err = errors.Join(err, reset)
	}()
	var lines []string
	for range 2 {
		rows, err := s.conn.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+q.text)
		if err != nil {
			return "", err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return "", err
		}
	}
	return strings.Join(lines, "\n"), nil
}
