package redirect

import (
	"net/http"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// targetCookieLife is how long a visitor keeps a target of a rule with cookies.
const targetCookieLife = 90 * 24 * time.Hour

// targetCookie returns the cookie that remembers the target.
func (v *visit) targetCookie(a *routing.Decision) *http.Cookie {
	return v.cookie(routing.CookieName(a.Rule), a.Target, targetCookieLife)
}

// cookie returns a cookie that is sent to the short URL only.
func (v *visit) cookie(name, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: cookiePath(v.target.At.EscapedPath(), v.http.URL.EscapedPath()),
		MaxAge:   int(life.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.isSecure(),
	}
}

// cookiePath returns the path of a cookie that browsers send back to a short URL as it was
// requested: the path of the short URL or, where a browser would not match this path again, its
// folder. A semicolon ends a path, and a path with an appendix or in another encoding is another
// one.
func cookiePath(path, requested string) string {
	rest, isBelow := strings.CutPrefix(requested, path)
	if end := strings.IndexByte(path, ';'); end >= 0 {
		path = path[:end]
	} else if isBelow && (rest == "" || rest[0] == '/') {
		return path
	}
	return path[:strings.LastIndexByte(path, '/')+1]
}
