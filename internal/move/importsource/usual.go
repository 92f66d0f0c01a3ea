package importsource

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

// The usual properties say when, how often and whether a link redirects, by the names that databases
// and services have for them. A file of one's own has all of them; of an item of another source they
// are those that the table of its format lacks, so that no limit and no block is ignored because its
// name is that of another source.
//
// A name is read as words, and each word has a class, a letter. What the letters of a name match is
// its meaning. A name with a word that is not listed means nothing, except for passwords.

// classes are the words of names and of states by their class.
var classes = map[rune]string{
	'<': "is has have was be are link links url my auto soft shadow item record go awaits",
	'>': "flag flags text name yn y n bool boolean value hash int str string",
	'.': "the as short current unlock basic does",
	'T': "at on date dates time times timestamp datetime ts utc gmt ms millis milliseconds epoch unix unixtime",
	'D': "in for days day hours hour minutes seconds secs weeks months",
	// ends and starts
	'X': "expire expires expiry expiration expirations exp expiring deadline ttl timetolive termination " +
		"deactivate deactivates deactivation unpublish unpublishes due sunset ablauf ablaufdatum läuftab gültigbis " +
		"gueltigbis caducidad vencimiento scadenza",
	'j': "lifetime",
	'x': "expired ended",
	'E': "end ends",
	'U': "until till",
	't': "to thru through before",
	'S': "start starts started starting begin begins beginning activation activates effective launch launches " +
		"scheduled schedule release releases",
	'F': "from since after",
	'H': "hide hides hidden embargo embargoed",
	'v': "window period validity workflow review",
	// states
	'V': "privacy accesslevel mode status statuses state states lifecycle visibility moderation approval availability",
	'O': "unblocked unbanned unlocked restored reinstated aktiv actif activo ativo attivo actief active enabled " +
		"approved available visible public online alive safe verified working show shown running " +
		"accessible functional usable inuse useyn healthy",
	'i': "valid",
	'P': "published activated live",
	'e': "enable activate publish publication golive",
	'o': "open opens",
	'A': "allowed allow permitted",
	'B': "gesperrt deaktiviert gelöscht geloescht désactivé desactivado supprimé eliminado disabled disable ban " +
		"bans banned block blocks blocked blacklist blacklisted blocklist blocklisted delete " +
		"deleted deletion del removed remove removal trash trashed intrash suspend suspended suspension draft pause " +
		"paused inactive deactivated unpublished private revoke revoked lock locked frozen freeze quarantine " +
		"quarantined flagged spam malicious malware phishing scam fraud unsafe abuse abusive offline stop stopped " +
		"close " +
		"closes closed canceled cancelled reject rejected exhausted consumed pending awaitingapproval awaitingreview " +
		"needsapproval needsreview onhold underreview invalid terminated terminate retired retire obsolete dead " +
		"broken " +
		"discontinued reported internal denied forbidden takedown takendown down unavailable unapproved unverified " +
		"invisible dropped withdrawn void voided destroyed erased purged defunct decommissioned deprecated disallowed",
	'R': "archived",
	'N': "not non no never without isnt",
	'Y': "by reason",
	// limits and counts
	'M': "max maximum limit limits cap quota",
	'm': "limited",
	'c': "engagements clicks visits hits views uses used usage usages",
	'C': "click visit hit view requests request scans scan",
	's': "access accesses",
	'u': "use",
	'r': "redirect redirects redirection",
	'L': "remaining",
	'l': "left remain remains",
	'K': "all overall sofar count counts counter num number total totals of human unique",
	'Z': "age",
	// secrets and gates
	'w': "motdepasse contraseña senha wachtwoord password passwords passwd passwort kennwort pwd passphrase passcode",
	'W': "passkey otp pass pw pin pincode secret secrets secretkey credential credentials auth accesscode " +
		"unlockcode protected " +
		"protection passhash",
	'G': "onetime onetimeuse onetimelink singleuse oneuse singleclick oneclick selfdestruct selfdestructing " +
		"burnafterreading burnafterread viewonce restricted membersonly ssoonly allowlist whitelist denylist " +
		"restriction restrictions",
	'q': "require requires required only needs needed",
	'a': "login signin members sso authentication registration account",
	'g': "domain domains device devices city cities continent continents ip ips country countries email emails user " +
		"users geo region regions cidr network networks referrer referrers",
}

// classOf is the class of each word.
var classOf = func() map[string]rune {
	words := map[string]rune{}
	for class, list := range classes {
		for word := range strings.FieldsSeq(list) {
			words[word] = class
		}
	}
	return words
}()

// longestWord is the length of the longest word in classOf.
const longestWord = 20

// meaning is a property and the letters of its names.
type meaning struct {
	letters *regexp.Regexp
	property
}

// subject is that of a usual property whose meaning depends on the object around it.
type subject string

const (
	aboutCounts  subject = "counts"
	aboutEnabled subject = "enabled"
)

func (m meaning) in(about subject) meaning {
	m.about = about
	return m
}

func means(letters string, set setter, describes ...string) meaning {
	return meaning{regexp.MustCompile("^(?:" + letters + ")$"), to(set).as(describes...)}
}

// meanings are tried in this order. T is a word of time, which says nothing by
// itself.
var meanings = []meaning{
	means(`[^?]*[wW][^?]*|.*w.*`, protectSecret),
	means(`[cCuorsKA]*M[McCuorsKA]*|A[cCuors]+|[cCuors]+A|X[FTD]*[cCurs]+`, setLimit, "maxClicks"),
	means(`m|[cCuors]*M[cCuors]*O`, setLimited, "maxClicks"),
	means(`L|K*[cCuors]+K*[Ll]|[Ll]K*[cCuors]+|ML|LM`, setRemaining, "maxClicks"),
	means(`c[Cuc]*|[Kj]+[cCuors]+K*|[cCuors]+[Kc]+`, setClicks).in(aboutCounts),
	means(`HUT*`, setStart, "startsAt"),
	means(`N[XjEM][cCuors]*`, handled),
	means(`XT*O`, setEnding, "expiresAt"),
	means(`T*[Xj][XTDUFtE]*|[OiPeoAvVS]+[UtEX]+T*|[UE]T*|T[EUt]|tT+|[Oiv]D+|M[ZXjT]+|TM|N[OiPeA]*F`, setEnd,
		"expiresAt"),
	means(`S[TDFOP]*|T+S|[OiPeoAvV]+[FS]+T*|FT+|T+F|[eo]T+|N[OiPeA]*t`, setStart, "startsAt"),
	means(`xT*`, setEnded),
	means(`RT*V*`, setArchived, "archived"),
	means(`[PevSr]?V+|s`, setState(Unsupported)),
	means(`[PO]T+|[Pe]`, setSince).in(aboutEnabled),
	means(`r?[OiPeAo]+V*|V[OiPeAo]+|iT+|NB+T*`, setActive).in(aboutEnabled),
	means(`B+UT*`, setBlockedUntil),
	means(`V?[BH]+[BHVTFD]*|N[OiPeAo]+T*|[BH]+Y.*|Y[BH]+|G[TucCr]*|ZG|qa+|a+q|B+q`, setBlocked),
	means(`Bg+|g+B|BG`, setBlocked),
	means(`[AG]g+|g+[AG]|AG`, setAudience),
}

// Parts of names that keep a name from being about the password of the link itself.
var besidePassword = words("hint hints reset reminder question changed updated contact length policy attempts")

// abuses are subjects of scores.
var abuses = words("spam abuse abusive phishing malware malicious scam fraud unsafe")

// tokens are words of values that no report shows, in addition to those of secrets.
var tokens = words("token tokens apikey credential signature hash salt")

func words(list string) map[string]bool {
	is := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		is[word] = true
	}
	return is
}

// usualOf returns the usual property that a name means; nil for any other name. It is tried again
// without what is in brackets, as in "Expires (of the link)".
func usualOf(name string) *property {
	texts := []string{name}
	if strings.ContainsAny(name, "([{") {
		texts = append(texts, inBrackets.ReplaceAllString(name, " "))
	}
	for _, text := range texts {
		split := wordsIn(text)
		letters := lettersOf(split)
		if strings.Trim(letters, "?") == "" {
			continue
		}
		for i := range meanings {
			if m := &meanings[i]; m.letters.MatchString(letters) && !slices.ContainsFunc(split, isBesidePassword) {
				return &m.property
			}
		}
	}
	return nil
}

var inBrackets = regexp.MustCompile(`\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}`)

func isBesidePassword(word string) bool { return besidePassword[word] }

// isSecret reports whether the values of a name are secrets.
func isSecret(name string) bool {
	split := wordsIn(name)
	return strings.ContainsAny(rawLetters(split), "wW") ||
		slices.ContainsFunc(split, func(w string) bool {
			return tokens[w] || strings.Contains(w, "passw") || strings.Contains(w, "pwd") ||
				strings.Contains(w, "secret")
		})
}

// protects reports whether a name without a meaning has a word of an end, a block or a gate, so that
// its value must not be lost silently.
func protects(name string) bool {
	split := wordsIn(name)
	if strings.ContainsAny(rawLetters(split), "wWXxBHUG") {
		return true
	}
	folded := strings.Join(split, "")
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(folded, stem) })
}

var stems = []string{"expir", "delet", "disab", "block", "banned", "passw", "until"}

// lettersOf returns the classes of the words of a name, without those that say nothing: affixes at
// their side of the name, and words between.
func lettersOf(split []string) string {
	letters := strings.ReplaceAll(rawLetters(split), ".", "")
	letters = strings.TrimRight(strings.TrimLeft(letters, "<"), ">")
	return innerAffixes.Replace(letters)
}

// rawLetters returns the class of each word, and ? for one that is not listed.
func rawLetters(split []string) string {
	letters := strings.Builder{}
	for _, word := range split {
		if class, ok := classOf[word]; ok {
			letters.WriteRune(class)
		} else {
			letters.WriteByte('?')
		}
	}
	return letters.String()
}

// camelHump is where a word in camel case begins.
var camelHump = regexp.MustCompile(`(\p{Ll}|\p{Nd})(\p{Lu})|(\p{Lu})(\p{Lu}\p{Ll})`)

var apostrophes = strings.NewReplacer("'", "", "’", "")

// innerAffixes replaces affixes that are not at their side of a name.
var innerAffixes = strings.NewReplacer("<", "?", ">", "?")

// wordsIn returns the words of a name or a state in lower case: what punctuation and camel case
// separate, words that belong together as one, and the listed words of a word that consists of them,
// as in expiresat.
func wordsIn(text string) (split []string) {
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	text = cut(strings.Map(visible, text), maxName)
	text = camelHump.ReplaceAllString(text, "$1$3 $2$4")
	parts := strings.FieldsFunc(strings.ToLower(apostrophes.Replace(text)),
		func(r rune) bool { return !isNameRune(r) })
	for at := 0; at < len(parts); {
		joined, n := joinedAt(parts[at:])
		split, at = append(split, joined...), at+n
	}
	return split
}

// joinedAt returns the listed word that the most of the first parts form together, or what the first
// one consists of, and their number.
func joinedAt(parts []string) (split []string, n int) {
	const most = 4
	for n = min(most, len(parts)); n > 1; n-- {
		if joined := strings.Join(parts[:n], ""); classOf[joined] != 0 {
			return []string{joined}, n
		}
	}
	if split = segments(parts[0]); split == nil {
		split = parts[:1]
	}
	return split, 1
}

// segments returns the fewest listed words that a word consists of; nil if it has others. Single
// letters are no words within it.
func segments(word string) []string {
	if classOf[word] != 0 {
		return []string{word}
	}
	best := make([][]string, len(word)+1)
	best[0] = []string{}
	for end := 2; end <= len(word); end++ {
		for start := max(0, end-longestWord); start <= end-2; start++ {
			isBetter := best[start] != nil && (best[end] == nil || len(best[start])+1 < len(best[end]))
			if part := word[start:end]; isBetter && classOf[part] != 0 {
				best[end] = append(slices.Clone(best[start]), part)
			}
		}
	}
	return best[len(word)]
}

func visible(r rune) rune {
	if validate.Invisible(r) {
		return -1
	}
	return r
}

func isNameRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }

// weak are names that are about a link's limits or not, such as the label of a button: a text of
// other words than those of limits and states is not about them.
var weak = words("start starts begin begins end ends delete block ban trash publish live launch release schedule " +
	"publication open opens mode show hide state access limit limits max maximum quota remaining stop close internal " +
	"effective due approval availability exp")

// doubts are words of values that a limit or a state may have.
var doubts = words("maybe perhaps soon later tomorrow today yesterday now unknown many few some")

// isProse reports whether the value of a weak name is a URL, or a text without numbers of the
// name itself and words that are not listed.
func isProse(v value) bool {
	text := bareText(v.is)
	if text == "" || !weak[nameOf(v.name, true)] {
		return false
	}
	if strings.Contains(text, "://") {
		return true
	}
	_, isTruth := truth(text)
	if isTruth || isNone(text) || isAlways(text) || isUnlimited(text) || openStates[word(text)] ||
		strings.ContainsFunc(text, unicode.IsNumber) {
		return false
	}
	own, split := wordsIn(v.name), wordsIn(text)
	return len(split) > 0 && !slices.ContainsFunc(split, func(w string) bool {
		class, isListed := classOf[w]
		_, isTruth := truths[w]
		isNeutral := strings.ContainsRune("<>.TDFStYKagurcC", class)
		return doubts[w] || isTruth && !isListed && len(w) > 1 || isListed && !isNeutral && !slices.Contains(own, w)
	})
}

// saying is what a text says about a state.
type saying int

// What texts say. A text that only denies is one such as never.
const (
	saysNothing saying = iota
	saysOpen
	saysClosed
	saysNever
)

// said reads a state: words that all say that a link redirects, or one that says that it does not.
func said(is any) saying {
	if text := word(is); openStates[text] {
		return saysOpen
	} else if _, isTruth := truths[text]; isTruth {
		return saysNothing
	}
	says, isDenied, isKnown := saysNothing, false, true
	for _, w := range wordsIn(bareText(is)) {
		class := classOf[w]
		switch {
		case class == 'N':
			isDenied = true
		case strings.Trim(w, "0123456789") == "":
		case strings.ContainsRune("OiPeAo", class) || openStates[w]:
			says = max(says, saysOpen)
			if isDenied {
				says = saysClosed
			}
		case strings.ContainsRune("BHGwW", class) || class == 'x' || class == 'R':
			if !isDenied {
				says = saysClosed
			}
			says = max(says, saysOpen)
		default:
			isKnown = isKnown && strings.ContainsRune("<>.VTcCurs", class) && class != 0
		}
	}
	switch {
	case says == saysNothing && isDenied && isKnown: // as in never
		return saysNever
	case says == saysOpen && !isKnown:
		return saysNothing
	}
	return says
}

func isAlways(is any) bool { return noStart[word(is)] }

// isUnlimited reports whether a text says that there is no end or limit, as in "never expires".
func isUnlimited(is any) bool {
	if noEnd[word(is)] {
		return true
	}
	hasNone := false
	for _, w := range wordsIn(bareText(is)) {
		class := classOf[w]
		switch {
		case class == 'N' || noEnd[w]:
			hasNone = true
		case class == 0 || !strings.ContainsRune("XxEUMTcCursKD<>.", class):
			return false
		}
	}
	return hasNone
}

// truths are the truth values that databases and spreadsheets write. MySQL writes a bit as a byte
// or as b'1', PostgreSQL a bool as t, and spreadsheets a bool in the language of their user, or as a
// mark.
var truths = wordsOf(map[bool]string{
	true: "true t yes y 1 on wahr ja vrai oui verdadero sí si verdadeiro sim vero waar b'1' 0x01 \\x01 \x01 " +
		"x ✓ ✔ ✅ ☑ checked",
	false: "false f no n 0 off falsch nein faux non falso não nao onwaar nee b'0' 0x00 \\x00 \\0 \x00 " +
		"☐ ✗ ✘ ❌ unchecked",
})

// nulls are spellings of no value, in fields that are no texts.
var nulls = wordsOf(map[bool]string{
	true: `null nil none nan nat n/a n.a. #n/a na - -- – — undefined \n`,
})

// isNone reports whether a value is a spelling of no value: also one in brackets or quotation marks,
// and those alone.
func isNone(is any) bool {
	text := word(is)
	inner := strings.Trim(text, "\"'`()[]{}<> ")
	return text != "" && (nulls[text] || nulls[inner] || inner == "")
}

// openStates are further words for states in which a link redirects.
var openStates = wordsOf(map[bool]string{
	true: "ok okay good clean ham success successful normal up",
})

// defaultStates are those that say so in a column of states alone.
var defaultStates = wordsOf(map[bool]string{true: "a default all everyone everybody anyone anybody unlisted 200"})

// anywhere are the audiences that have everyone.
var anywhere = wordsOf(map[bool]string{
	true: "all * any anyone everyone anywhere everywhere world worldwide global 0.0.0.0/0 ::/0",
})

// Spellings of no start, and of no end or limit.
var (
	noStart = wordsOf(map[bool]string{true: "now always immediately -infinity"})
	noEnd   = wordsOf(map[bool]string{
		true: "never unlimited infinite infinity inf forever permanent indefinite indefinitely ∞"})
)

// wordsOf returns words by themselves, from lists with spaces between them.
func wordsOf(lists map[bool]string) map[string]bool {
	words := map[string]bool{}
	for is, list := range lists {
		for word := range strings.SplitSeq(list, " ") {
			words[word] = is
		}
	}
	return words
}
