package linklist

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// This file has the SQL that differs between PostgreSQL and SQLite.

// textLookup selects the IDs of links that contain all the words that the text index can find,
// perhaps including links of other workspaces. It returns nil if the index can find none of them.
func (s *Store) textLookup(workspaceID string, words []string) *bun.SelectQuery {
	if s.DB.Kind == db.Postgres {
		return s.trigramLookup(workspaceID, words)
	}
	return s.ftsLookup(words)
}

// stopsAtLimit reports whether a text lookup reads no more than its limit. PostgreSQL reads all
// entries of the index first.
func (s *Store) stopsAtLimit() bool { return s.DB.Kind == db.SQLite }

// trigramLookup uses the words that have three letters or digits in a row: pg_trgm cannot find
// others, and would read the whole index
// (https://www.postgresql.org/docs/current/pgtrgm.html#id-1.11.7.44.8).
func (s *Store) trigramLookup(workspaceID string, words []string) *bun.SelectQuery {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !hasTrigram(word) })
	if len(words) == 0 {
		return nil
	}
	// Without an order: PostgreSQL estimates the number of rows badly, because it uses no statistics
	// on rows that a policy guards, and would sort them all.
	q := s.DB.NewSelect().Table("links").Column("id").
		Where("workspace_id = ?", workspaceID).Where("purged_at IS NULL")
	for _, word := range words {
		q = q.Where("search LIKE ?", "%"+likeEscaper.Replace(word)+"%")
	}
	return q
}

// likeEscaper escapes the special characters of LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func hasTrigram(word string) bool {
	run := 0
	for _, r := range word {
		run++
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			run = 0
		}
		if run == 3 {
			return true
		}
	}
	return false
}

// ftsLookup uses the words of at least three characters, each quoted so that it has no special
// characters (https://www.sqlite.org/fts5.html#the_trigram_tokenizer).
func (s *Store) ftsLookup(words []string) *bun.SelectQuery {
	var quoted []string
	for _, word := range words {
		if utf8.RuneCountInString(word) >= 3 {
			quoted = append(quoted, `"`+strings.ReplaceAll(word, `"`, `""`)+`"`)
		}
	}
	if len(quoted) == 0 {
		return nil
	}
	return s.DB.NewSelect().TableExpr("link_search").ColumnExpr("n.link_id").
		Join("JOIN link_numbers AS n ON n.number = link_search.rowid").
		Where("link_search MATCH ?", strings.Join(quoted, " "))
}
