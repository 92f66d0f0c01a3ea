package urlnorm_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// golden is the part of the golden vectors that is about URLs.
type golden struct {
	MaxURLBytes int `json:"max_url_bytes"`
	Vectors     []struct {
		Source    string `json:"source"`
		URL       string `json:"url"`
		Canonical string `json:"canonical"`
	} `json:"vectors"`
	Rejects []struct {
		Why string `json:"why"`
		URL string `json:"url"`
	} `json:"rejects"`
}

func readGolden(t testing.TB) golden {
	t.Helper()
	text := must.Value(os.ReadFile("testdata/lf1.json"))(t)
	var g golden
	must.NoError(t, json.Unmarshal(text, &g))
	if len(g.Vectors) == 0 || len(g.Rejects) == 0 {
		t.Fatal("the golden file lacks vectors")
	}
	return g
}

func TestCanonical_MatchesGoldenVectors(t *testing.T) {
	t.Parallel()
	g := readGolden(t)
	if g.MaxURLBytes != urlnorm.MaxBytes {
		t.Errorf("MaxBytes = %d, want %d", urlnorm.MaxBytes, g.MaxURLBytes)
	}
	for _, v := range g.Vectors {
		u, err := urlnorm.Canonical(v.URL)
		if err != nil {
			t.Errorf("%s: Canonical(%q): %v", v.Source, v.URL, err)
			continue
		}
		if u.String() != v.Canonical {
			t.Errorf("%s: Canonical(%q) = %q, want %q", v.Source, v.URL, u, v.Canonical)
		}
	}
	for _, r := range g.Rejects {
		if u, err := urlnorm.Canonical(r.URL); err == nil {
			t.Errorf("%s: Canonical(%q) = %q, want an error", r.Why, r.URL, u)
		}
	}
}

func TestCanonical_Normalizes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw, want string
	}{
		{"R1 trims controls at both ends", "\x00\x1f http://a.example/b\x1f\x00 ", "http://a.example/b"},
		{"R1 trims white space and invisible characters",
			"\ufeff\u200b\u00a0\u2800http://a.example/b\u2028\u202e\u00ad\u3000", "http://a.example/b"},
		{"R1 keeps what belongs to emoji", "http://a.example/\u2764\ufe0f", "http://a.example/%E2%9D%A4%EF%B8%8F"},
		{"R1 keeps invisible characters inside", "http://a.example/a\u200bb", "http://a.example/a%E2%80%8Bb"},
		{"R1 allows the replacement character", "http://a.example/\ufffd", "http://a.example/%EF%BF%BD"},

		{"R2 any case", "hTTpS://a.example", "https://a.example/"},
		{"R2 at sign in the path", "http://a.example/@b", "http://a.example/@b"},
		{"R2 at sign in the fragment", "http://a.example#@b", "http://a.example/"},

		{"R3 non-transitional", "http://straße.example", "http://xn--strae-oqa.example/"},
		{"R3 final sigma as such", "http://σίγμας.example", "http://xn--kxaef0b5ab.example/"},
		{"R3 combining accent", "http://bu\u0308cher.example", "http://xn--bcher-kva.example/"},
		{"R3 punycode in upper case", "http://XN--BCHER-KVA.example", "http://xn--bcher-kva.example/"},
		{"R3 emoji", "http://i❤.example", "http://xn--i-7iq.example/"},
		{"R3 right to left", "http://אבג.example", "http://xn--4dbcd.example/"},
		{"R3 soft hyphen is ignored", "http://exam\u00adple.com", "http://example.com/"},
		{"R3 underscore", "http://_dmarc.a_b.example", "http://_dmarc.a_b.example/"},
		{"R3 hyphens anywhere", "http://r3---sn-4g5e.-a-.example", "http://r3---sn-4g5e.-a-.example/"},
		{"R3 long label", "http://" + strings.Repeat("a", 63) + ".example",
			"http://" + strings.Repeat("a", 63) + ".example/"},
		{"R3 253 characters and a dot", "http://" + strings.Repeat("a.", 126) + "b./",
			"http://" + strings.Repeat("a.", 126) + "b/"},
		{"R3 full-width dots", "http://a．b｡c。", "http://a.b.c/"},
		{"R3 IPv4 full-width", "http://１２７.０.０.１", "http://127.0.0.1/"},
		{"R3 digits before the last label", "http://1.2.3.4.example", "http://1.2.3.4.example/"},
		{"R3 hexadecimal-looking label", "http://a.0xg", "http://a.0xg/"},
		{"R3 IPv6 compression", "http://[0:0:1:0:0:0:0:0]", "http://[0:0:1::]/"},
		{"R3 IPv6 single zero group", "http://[1:2:3:0:5:6:7:8]", "http://[1:2:3:0:5:6:7:8]/"},
		{"R3 IPv4-mapped in hexadecimal", "http://[::FFFF:7f00:1]/", "http://[::ffff:127.0.0.1]/"},

		{"R4 the other scheme's port", "https://a.example:80", "https://a.example:80/"},
		{"R4 many zeros", "http://a.example:" + strings.Repeat("0", 99) + "81", "http://a.example:81/"},
		{"R4 empty for IPv6", "http://[::1]:", "http://[::1]/"},

		{"R5 a single pass", "http://a.example/%2541?%2541", "http://a.example/%2541?%2541"},
		{"R5 lone percent", "http://a.example/%?%", "http://a.example/%25?%25"},
		{"R5 percent before a triplet", "http://a.example/%%41", "http://a.example/%25A"},
		{"R5 no triplet arises by decoding", "http://a.example/%4%31", "http://a.example/%2541"},
		{"R5 reserved ones stay", "http://a.example/%2f%3F%23?%26%3d%2b", "http://a.example/%2F%3F%23?%26%3D%2B"},
		{"R5 all unreserved", "http://a.example/%2D%2E%5f%7e%30%5A%7a", "http://a.example/-._~0Zz"},
		{"R5 in a query key", "http://a.example/?%62=1&%61=2", "http://a.example/?a=2&b=1"},

		{"R6 pchar stays", "http://a.example/!$&'()*+,;=:@-._~", "http://a.example/!$&'()*+,;=:@-._~"},
		{"R6 question mark and slash in a query", "http://a.example/?a=b?c/d", "http://a.example/?a=b?c/d"},
		{"R6 space", "http://a.example/a b?c d", "http://a.example/a%20b?c%20d"},
		{"R6 no NFC", "http://a.example/e\u0301", "http://a.example/e%CC%81"},

		{"R7 encoded dots", "http://a.example/a/%2e%2E/b/%2e/c/.%2e", "http://a.example/b"},
		{"R7 three dots are a name", "http://a.example/.../..a/a..", "http://a.example/.../..a/a.."},
		{"R7 far above the root", "http://a.example/a/../../../b", "http://a.example/b"},
		{"R7 an encoded slash makes no segment", "http://a.example/a/..%2fb", "http://a.example/a/..%2Fb"},

		{"R8 after R7", "http://a.example/a//b/..//../c", "http://a.example/a/c"},
		{"R8 not in a query", "http://a.example/?a//b", "http://a.example/?a//b"},

		{"R9 many slashes", "http://a.example/a///", "http://a.example/a"},

		{"R10 only ampersands", "http://a.example/a?&&", "http://a.example/a"},
		{"R10 equals sign alone", "http://a.example/a?=", "http://a.example/a?="},
		{"R10 empty value stays", "http://a.example/a?k=&k", "http://a.example/a?k=&k"},
		{"R10 semicolon does not split", "http://a.example/a?b=1;a=2", "http://a.example/a?b=1;a=2"},

		{"R11 a key before its extension", "http://a.example/?a-b&a=1", "http://a.example/?a=1&a-b"},
		{"R11 by the encoded key", "http://a.example/?~=1&é=2", "http://a.example/?%C3%A9=2&~=1"},
		{"R11 values do not sort", "http://a.example/?a=2&a&a=1", "http://a.example/?a=2&a&a=1"},
		{"R11 stable among many", "http://a.example/?" + strings.Repeat("b=9&b=1&", 20) + "a",
			"http://a.example/?a" + strings.Repeat("&b=9&b=1", 20)},

		{"R12 second hash", "http://a.example/a#b#c", "http://a.example/a"},
		{"R12 right after the host", "http://a.example#/b?c", "http://a.example/"},
	}
	for _, tt := range tests {
		u, err := urlnorm.Canonical(tt.raw)
		if err != nil {
			t.Fatalf("%s: Canonical(%q): %v", tt.name, tt.raw, err)
		}
		if u.String() != tt.want {
			t.Errorf("%s: Canonical(%q) = %q, want %q", tt.name, tt.raw, u, tt.want)
		}
		checkProperties(t, tt.raw)
	}
}

func TestCanonical_RefusesBadURLs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw, rule string
	}{
		{"line break in the path", "http://a.example/a\nb", "R1"},
		{"control character in the fragment", "http://a.example/#a\x01b", "R1"},
		{"DEL", "http://a.example/\x7f", "R1"},
		{"line separator", "http://a.example/\u2028b", "R1"},
		{"last C1", "http://a.example/#\u009f", "R1"},
		{"invalid UTF-8", "http://a.example/\xff", "R1"},
		{"overlong", "http://a.example/\xc0\xaf", "R1"},

		{"only spaces", "   ", "R2"},
		{"backslashes for slashes", `http:\\a.example`, "R2"},
		{"another scheme", "httpx://a.example", "R2"},
		{"empty userinfo", "http://@a.example", "R2"},
		{"backslash decoy", `http://good.example\@evil.example`, "R2"},

		{"no host", "http://", "R3"},
		{"percent-encoded host", "http://%61.example", "R3"},
		{"full-width at sign", "http://a＠b.example", "R3"},
		{"character that maps to a slash", "http://a℀b.example", "R3"},
		{"two trailing dots", "http://a.example..", "R3"},
		{"dot before a soft hyphen", "http://a.\u00ad/", "R3"},
		{"label too long", "http://" + strings.Repeat("a", 64) + ".example", "R3"},
		{"label too long in punycode", "http://" + strings.Repeat("é", 63) + ".example", "R3"},
		{"name too long", "http://" + strings.Repeat("a.", 127) + "b", "R3"},
		{"name too long to convert", "http://a" + strings.Repeat("\u00ad", 600) + "b", "R3"},
		{"unassigned character", "http://a\u0378.example", "R3"},
		{"replacement character", "http://a\ufffd.example", "R3"},
		{"mixed directions", "http://aא.example", "R3"},
		{"leading combining mark", "http://\u0301a.example", "R3"},
		{"joiner out of context", "http://a\u200db.example", "R3"},
		{"empty punycode", "http://xn--.example", "R3"},
		{"punycode of ASCII", "http://xn--abc-.example", "R3"},
		{"punycode of an upper-case letter", "http://xn--dca.example", "R3"},
		{"punycode of text that is not NFC", "http://xn--a-xbb.example", "R3"},
		{"punycode with letters outside ASCII", "http://xn--é-.example", "R3"},
		{"disguised punycode with letters outside ASCII", "http://ｘn--é-.example", "R3"},

		{"two numbers", "http://127.1/", "R3"},
		{"zero", "http://0/", "R3"},
		{"leading zero", "http://127.0.0.01/", "R3"},
		{"hexadecimal", "http://0x7f.0.0.1/", "R3"},
		{"name that ends in a number", "http://example.123/", "R3"},
		{"circled digits", "http://①②⑦.⓪.⓪.08/", "R3"},
		{"IPv6 zone without a percent escape", "http://[fe80::1%eth0]/", "R3"},
		{"IPv6 without brackets", "http://2001:db8::1/", "R3"},
		{"IPv6 bracket left open", "http://[::1/", "R3"},
		{"IPv6 with text after it", "http://[::1]a/", "R3"},
		{"IPv4 in brackets", "http://[127.0.0.1]/", "R3"},
		{"IPvFuture", "http://[v1.a]/", "R3"},

		{"port zeros", "http://a.example:000", "R4"},
		{"port sign", "http://a.example:+80", "R4"},
		{"port huge", "http://a.example:99999999999999999999", "R4"},
		{"two ports", "http://a.example:80:80", "R4"},
	}
	for _, tt := range tests {
		u, err := urlnorm.Canonical(tt.raw)
		refused, ok := errors.AsType[*urlnorm.Error](err)
		if !ok {
			t.Fatalf("%s: Canonical(%q) = %q, %v, want an Error", tt.name, tt.raw, u, err)
		}
		if refused.Rule != tt.rule {
			t.Errorf("%s: Canonical(%q) breaks %s, want %s", tt.name, tt.raw, refused.Rule, tt.rule)
		}
		if !strings.HasSuffix(refused.Reason, ".") || !strings.Contains(refused.Error(), refused.Reason) {
			t.Errorf("%s: reason %q is not a sentence for users", tt.name, refused.Reason)
		}
		checkHeaderSafe(t, urlnorm.Location(tt.raw))
	}
}

func TestCanonical_BoundsLength(t *testing.T) {
	t.Parallel()
	const prefix = "http://a.example/"
	fill := func(n int, s string) string { return prefix + strings.Repeat(s, (n-len(prefix))/len(s)) }
	tests := []struct {
		name string
		raw  string
		ok   bool
	}{
		{"at the limit", fill(urlnorm.MaxBytes, "a"), true},
		{"over the limit", fill(urlnorm.MaxBytes, "a") + "a", false},
		{"over the limit before trimming", fill(urlnorm.MaxBytes, "a") + " ", false},
		{"over the limit in its fragment", prefix + "#" + fill(urlnorm.MaxBytes, "a"), false},
		{"both forms over the limit", fill(urlnorm.MaxBytes/2, "é"), false},
		{"only the canonical form over the limit", fill(urlnorm.MaxBytes/2, "|"), false},
		{"only the Location over the limit", prefix + "#" + strings.Repeat("é", 2000), false},
		{"nothing but ampersands", prefix + "?" + strings.Repeat("&", 8000), true},
		{"nothing but dots", fill(8000, "../"), true},
	}
	for _, tt := range tests {
		_, err := urlnorm.Canonical(tt.raw)
		if got := err == nil; got != tt.ok {
			t.Fatalf("%s: Canonical of %d bytes: %v", tt.name, len(tt.raw), err)
		}
		checkProperties(t, tt.raw)
	}
}

func TestURL_Accessors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw, host string
		port      uint16
	}{
		{"http://A.example", "a.example", 80},
		{"https://a.example/", "a.example", 443},
		{"https://a.example:8443/", "a.example", 8443},
		{"http://[2001:DB8::1]:443/", "2001:db8::1", 443},
		{"http://[::1]/", "::1", 80},
		{"http://127.0.0.1:80", "127.0.0.1", 80},
		{"http://bücher.example", "xn--bcher-kva.example", 80},
	}
	for _, tt := range tests {
		u, err := urlnorm.Canonical(tt.raw)
		if err != nil {
			t.Errorf("Canonical(%q): %v", tt.raw, err)
			continue
		}
		if u.Host() != tt.host || u.Port() != tt.port {
			t.Errorf("Canonical(%q): host %q, port %d, want %q, %d", tt.raw, u.Host(), u.Port(), tt.host, tt.port)
		}
	}
}

func TestLocation_IsASCII(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw, want string
	}{
		{"as given", "HTTP://Example.COM.:0080/A//../b/?z=1&&a=%7e%#F",
			"HTTP://Example.COM.:0080/A//../b/?z=1&&a=%7e%#F"},
		{"nothing added", "http://example.com", "http://example.com"},
		{"trimmed", " \r\nhttp://example.com/a\t ", "http://example.com/a"},
		{"spaces", "http://a.example/a b?c d#e f", "http://a.example/a%20b?c%20d#e%20f"},
		{"outside ASCII", "http://a.example/é?ü#ß", "http://a.example/%C3%A9?%C3%BC#%C3%9F"},
		{"host outside ASCII", "HTTPS://Bücher。Example.:443/Ä", "HTTPS://xn--bcher-kva.example:443/%C3%84"},
		{"IPv6 as given", "http://[2001:DB8:0::1]/", "http://[2001:DB8:0::1]/"},
		{"backslash in the query", `http://a.example/?\"<>`, `http://a.example/?\"<>`},
		{"refused, but safe", "http://a.example/a\r\nSet-Cookie:b", "http://a.example/a%0D%0ASet-Cookie:b"},
		{"refused host, but safe", "http://é\u0378/", "http://%C3%A9%CD%B8/"},
	}
	for _, tt := range tests {
		if got := urlnorm.Location(tt.raw); got != tt.want {
			t.Errorf("%s: Location(%q) = %q, want %q", tt.name, tt.raw, got, tt.want)
		}
		checkProperties(t, tt.raw)
	}
}

// checkProperties checks what holds for every text, accepted or not.
func checkProperties(t testing.TB, raw string) {
	t.Helper()
	location := urlnorm.Location(raw)
	checkHeaderSafe(t, location)
	u, err := urlnorm.Canonical(raw)
	if err != nil {
		if _, ok := errors.AsType[*urlnorm.Error](err); !ok {
			t.Errorf("Canonical(%q) fails with %T, want an Error", raw, err)
		}
		return
	}
	checkHeaderSafe(t, u.String())
	for _, form := range []string{u.String(), location} {
		again, err := urlnorm.Canonical(form)
		if err != nil {
			t.Errorf("Canonical(%q) of %q: %v", form, raw, err)
			continue
		}
		if again != u {
			t.Errorf("Canonical(%q) = %q, want %q as for %q", form, again, u, raw)
		}
	}
	if again := urlnorm.Location(location); again != location {
		t.Errorf("Location(%q) = %q, want it unchanged", location, again)
	}
}

func checkHeaderSafe(t testing.TB, s string) {
	t.Helper()
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			t.Errorf("%q holds the byte %#x", s, s[i])
		}
	}
}

// TestCanonical_IsIdempotent builds URLs from parts with a special meaning. All of them must be
// accepted: the delimiter keeps invalid parts out of the authority.
func TestCanonical_IsIdempotent(t *testing.T) {
	t.Parallel()
	pieces := func(of ...string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(of), 0, 12).Draw(t, "pieces"), "")
		})
	}
	scheme := rapid.SampledFrom([]string{"http://", "HTTPS://", " hTTp://"})
	host := rapid.SampledFrom([]string{"a.example", "A.Example.", "bücher.example", "xn--bcher-kva.EXAMPLE",
		"א.example", "１.2.3.4", "[::ffff:1.2.3.4]", "[1::0:1]", "a_b。c｡", "straẞe", "i❤"})
	port := rapid.SampledFrom([]string{"", ":", ":80", ":443", ":00080", ":8443"})
	rest := pieces("/", "//", ".", "..", "%2e", "%2E%2e", "%", "%2", "%41", "%25", "%2f", "%3d", "%26", "%c3%a9", "a",
		"B", "é", "e\u0301", " ", "?", "&", "&&", "=", "+", "[", "|", "~", "#", ";", ":", "@", "\u00a0", "\U0001f600")
	rapid.Check(t, func(t *rapid.T) {
		raw := scheme.Draw(t, "scheme") + host.Draw(t, "host") + port.Draw(t, "port") +
			rapid.SampledFrom([]string{"/", "?", "#"}).Draw(t, "delimiter") + rest.Draw(t, "rest")
		u, err := urlnorm.Canonical(raw)
		if err != nil {
			t.Fatalf("Canonical(%q): %v", raw, err)
		}
		if path, _, _ := strings.Cut(u.String(), "?"); strings.Contains(path+"/", "/../") ||
			strings.Contains(path, "#") {
			t.Fatalf("Canonical(%q) = %q", raw, u)
		}
		for _, form := range []string{u.String(), urlnorm.Location(raw)} {
			if again, err := urlnorm.Canonical(form); err != nil || again != u {
				t.Fatalf("Canonical(%q) = %q, %v, want %q as for %q", form, again, err, u, raw)
			}
		}
	})
}

func FuzzCanonical(f *testing.F) {
	g := readGolden(f)
	for _, v := range g.Vectors {
		f.Add(v.URL)
	}
	for _, r := range g.Rejects {
		f.Add(r.URL)
	}
	for _, raw := range []string{"http://a/%2541%%41%4%31", "http://a/b//../%2e%2E/./c/..",
		"http://a?~=1&é=2&&=#é \u00a0",
		"http://[::ffff:7f00:1]:080/", "http://Straße。example./ ", "http://xn--i-7iq/", "http://0x7f.1"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkProperties(t, raw) })
}

// FuzzHost spends all its effort on the part that other code than this package converts.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"a.example.", "Bücher。Example", "xn--bcher-kva", "xn--é-", "xn--", "i❤.ws", "אב.١",
		"aℵb",
		"a\u200db", "ΣΊΓΜΑΣ", "straẞe", "\u0378", "①.②.③.④", "0x7f.1", "[::ffff:1.2.3.4]", "a…b",
		"xn--0ca24w.xn--4dbcd"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		raw := "http://" + host + "/"
		checkProperties(t, raw)
		u, err := urlnorm.Canonical(raw)
		if err != nil || strings.ContainsAny(host, "[/?#:") || strings.ContainsFunc(host, notASCII) {
			return
		}
		// A name in ASCII is only lower-cased: nothing may turn it into another name.
		if want := strings.TrimSuffix(strings.ToLower(host), "."); u.Host() != want {
			t.Errorf("Canonical(%q) has host %q, want %q", raw, u.Host(), want)
		}
	})
}

func notASCII(r rune) bool { return r >= utf8.RuneSelf }
