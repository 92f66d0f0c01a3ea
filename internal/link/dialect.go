package link

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// What PostgreSQL and SQLite do not say in the same words is said in this file, and nowhere else in the package.

// contains keeps the rows whose text, in that column, has the word in it. No index does that: see indexed.
func (s *Store) contains(q *bun.SelectQuery, column, word string) *bun.SelectQuery {
	if s.DB.Kind == db.Postgres {
		return q.Where("strpos(?, ?) > 0", bun.Ident(column), word)
	}
	return q.Where("instr(?, ?) > 0", bun.Ident(column), word)
}

// indexed asks the index of text for the ids of links that have all the words in them, as far as it can find them;
// there may be links of other workspaces among them. It is nil when it can find none of the words.
func (s *Store) indexed(workspaceID string, words []string) *bun.SelectQuery {
	if s.DB.Kind == db.Postgres {
		return s.indexedByTrigrams(workspaceID, words)
	}
	return s.indexedByFTS(words)
}

// stopsInTime says that the index of text finds no more than is asked for. PostgreSQL's finds all there is, first.
func (s *Store) stopsInTime() bool { return s.DB.Kind == db.SQLite }

// indexedByTrigrams asks for words that have three letters or digits in a row: pg_trgm sees nothing else, and would
// go through the whole index (https://www.postgresql.org/docs/current/pgtrgm.html#id-1.11.7.44.8).
func (s *Store) indexedByTrigrams(workspaceID string, words []string) *bun.SelectQuery {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !hasTrigram(word) })
	if len(words) == 0 {
		return nil
	}
	q := s.DB.NewSelect().Table("links").Column("id").Where("workspace_id = ?", workspaceID).Where("purged_at IS NULL")
	for _, word := range words {
		q = q.Where("search LIKE ?", "%"+wildcards.Replace(word)+"%")
	}
	// Any links will do. PostgreSQL guesses badly how many there are, because it looks at no statistics of rows that a
	// policy guards: in order, it would sort them all.
	return q
}

// wildcards takes the meaning from what means something in LIKE.
var wildcards = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

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

// indexedByFTS asks for words of three characters and more, each as a string in which nothing means anything but
// itself (https://www.sqlite.org/fts5.html#the_trigram_tokenizer).
func (s *Store) indexedByFTS(words []string) *bun.SelectQuery {
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
