package visitor

import (
	"strings"

	"github.com/maypok86/otter/v2"
	useragent "github.com/medama-io/go-useragent"
	name "github.com/medama-io/go-useragent/agents"

	"github.com/linkforge/linkforge/internal/platform/memo"
)

const (
	// maxAgent is the length of the part of a User-Agent that is read, in bytes. Those of browsers
	// are shorter than half of it.
	maxAgent = 512
	// memoBytes bounds the cache of user agents: about 15,000.
	memoBytes = 4 << 20
	// memoWeight is the overhead of a cached user agent: the cache's node and table.
	memoWeight = 160
)

// agent has the properties of a user agent. Its texts are constants.
type agent struct {
	device, browser, os string
	bot                 bool
}

// agents parses User-Agent headers and caches the results.
type agents struct {
	parser   *useragent.Parser
	crawlers crawlers
	memo     memo.Cache[string, agent]
}

func newAgents() *agents {
	return &agents{
		parser: useragent.NewParser(),
		memo: memo.New(&otter.Options[string, agent]{
			MaximumWeight: memoBytes,
			Weigher:       func(text string, _ agent) uint32 { return uint32(len(text) + memoWeight) },
		}),
	}
}

// classify returns the properties of a user agent. Texts that are clearly not of a browser are not
// cached, so that a flood of them evicts nothing.
func (a *agents) classify(text string) agent {
	text = text[:min(len(text), maxAgent)]
	if !isBrowser(text) {
		return agent{bot: true}
	}
	if known, ok := a.memo.GetIfPresent(text); ok {
		return known
	}
	bot, sure := IsPreviewCrawler(text), true
	if !bot {
		bot, sure = a.crawlers.isOne(text)
	}
	known := agent{bot: true}
	if !bot {
		known = a.parse(text)
	}
	if sure {
		a.memo.Set(strings.Clone(text), known) // a part of the header would keep the request in memory
	}
	return known
}

func (a *agents) parse(text string) agent {
	// Some apps put their name before the text of their browser, which the parser does not expect.
	parsed := a.parser.Parse(text[max(strings.Index(text, "Mozilla/"), 0):])
	known := agent{browser: findMark(browserMarks, text), os: findMark(osMarks, text)}
	if known.os == "" && isApple(text) {
		known.os = findMark(appleMarks, text)
	}
	if known.browser == "" {
		known.browser = browserName(parsed.Browser())
	}
	if known.os == "" {
		known.os = osName(parsed.OS(), text)
	}
	known.device = deviceOf(text, known.os)
	return known
}

// isApple reports whether a user agent names a device of Apple. Others have some of the same
// browsers.
func isApple(text string) bool {
	return strings.Contains(text, "Macintosh") || strings.Contains(text, "iPhone") || strings.Contains(text, "iPad")
}

// mark maps a part of a user agent to a name.
type mark struct{ part, name string }

// The first mark found holds, so what others pretend to be comes last.
var (
	// browserMarks are apps that show pages themselves, and browsers that the parser takes for
	// another.
	browserMarks = []mark{
		{"MessengerForiOS", "Messenger"}, {"Orca-Android", "Messenger"}, {"FBAN/", "Facebook"}, {"FBAV/", "Facebook"},
		{"Instagram ", "Instagram"}, {"Barcelona ", "Threads"}, {"musical_ly", "TikTok"},
		{"BytedanceWebview", "TikTok"},
		{"TikTok", "TikTok"}, {"LinkedInApp", "LinkedIn"}, {"Snapchat/", "Snapchat"}, {"[Pinterest/", "Pinterest"},
		{"Twitter for ", "X"}, {"MicroMessenger/", "WeChat"}, {" Line/", "LINE"}, {"KAKAOTALK", "KakaoTalk"},
		{" GSA/", "Google"},
		{"DuckDuckGo/", "DuckDuckGo"}, {" Ddg/", "DuckDuckGo"}, {"Opera Mini/", "Opera Mini"},
		{"UCBrowser/", "UC Browser"},
		{"MiuiBrowser/", "Mi Browser"}, {" Silk/", "Amazon Silk"}, {"OculusBrowser/", "Meta Quest Browser"},
		{"PlayStation", "PlayStation"}, {"Web0S", "webOS"},
		{"CriOS/", "Chrome"}, {"FxiOS/", "Firefox"}, {"EdgiOS/", "Edge"}, {" OPT/", "Opera"},
		{" YaBrowser/", "Yandex Browser"},
	}
	osMarks = []mark{
		{"PlayStation", "PlayStation"}, {"Nintendo", "Nintendo"}, {"Xbox", "Xbox"}, {"Web0S", "webOS"},
		{"Tizen", "Tizen"},
		{"HarmonyOS", "HarmonyOS"}, {"OpenHarmony", "HarmonyOS"}, {"KAIOS", "KaiOS"}, {"CrOS", "ChromeOS"},
		{"FreeBSD", "FreeBSD"}, {"OpenBSD", "OpenBSD"},
	}
	// appleMarks are browsers for iOS that name a Macintosh on iPads and for desktop sites.
	appleMarks = []mark{
		{"CriOS/", "iOS"}, {"FxiOS/", "iOS"}, {"EdgiOS/", "iOS"}, {" OPT/", "iOS"}, {" OPiOS/", "iOS"},
		{" OPX/", "iOS"},
		{" Focus/", "iOS"},
	}
	deviceMarks = []mark{
		{"PlayStation", Console}, {"Nintendo", Console}, {"Xbox", Console}, {"OculusBrowser/", Other},
		{"SmartTV", TV}, {"SMART-TV", TV}, {"Smart TV", TV}, {"Android TV", TV}, {"GoogleTV", TV}, {"Google TV", TV},
		{"AppleTV", TV}, {"Apple TV", TV}, {"Web0S", TV}, {"NetCast", TV}, {"HbbTV", TV}, {"BRAVIA", TV}, {"VIDAA", TV},
		{"; AFT", TV}, {"CrKey", TV}, {"Roku", TV}, {"Opera Mini/", Mobile},
	}
)

// browsers and systems are the names that classify returns.
var (
	browsers = namesOf(browserMarks, browserName, name.BrowserAndroid, name.BrowserChrome, name.BrowserEdge,
		name.BrowserFirefox, name.BrowserIE, name.BrowserOpera, name.BrowserOperaMini, name.BrowserSafari,
		name.BrowserVivaldi, name.BrowserSilk, name.BrowserSamsung, name.BrowserFalkon, name.BrowserNintendo,
		name.BrowserYandex, name.BrowserHuawei)
	systems = namesOf(osMarks, func(o name.OS) string { return osName(o, "") }, name.OSAndroid, name.OSChromeOS,
		name.OSIOS, name.OSLinux, name.OSFreeBSD, name.OSOpenBSD, name.OSMacOS, name.OSWindows)
)

// namesOf returns the names of marks and of the parser's constants, in lower case.
func namesOf[T ~string](marks []mark, nameOf func(T) string, constants ...T) map[string]bool {
	names := map[string]bool{}
	for _, m := range marks {
		names[strings.ToLower(m.name)] = true
	}
	for _, c := range constants {
		names[strings.ToLower(nameOf(c))] = true
	}
	return names
}

// IsBrowser reports whether visits can have a name of a browser, in upper or lower case.
func IsBrowser(name string) bool { return browsers[strings.ToLower(name)] }

// IsOS reports whether visits can have a name of an operating system, in upper or lower case.
func IsOS(name string) bool { return systems[strings.ToLower(name)] }

func findMark(marks []mark, text string) string {
	for _, m := range marks {
		if strings.Contains(text, m.part) {
			return m.name
		}
	}
	return ""
}

func browserName(b name.Browser) string {
	switch b {
	case name.BrowserIE:
		return "Internet Explorer"
	case name.BrowserSamsung:
		return "Samsung Internet"
	}
	return string(b)
}

func osName(o name.OS, text string) string {
	switch {
	case o == name.OSMacOS && (strings.Contains(text, " Mobile/") || strings.Contains(text, " GSA/")): // apps on iPads
		return "iOS"
	case o == name.OSMacOS:
		return "macOS"
	case o == "" && strings.Contains(text, "Android"):
		return "Android"
	case o == "" && strings.Contains(text, "Linux"):
		return "Linux"
	}
	return string(o)
}

// deviceOf returns the kind of device. On Android only telephones send "Mobile". Safari on most
// iPads sends the same text as on a Mac and is counted as a desktop's. An iOS browser that names a
// Macintosh is on an iPad, or on an iPhone that requests a desktop site, which is rarer.
func deviceOf(text, os string) string {
	if device := findMark(deviceMarks, text); device != "" {
		return device
	}
	isMobile := strings.Contains(text, "Mobile")
	switch os {
	case "Android", "HarmonyOS":
		if isMobile {
			return Mobile
		}
		return Tablet
	case "iOS":
		if strings.Contains(text, "iPad") || strings.Contains(text, "Macintosh") {
			return Tablet
		}
		return Mobile
	case "KaiOS":
		return Mobile
	case "Tizen":
		if isMobile {
			return Mobile
		}
		return TV
	case "":
		return Other
	}
	return Desktop
}
