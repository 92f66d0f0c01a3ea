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

// textLookups select, together, the IDs of links that contain all the words that the text index can
// find, perhaps including links of other workspaces. There are none if the index can find none of
// the words. They must run in this order: a text moves from the queue to the index.
func (s *Store) textLookups(workspaceID string, words []string) []*bun.SelectQuery {
	if s.DB.Kind == db.Postgres {
		return s.trigramLookups(workspaceID, words)
	}
	return s.ftsLookups(words)
}

// stopsAtLimit reports whether a text lookup reads no more than its limit. PostgreSQL reads all
// entries of the index first.
func (s *Store) stopsAtLimit() bool { return s.DB.Kind == db.SQLite }

// trigramLookups use the words that have three letters or digits in a row: pg_trgm cannot find
// others, and would read the whole index
// (https://www.postgresql.org/docs/current/pgtrgm.html#id-1.11.7.44.8).
func (s *Store) trigramLookups(workspaceID string, words []string) []*bun.SelectQuery {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !hasTrigram(word) })
	if len(words) == 0 {
		return nil
	}
	// Without an order: PostgreSQL estimates the number of rows badly, because it uses no statistics
	// on rows that a policy guards, and would sort them all.
	waiting := s.DB.NewSelect().TableExpr("link_text_queue AS q").Join("JOIN links AS l ON l.id = q.link_id").
		ColumnExpr("l.id").Where("q.workspace_id = ?", workspaceID)
	indexed := s.DB.NewSelect().Table("link_texts").Column("link_id").Where("workspace_id = ?", workspaceID)
	for _, word := range words {
		pattern := "%" + likeEscaper.Replace(word) + "%"
		waiting, indexed = waiting.Where("l.search LIKE ?", pattern), indexed.Where("search LIKE ?", pattern)
	}
	return []*bun.SelectQuery{waiting, indexed}
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

// ftsLookups use the words of at least three characters, each quoted so that it has no special
// characters (https://www.sqlite.org/fts5.html#the_trigram_tokenizer).
func (s *Store) ftsLookups(words []string) []*bun.SelectQuery {
	var quoted []string
	for _, word := range words {
		if utf8.RuneCountInString(word) >= 3 {
			quoted = append(quoted, `"`+strings.ReplaceAll(word, `"`, `""`)+`"`)
		}
	}
	if len(quoted) == 0 {
		return nil
	}
	return []*bun.SelectQuery{s.DB.NewSelect().TableExpr("link_search").ColumnExpr("n.link_id").
		Join("JOIN link_numbers AS n ON n.number = link_search.rowid").
		Where("link_search MATCH ?", strings.Join(quoted, " "))}
}
