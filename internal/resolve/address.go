package resolve

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Address is where a short URL lives: at the root, below a workspace's slug, or at a workspace's
// own host.
type Address struct {
	// Host is empty for the instance's own.
	Host string
	// Slug is empty for a code at the root.
	Slug string
	Code string
	// Path is what follows the code, as sent, with its slash, and Query what follows an ampersand in place of the
	// question mark. They do not identify the link.
	Path, Query string
}

// PathAddress returns the address in a URL: /CODE or /SLUG/CODE at the instance's own hosts, /CODE at
// others, and the path that follows. At the instance's root only a slash follows a code, because its first
// segment would be a slug. What cannot be part of a code is removed from its end. It reports false for all other paths.
func PathAddress(u *url.URL, isOwnHost bool) (at Address, ok bool) {
	path, isEncoded := u.RawPath, u.RawPath != ""
	if !isEncoded {
		path = u.Path
	}
	if path, ok = strings.CutPrefix(path, "/"); !ok {
		return at, false
	}
	at.Code, at.Path = cutSegment(path)
	hasSlug := isOwnHost && at.Path != "" && at.Path != "/" && !strings.ContainsAny(decodeSegment(at.Code), parameterMarks)
	if hasSlug {
		at.Slug = at.Code
		at.Code, at.Path = cutSegment(at.Path[1:])
	}
	switch {
	case isEncoded:
		at.Slug, at.Code = decodeSegment(at.Slug), decodeSegment(at.Code)
	case at.Path != "":
		at.Path = (&url.URL{Path: at.Path}).EscapedPath()
	}
	at.trim()
	return at, isSegment(at.Code) && (!hasSlug || isSegment(at.Slug))
}

// parameterMarks begin parameters in place of a question mark, which a mail program may have encoded.
const parameterMarks = "&?"

// trim moves parameters behind the code to the query, and removes what mail programs and people put behind a URL:
// punctuation, brackets, quotes, blanks and invisible characters. No code has these, so that no link is looked up twice.
func (a *Address) trim() {
	if i := strings.IndexAny(a.Code, parameterMarks); i >= 0 {
		a.Query = (&url.URL{Path: a.Code[i+1:]}).EscapedPath() + a.Path
		a.Code, a.Path = a.Code[:i], ""
	}
	if !shortcode.IsCode(a.Code) {
		a.Code = strings.TrimRightFunc(a.Code, isTrailer)
	}
}

// isTrailer reports whether a character behind a code is ignored. A plus sign names the page about a link.
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
func (a Address) IsPlausible() bool { return shortcode.IsCode(a.Code) && a.hasPlausiblePlace() }

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
	return q.Where("id = (?)", s.WithCode(s.workspaceAt(a), a.Code)), nil
}

// WithCode selects the id of the link that a code has in a workspace, which is an id or a query for it: the link with the
// code, or else with its code key. A custom link without a key is the last choice.
func (s *Resolver) WithCode(workspaceID any, code string) *bun.SelectQuery {
	return s.DB.NewSelect().Table("links").Column("id").Where("workspace_id = (?)", workspaceID).
		Where("(code = ? OR code_key = ?)", code, shortcode.Key(code)).
		OrderExpr("code = ? AND (strategy <> 'CUSTOM' OR code_key IS NOT NULL) DESC", code).
		OrderExpr("code_key IS NOT NULL DESC").Limit(1)
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
	path, isOwn := strings.CutPrefix(u.String(), s.publicURL.String())
	if !isOwn {
		_, path, _ = strings.Cut(u.String(), "://")
		_, path, _ = strings.Cut(path, "/")
	}
	path, _, _ = strings.Cut(path, "?")
	at, ok := PathAddress(&url.URL{RawPath: "/" + path}, isOwn)
	if !ok || at.Path != "" && at.Path != "/" {
		at = Address{Code: path} // of no link
	}
	if at.Path, at.Query = "", ""; !isOwn {
		at.Host = u.Host()
	}
	return at, nil
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such link, or you cannot see it.").At("id")
}
