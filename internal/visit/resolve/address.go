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
	// whole is the path at a workspace's host, as sent, without its first slash. With isOwn, it is
	// the part of the code: see Whole.
	whole string
	isOwn bool
}

// PathAddress returns the address in a URL: /CODE or /SLUG/CODE at the hosts of the instance, /CODE
// at others, and the path that follows. At the instance's root only a slash follows a code, because
// its first segment would be a slug. What cannot be part of a code of a workspace is removed from
// its end. It reports false for all other paths; at hosts of workspaces, which may have codes of
// their own, only for those whose first segment is empty, "." or "..".
func PathAddress(u *url.URL, isInstance bool) (at Address, ok bool) {
	sent := u.RawPath
	if sent == "" {
		sent = u.EscapedPath()
	}
	if sent, ok = strings.CutPrefix(sent, "/"); !ok {
		return at, false
	}
	if !isInstance {
		at.whole = sent
	}
	code, rest := cutSegment(sent)
	first := decodeSegment(code)
	ok = !isInstance && first != "" && first != "." && first != ".."
	hasSlug := isInstance && rest != "" && rest != "/" && !strings.ContainsAny(first, parameterMarks)
	if hasSlug {
		at.Slug = first
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

// IsPlausible reports whether the address is well-formed. Others are not looked up.
func (a Address) IsPlausible() bool {
	_, isOwn := shortcode.OwnKey(a.Whole().Code, true)
	return (shortcode.IsCode(a.Code) || isOwn) && a.hasPlausiblePlace()
}

// hasPlausiblePlace reports whether the slug and the host are well-formed.
func (a Address) hasPlausiblePlace() bool {
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

// ByAddress restricts a query of links to the one at the address. It returns NotFound for what
// cannot be an address.
func (s *Resolver) ByAddress(q *bun.SelectQuery, a Address) (*bun.SelectQuery, error) {
	switch {
	case !a.IsPlausible():
		return nil, errNotFound()
	case a.Slug == "" && a.Host == "":
		return q.Where("root_code = ?", a.Code), nil
	}
	return q.Where("id = (?)", s.LinkAt(s.workspaceAt(a), a)), nil
}

// LinkAt selects the id of the link that an address below a slug or at a host has in a workspace,
// which is an id or a query for it.
func (s *Resolver) LinkAt(workspaceID any, a Address) *bun.SelectQuery {
	shared := s.DB.NewSelect().ColumnExpr("NULL")
	if shortcode.IsCode(a.Code) {
		shared = s.WithCode(workspaceID, a.Code)
	}
	if a.Host == "" {
		return shared
	}
	own := s.DB.NewSelect().Table("domains").ColumnExpr("1").Where("workspace_id = (?)", workspaceID).
		Where("host = ?", a.Host).Where(hasOwnCodes)
	at := a.Whole()
	cut := at.withoutParameters()
	withCode := func(code string) *bun.SelectQuery { return s.WithOwnCode(workspaceID, "host", a.Host, code) }
	return s.DB.NewSelect().ColumnExpr("CASE WHEN EXISTS (?) THEN COALESCE((?), (?), (?)) ELSE (?) END", own,
		withCode(at.Code), withCode(cut.Code), withCode(cut.withoutMarks().Code), shared)
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

// WithOwnCode selects the id of the link that a code has at a domain with codes of its own. A
// column names the domain.
func (s *Resolver) WithOwnCode(workspaceID any, column, value, code string) *bun.SelectQuery {
	key, _ := shortcode.OwnKey(code, true) // empty for a text that is no code: no link has that
	folded, _ := shortcode.OwnKey(code, false)
	return s.DB.NewSelect().TableExpr("domains AS domain").Column("links.id").
		Join("JOIN links ON links.workspace_id = domain.workspace_id AND links.code = "+
			"domain.id || '/' || CASE WHEN domain.case_sensitive THEN ? ELSE ? END", key, folded).
		Where("domain.workspace_id = (?)", workspaceID).Where("domain.? = ?", bun.Ident(column), value).
		Where(hasOwnCodes)
}

// maxForwards is how many shorter codes are tried for a path at a host with codes of its own.
const maxForwards = 8

// Whole returns the address as a host with codes of its own has it: the code is the whole path,
// without a slash at its end.
func (a Address) Whole() Address {
	if a.isOwn {
		return a
	}
	code, hasSlash := strings.CutSuffix(a.whole, "/")
	at := ownAddress(a.Host, code)
	if hasSlash {
		at.Path = "/"
	}
	return at
}

// ownAddress returns the address of a path at a host with codes of its own.
func ownAddress(host, path string) Address {
	return Address{Host: host, Code: decodeSegment(path), whole: path, isOwn: true}
}

// OwnAddress returns the address of a code at a host with codes of its own.
func OwnAddress(host, code string) Address {
	return ownAddress(host, strings.TrimPrefix((&url.URL{Path: "/" + code}).EscapedPath(), "/"))
}

// splits yields an address as Whole has it, and after it those of the codes that the path may mean:
// without the parameters at its end, without the marks before them too, and then shorter ones, with
// the rest as the path.
func (a Address) splits() iter.Seq[Address] {
	return func(yield func(Address) bool) {
		at := a.Whole()
		if !yield(at) {
			return
		}
		cut := at.withoutParameters()
		if cut.Code != at.Code && !yield(cut) {
			return
		}
		if bare := cut.withoutMarks(); bare.Code != cut.Code && !yield(bare) {
			return
		}
		for range maxForwards {
			i := strings.LastIndexByte(at.whole, '/')
			if i < 0 {
				return
			}
			rest := at.whole[i:] + at.Path
			at = ownAddress(at.Host, at.whole[:i])
			if at.Path = rest; !yield(at) {
				return
			}
		}
	}
}

// withoutParameters returns an address of Whole without the parameters behind the code, which are
// in its query.
func (a Address) withoutParameters() Address {
	before, query, ok := cutParameters(a.whole, "")
	if !ok {
		return a
	}
	at := ownAddress(a.Host, before)
	at.Query = query
	return at
}

// withoutMarks returns an address of withoutParameters without what PathAddress removes from codes
// of workspaces, and without marks of emphasis.
func (a Address) withoutMarks() Address {
	if !IsClean("/" + a.Code + a.Path) {
		return a
	}
	at := OwnAddress(a.Host,
		strings.TrimRightFunc(a.Code, func(c rune) bool { return strings.ContainsRune(emphasis, c) || isTrailer(c) }))
	at.Query = a.Query
	return at
}

// WithoutEmphasis returns an address without hyphens and underscores at the end of the code, which
// are marks of emphasis in messages.
func (a Address) WithoutEmphasis() Address {
	a.Code = strings.TrimRight(a.Code, emphasis)
	return a
}

const emphasis = "-_"

// Candidates yields the address, and after it those of the codes that a redirect tries if no link
// has this one.
func (a Address) Candidates() iter.Seq[Address] {
	return func(yield func(Address) bool) {
		if !yield(a) {
			return
		}
		if bare := a.WithoutEmphasis(); bare.Code != a.Code && !yield(bare) || a.Host == "" {
			return
		}
		whole := a.Whole()
		for at := range a.splits() {
			if at != whole && !yield(at) {
				return
			}
		}
	}
}

// TrimSuffix removes a suffix of the code.
func (a Address) TrimSuffix(suffix string) Address {
	if a.isOwn {
		return OwnAddress(a.Host, strings.TrimSuffix(a.Code, suffix))
	}
	a.Code = strings.TrimSuffix(a.Code, suffix)
	return a
}

// EscapedPath returns the path of the address up to the end of the code, as it was sent to a host
// with codes of its own.
func (a Address) EscapedPath() string {
	switch {
	case a.isOwn:
		return "/" + a.whole
	case a.Slug != "":
		return "/" + url.PathEscape(a.Slug) + "/" + url.PathEscape(a.Code)
	}
	return "/" + url.PathEscape(a.Code)
}

// workspaceAt selects the workspace that has or had the slug, or that has the host.
func (s *Resolver) workspaceAt(a Address) *bun.SelectQuery {
	if a.Host != "" {
		return s.DB.NewSelect().Table("domains").Column("workspace_id").Where("host = ?", a.Host).
			Where("verified_at IS NOT NULL")
	}
	return s.DB.NewSelect().Table("slugs").Column("workspace_id").Where("slug = ?", a.Slug)
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
		at = Address{Code: path, whole: at.whole} // of no link with a code of the workspace
	}
	if at.Query = ""; !isOwn {
		at.Host = u.Host()
	}
	return at, nil
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such link, or you cannot see it.").At("id")
}
