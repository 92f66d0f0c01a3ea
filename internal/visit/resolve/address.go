package resolve

import (
	"iter"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Address is where a short URL lives: at the root, below a workspace's slug, or at a workspace's
// own host.
type Address struct {
	// Host is empty for the instance's own.
	Host string
	// Slug is empty for a code at the root.
	Slug string
	Code string
	// Path is what follows the code, as sent, with its slash, and Query what follows an ampersand
	// in place of the question mark. They do not identify the link.
	Path, Query string
	// IsOwn means that the code is one of the host itself, and not of its workspace.
	IsOwn bool
	// sent is the path at a workspace's host, as sent, without its first slash. With IsOwn, it is
	// the part of the code.
	sent string
}

// PathAddress returns the address in a URL: /CODE or /SLUG/CODE at the hosts of the instance, /CODE
// at others, and the path that follows. Slugs have any case. At the instance's root only a slash
// follows a code, because its first segment would be a slug. What cannot be part of a code of a
// workspace is removed from its end. It reports false for all other paths; at hosts of workspaces,
// which may have codes of their own, only for those whose first segment is empty, "." or "..".
func PathAddress(u *url.URL, isInstance bool) (at Address, ok bool) {
	sent := u.RawPath
	if sent == "" {
		sent = u.EscapedPath()
	}
	if sent, ok = strings.CutPrefix(sent, "/"); !ok {
		return at, false
	}
	if !isInstance {
		at.sent = sent
	}
	code, rest := cutSegment(sent)
	first := decodeSegment(code)
	ok = !isInstance && first != "" && first != "." && first != ".."
	hasSlug := isInstance && rest != "" && rest != "/" && !strings.ContainsAny(first, parameterMarks)
	if hasSlug {
		if at.Slug = first; shortcode.IsCode(first) {
			at.Slug = shortcode.Key(first)
		}
		code, rest = cutSegment(rest[1:])
	}
	at.Path = rest
	if before, query, hasQuery := cutParameters(code, rest); hasQuery {
		code, at.Path, at.Query = before, "", query
	}
	at.Code = decodeSegment(code)
	if !shortcode.IsCode(at.Code) && IsClean("/"+at.Code+at.Path) {
		at.Code = strings.TrimRightFunc(at.Code, isTrailer)
	}
	return at, ok || isSegment(at.Code) && (!hasSlug || isSegment(at.Slug))
}

// parameterMarks begin parameters in place of a question mark, which a mail program may have
// encoded.
const parameterMarks = "&?"

// cutParameters divides a path, as it was sent, at the first mark of parameters in its first
// segments, and returns the query behind it. If the mark is percent-encoded, the query has been
// encoded with it: it is decoded once.
func cutParameters(segments, rest string) (before, query string, ok bool) {
	for i := range len(segments) {
		switch mark := segments[i:min(i+3, len(segments))]; {
		case strings.IndexByte(parameterMarks, mark[0]) >= 0:
			return segments[:i], segments[i+1:] + rest, true
		case mark == "%26" || strings.EqualFold(mark, "%3F"):
			escaped := (&url.URL{Path: decodeSegment(segments[i+3:] + rest)}).EscapedPath()
			return segments[:i], strings.ReplaceAll(escaped, "%25", "%"), true
		}
	}
	return segments, "", false
}

// IsClean reports whether a decoded path has no empty segment, "." or "..".
func IsClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || p == clean+"/" && clean != "/" || !strings.HasPrefix(p, "/")
}

// isTrailer reports whether a character behind a code is ignored. A plus sign names the page about
// a link.
func isTrailer(c rune) bool {
	return c != '-' && c != '_' && c != '+' && c != utf8.RuneError &&
		(unicode.IsSpace(c) || unicode.In(c, unicode.P, unicode.S, unicode.Z, unicode.M, unicode.Cf))
}

// cutSegment divides a path after its first segment.
func cutSegment(path string) (segment, rest string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// decodeSegment returns "." for a segment that cannot be decoded.
func decodeSegment(segment string) string {
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return "."
	}
	return decoded
}

// isSegment reports whether a segment of a path can be a slug or a code.
func isSegment(s string) bool {
	return s != "" && s != "." && s != ".." && strings.IndexByte(s, '/') < 0
}

// IsPlausible reports whether the slug and the host are well-formed. Others are not looked up.
func (a Address) IsPlausible() bool {
	return (a.Slug == "" || shortcode.IsCode(a.Slug)) && isHost(a.Host)
}

// isHost reports whether s is empty, or has the characters and the length of a canonical host name.
func isHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) <= 253
}

// WithCode selects the id of the link that a code has in a workspace, which is an id or a query for
// it: the link with the code, or else with its code key. A custom link without a key is the last
// choice.
func (s *Resolver) WithCode(workspaceID any, code string) *bun.SelectQuery {
	return s.DB.NewSelect().Table("links").Column("id").Where("workspace_id = (?)", workspaceID).
		Where("(code = ? OR code_key = ?)", code, shortcode.Key(code)).
		OrderExpr("code = ? AND (strategy <> 'CUSTOM' OR code_key IS NOT NULL) DESC", code).
		OrderExpr("code_key IS NOT NULL DESC").Limit(1)
}

// WithOwnCode selects what the table links has as the code of a link with a code of a domain.
func (s *Resolver) WithOwnCode(workspaceID, domainID, code string) *bun.SelectQuery {
	key, _ := shortcode.OwnKey(code, true) // empty for a text that is no code: no link has that
	folded, _ := shortcode.OwnKey(code, false)
	return s.DB.NewSelect().Table("domains").
		ColumnExpr("id || '/' || CASE WHEN case_sensitive THEN ? ELSE ? END", key, folded).
		Where("workspace_id = ?", workspaceID).Where("id = ?", domainID).Where(hasOwnCodes)
}

// Place selects the columns of Host that lookups need: of a slug, the workspace that has or had it;
// of a verified domain, also its id and case_sensitive if it has codes of its own.
func (s *Resolver) Place(a Address) *bun.SelectQuery {
	if a.Host == "" {
		return s.DB.NewSelect().Table("slugs").Column("workspace_id").Where("slug = ?", a.Slug)
	}
	return s.DB.NewSelect().Table("domains").Column("workspace_id", "case_sensitive").
		ColumnExpr("CASE WHEN "+hasOwnCodes+" THEN id ELSE '' END AS own_id").
		Where("host = ?", a.Host).Where("verified_at IS NOT NULL")
}

// StoredCode returns what the table links has as the code of the link at an address. It reports
// false for a text that no link has as its code.
func (a Address) StoredCode(place *Host) (code string, ok bool) {
	if place.OwnID == "" {
		return a.Code, shortcode.IsCode(a.Code)
	}
	key, ok := shortcode.OwnKey(a.Code, place.CaseSensitive)
	return place.OwnID + "/" + key, ok
}

// Interpret returns the address as its host interprets the path: with codes of its own, the code is
// the whole path, without a slash at its end.
func (a Address) Interpret(hasOwnCodes bool) Address {
	if !hasOwnCodes || a.IsOwn {
		return a
	}
	code := strings.TrimSuffix(a.sent, "/")
	return ownAddress(a.Host, code, a.sent[len(code):], "")
}

// ownAddress returns the address of a code, as it was sent to a host with codes of its own.
func ownAddress(host, sent, path, query string) Address {
	return Address{Host: host, Code: decodeSegment(sent), Path: path, Query: query, IsOwn: true, sent: sent}
}

// OwnAddress returns the address of a code at a host with codes of its own.
func OwnAddress(host, code string) Address {
	return ownAddress(host, strings.TrimPrefix((&url.URL{Path: "/" + code}).EscapedPath(), "/"), "", "")
}

const (
	// emphasis are marks of emphasis in messages, which codes may have too.
	emphasis = "-_"
	// maxForwards is how many shorter codes are tried for a path at a host with codes of its own.
	maxForwards = 8
)

// Candidates yields the addresses that a path may mean, in the order of their precedence: itself,
// and the one without marks of emphasis at the end of the code. At a host with codes of its own,
// these follow the address itself: without the parameters at its end, without the marks before them
// too, and then shorter codes, with the rest as the path.
func (a Address) Candidates() iter.Seq[Address] {
	return func(yield func(Address) bool) {
		if !yield(a) {
			return
		}
		cut := a
		if !a.IsOwn {
			if cut.Code = strings.TrimRight(a.Code, emphasis); cut.Code != a.Code {
				yield(cut)
			}
			return
		}
		if before, query, ok := cutParameters(a.sent, ""); ok {
			if cut = ownAddress(a.Host, before, "", query); !yield(cut) {
				return
			}
		}
		if code := strings.TrimRightFunc(cut.Code, isMark); code != cut.Code && IsClean("/"+cut.Code+cut.Path) {
			bare := OwnAddress(a.Host, code)
			if bare.Query = cut.Query; !yield(bare) {
				return
			}
		}
		code, rest := a.sent, a.Path
		for range maxForwards {
			i := strings.LastIndexByte(code, '/')
			if i < 0 {
				return
			}
			code, rest = code[:i], code[i:]+rest
			if !yield(ownAddress(a.Host, code, rest, "")) {
				return
			}
		}
	}
}

// isMark reports whether a character behind a code of a host is ignored.
func isMark(c rune) bool { return strings.ContainsRune(emphasis, c) || isTrailer(c) }

// TrimSuffix removes a suffix of the code.
func (a Address) TrimSuffix(suffix string) Address {
	code := strings.TrimSuffix(a.Code, suffix)
	if a.IsOwn {
		return OwnAddress(a.Host, code)
	}
	a.Code = code
	return a
}

// EscapedPath returns the path of the address up to the end of the code, as it was sent to a host
// with codes of its own.
func (a Address) EscapedPath() string {
	switch {
	case a.IsOwn:
		return "/" + a.sent
	case a.Slug != "":
		return "/" + url.PathEscape(a.Slug) + "/" + url.PathEscape(a.Code)
	}
	return "/" + url.PathEscape(a.Code)
}

// ParseShortURL returns the address in a short URL of this instance, in any spelling and with any
// query. Any other host can be a domain of a workspace. It returns NotFound if the text is no URL.
func (s *Resolver) ParseShortURL(shortURL string) (Address, error) {
	u, err := urlnorm.Canonical(shortURL) // the canonical form does not change codes
	if err != nil {
		return Address{}, errNotFound()
	}
	isOwn := s.IsOwnHost(u.Host())
	_, path, _ := strings.Cut(u.String(), "://")
	_, path, _ = strings.Cut(path, "/")
	path, _, _ = strings.Cut(path, "?")
	at, ok := PathAddress(&url.URL{RawPath: "/" + path}, isOwn)
	if !ok {
		at = Address{Code: path, sent: at.sent} // of no link with a code of the workspace
	}
	if at.Query = ""; !isOwn {
		at.Host = u.Host()
	}
	return at, nil
}

// brackets are what texts enclose URLs in.
var brackets = []string{"<>", "()", `""`, "''", "‘’", "“”", "„“", "«»"}

// ParsePasted is ParseShortURL for a text as people copy it, also without its scheme. Without a host
// it is at the instance's own, and a code alone below the slug, or at the root if that is empty.
func (s *Resolver) ParsePasted(text, slug string) (Address, error) {
	text = strings.TrimSpace(text)
	for _, pair := range brackets {
		_, first := utf8.DecodeRuneInString(pair)
		inner, isOpen := strings.CutPrefix(text, pair[:first])
		if inner, isClosed := strings.CutSuffix(inner, pair[first:]); isOpen && isClosed {
			text = inner
		}
	}
	text = strings.TrimLeft(text, "/")
	first, _ := cutSegment(text)
	switch {
	case strings.Contains(text, "://"):
	case strings.ContainsAny(first, ".:"):
		text = "https://" + text
	case first == text && slug != "":
		text = s.PublicURL + "/" + slug + "/" + text
	default:
		text = s.PublicURL + "/" + text
	}
	return s.ParseShortURL(text)
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such link, or you cannot see it.").At("id")
}
