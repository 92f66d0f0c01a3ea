package linklist

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// This file has the SQL that differs between PostgreSQL and SQLite.

// reindexing are the statements that replace the texts of links in the index.
var reindexing = map[db.Kind][]string{
	db.Postgres: {
		"DELETE FROM link_texts WHERE link_id IN (?)",
		"INSERT INTO link_texts (link_id, workspace_id, search) " +
			"SELECT id, workspace_id, search FROM links WHERE id IN (?) AND purged_at IS NULL",
	},
	db.SQLite: {
		"INSERT OR IGNORE INTO link_numbers (link_id) SELECT id FROM links WHERE id IN (?)",
		"DELETE FROM link_search WHERE rowid IN (SELECT number FROM link_numbers WHERE link_id IN (?))",
		"INSERT INTO link_search (rowid, search) SELECT n.number, l.search FROM link_numbers AS n " +
			"JOIN links AS l ON l.id = n.link_id WHERE l.id IN (?) AND l.purged_at IS NULL",
	},
}

// granted is the SQL of the granted clicks of a link with a maximum. PostgreSQL has a function of
// low cost for it: the planner would charge a subquery for every link, although few have a maximum.
var granted = map[db.Kind]string{
	db.Postgres: "granted_of(link.id)",
	db.SQLite:   "(SELECT granted FROM grants WHERE subject_id = link.id)",
}

// textLookups select, together, the IDs of links that contain all the words that the text index can
// find, perhaps including links of other workspaces. There are none if the index can find none of
// the words. They must run in this order: a text moves from the queue to the index.
func (s *Store) textLookups(workspaceID string, words []string) []*bun.SelectQuery {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !indexable[s.DB.Kind](word) })
	if len(words) == 0 {
		return nil
	}
	waiting := s.DB.NewSelect().TableExpr("link_text_queue AS q").Join("JOIN links AS l ON l.id = q.link_id").
		ColumnExpr("l.id").Where("q.workspace_id = ?", workspaceID)
	for _, word := range words {
		waiting = s.DB.Contains(waiting, "l.search", word)
	}
	if s.DB.Kind == db.SQLite {
		return []*bun.SelectQuery{waiting, s.ftsLookup(words)}
	}
	return []*bun.SelectQuery{waiting, s.trigramLookup(workspaceID, words)}
}

// indexable reports whether the index can find a word. pg_trgm cannot find those without three
// letters or digits in a row, and would read the whole index
// (https://www.postgresql.org/docs/current/pgtrgm.html#id-1.11.7.44.8); FTS5 needs three
// characters.
var indexable = map[db.Kind]func(word string) bool{
	db.Postgres: hasTrigram,
	db.SQLite:   func(word string) bool { return utf8.RuneCountInString(word) >= 3 },
}

// walksFolders reports whether each of several folders has to be walked by itself in the order of
// ids: SQLite, which has no statistics, would sort the links of all. PostgreSQL knows when the
// order of all links is faster.
func (s *Store) walksFolders() bool { return s.DB.Kind == db.SQLite }

// stopsAtLimit reports whether a text lookup reads no more than its limit. PostgreSQL reads all
// entries of the index first.
func (s *Store) stopsAtLimit() bool { return s.DB.Kind == db.SQLite }

// trigramLookup has no order: PostgreSQL estimates the number of rows badly, because it uses no
// statistics on rows that a policy guards, and would sort them all.
func (s *Store) trigramLookup(workspaceID string, words []string) *bun.SelectQuery {
	indexed := s.DB.NewSelect().Table("link_texts").Column("link_id").Where("workspace_id = ?", workspaceID)
	for _, word := range words {
		indexed = indexed.Where("search LIKE ?", "%"+db.EscapeLike(word)+"%")
	}
	return indexed
}

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

// ftsLookup quotes each word, so that it has no special characters
// (https://www.sqlite.org/fts5.html#the_trigram_tokenizer).
func (s *Store) ftsLookup(words []string) *bun.SelectQuery {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, `"`+strings.ReplaceAll(word, `"`, `""`)+`"`)
	}
	return s.DB.NewSelect().TableExpr("link_search").ColumnExpr("n.link_id").
		Join("JOIN link_numbers AS n ON n.number = link_search.rowid").
		Where("link_search MATCH ?", strings.Join(quoted, " "))
}
