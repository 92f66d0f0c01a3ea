package visitor

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAgent_RecognizesBrowsers(t *testing.T) {
	t.Parallel()
	const (
		windows  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) "
		mac      = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) "
		linux    = "Mozilla/5.0 (X11; Linux x86_64) "
		android  = "Mozilla/5.0 (Linux; Android 10; K) "
		iPhone   = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
		iPad     = "Mozilla/5.0 (iPad; CPU OS 17_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
		webKit   = "AppleWebKit/537.36 (KHTML, like Gecko) "
		appleKit = "AppleWebKit/605.1.15 (KHTML, like Gecko) "
		view     = "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A.240905.003; wv) " + webKit +
			"Version/4.0 Chrome/130.0.6723.102 Mobile Safari/537.36 "
	)
	agents := newAgents()
	for _, c := range []struct{ text, device, browser, os string }{
		{windows + webKit + "Chrome/130.0.0.0 Safari/537.36", Desktop, "Chrome", "Windows"},
		{mac + webKit + "Chrome/130.0.0.0 Safari/537.36", Desktop, "Chrome", "macOS"},
		{linux + webKit + "Chrome/130.0.0.0 Safari/537.36", Desktop, "Chrome", "Linux"},
		{"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) " + webKit +
			"Chrome/130.0.0.0 Safari/1", Desktop, "Chrome", "ChromeOS"},
		{android + webKit + "Chrome/130.0.0.0 Mobile Safari/537.36", Mobile, "Chrome", "Android"},
		{android + webKit + "Chrome/130.0.0.0 Safari/537.36", Tablet, "Chrome", "Android"},
		{iPhone + "CriOS/130.0.6723.90 Mobile/15E148 Safari/604.1", Mobile, "Chrome", "iOS"},
		{iPad + "CriOS/130.0.6723.90 Mobile/15E148 Safari/604.1", Tablet, "Chrome", "iOS"},
		{windows + webKit + "Chrome/130.0.0.0 Safari/537.36 Edg/130.0.2849.68", Desktop, "Edge", "Windows"},
		{android + webKit + "Chrome/130.0.6723.102 Mobile Safari/537.36 EdgA/130.0.2849.56", Mobile, "Edge", "Android"},
		{mac + "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15", Desktop, "Safari", "macOS"},
		{iPhone + "Version/18.0 Mobile/15E148 Safari/604.1", Mobile, "Safari", "iOS"},
		{mac + appleKit + "CriOS/130 Version/11.1.1 Safari/605.1.15", Tablet, "Chrome", "iOS"},
		{mac + appleKit + "FxiOS/132.0 Safari/605.1.15", Tablet, "Firefox", "iOS"},
		{mac + appleKit + "Version/17.0 EdgiOS/130.0 Safari/605.1.15", Tablet, "Edge", "iOS"},
		{mac + appleKit + "Version/17.5 Safari/605.1.15 OPT/4.8", Tablet, "Opera", "iOS"},
		{mac + appleKit + "Version/17.5 Safari/605.1.15 OPX/2.5", Tablet, "Safari", "iOS"},
		{android + webKit + "Chrome/70.0 Mobile Safari/537.36 OPT/1.10.33", Mobile, "Opera", "Android"},
		{mac + appleKit + "GSA/340.3 Safari/604.1", Tablet, "Google", "iOS"},
		{mac + appleKit + "Version/17.5 YaBrowser/24.6 Mobile/15E148 Safari/605.1", Tablet, "Yandex Browser", "iOS"},
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 " +
			"Firefox/132.0", Desktop, "Firefox", "Windows"},
		{"Mozilla/5.0 (X11; FreeBSD amd64; rv:132.0) Gecko/20100101 Firefox/132.0", Desktop, "Firefox", "FreeBSD"},
		{"Mozilla/5.0 (Android 14; Tablet; rv:132.0) Gecko/132.0 Firefox/132.0", Tablet, "Firefox", "Android"},
		{android + webKit + "SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile " +
			"Safari/537.36", Mobile, "Samsung Internet", "Android"},
		{windows + webKit + "Chrome/130.0.0.0 Safari/537.36 OPR/114.0.0.0", Desktop, "Opera", "Windows"},
		{"Opera/9.80 (Android; Opera Mini/36.2.2254/119.132; U; id) Presto/2.12 " +
			"Version/12.1", Mobile, "Opera Mini", "Android"},
		{"Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like " +
			"Gecko", Desktop, "Internet Explorer", "Windows"},
		{"Mozilla/5.0 (Linux; Android 13; CUBOT P80) " + webKit +
			"Chrome/1 Mobile Safari/1", Mobile, "Chrome", "Android"},
		{"Mozilla/5.0 (Mobile; Nokia_2720; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5.2.1", Mobile, "Firefox", "KaiOS"},

		{view + "[FB_IAB/FB4A;FBAV/488.0.0.64.75;]", Mobile, "Facebook", "Android"},
		{iPhone + "Mobile/21G93 " +
			"[FBAN/FBIOS;FBAV/488.0.0.51.103;FBBV/653056969;FBDV/iPhone14,5]", Mobile, "Facebook", "iOS"},
		{iPhone + "Mobile/21G93 [FBAN/MessengerForiOS;FBAV/488.0.0.51.103]", Mobile, "Messenger", "iOS"},
		{iPhone + "Mobile/21G93 Instagram 354.0.0.20.91 (iPhone14,5; iOS 17_6_1; en_US; en; scale=3.00; " +
			"1170x2532; 653456)", Mobile, "Instagram", "iOS"},
		{iPhone + "Mobile/15E148 musical_ly_36.5.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/en " +
			"Region/US", Mobile, "TikTok", "iOS"},
		{iPhone + "Mobile/15E148 [LinkedInApp]/9.29.9500", Mobile, "LinkedIn", "iOS"},
		{"DuckDuckGo/5 Mozilla/5.0 (Linux; Android 14) " + webKit +
			"Version/4.0 Chrome/130.0.0.0 Mobile Safari/537.36", Mobile, "DuckDuckGo", "Android"},

		{"Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.5) " + webKit +
			"85.0.4183.93/6.5 TV Safari/537.36", TV, "Safari", "Tizen"},
		{"Mozilla/5.0 (Web0S; Linux/SmartTV) " + webKit +
			"Chrome/94.0.4606.128 Safari/537.36 WebAppManager", TV, "webOS", "webOS"},
		{"Mozilla/5.0 (Linux; Android 12; BRAVIA 4K UR2 Build/STT1.211025.001.Z4) " + webKit +
			"Chrome/130.0 Safari/537.36", TV, "Chrome", "Android"},
		{"Mozilla/5.0 (Linux; Android 9; AFTMM Build/PS7649; wv) " + webKit +
			"Silk/130.3.1 like Chrome/130.0 Safari/537.3", TV, "Amazon Silk", "Android"},
		{"Mozilla/5.0 (PlayStation 5 3.03/SmartTV) AppleWebKit/605.1.15 (KHTML, like " +
			"Gecko)", Console, "PlayStation", "PlayStation"},
		{"Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/609.4 (KHTML, like Gecko) NF/6 " +
			"NintendoBrowser/5.1", Console, "Nintendo Browser", "Nintendo"},
		{"Mozilla/5.0 (X11; Linux x86_64; Quest 3) " + webKit +
			"OculusBrowser/35.2 Chrome/126.0 VR Safari/537.36", Other, "Meta Quest Browser", "Linux"},
		{"Mozilla/5.0 (Unheard of)", Other, "", ""},
	} {
		if got := agents.classify(c.text); got != (agent{c.device, c.browser, c.os, false}) {
			t.Errorf("%s: %+v, want %+v", c.text, got, c)
		}
	}
}

// bots are user agents of bots. Most identify themselves.
var bots = []string{
	"",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/130.0.6723.69 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) " +
		"Chrome/116.0.1938.76 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 " +
		"Safari/605.1.15 (Applebot/0.1)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
	"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
	"curl/8.10.1",
	"Go-http-client/1.1",
	"node",
	"Dart/3.5 (dart:io)",
	"Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/AP2A.240905.003)",
	"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
	"Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
	"kube-probe/1.30",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/130.0.6723.58 Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/118.0.0.0 Safari/537.36 " +
		"Chrome-Lighthouse",
	"Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
	"Mozilla/5.0",
	"-",
	"\x00\xff",
}

func TestAgent_RecognizesBots(t *testing.T) {
	t.Parallel()
	agents := newAgents()
	for _, text := range bots {
		if diff := cmp.Diff(agent{bot: true}, agents.classify(text), cmp.AllowUnexported(agent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestAgent_FloodIsBounded(t *testing.T) {
	t.Parallel()
	agents := newAgents()
	now := time.Unix(1_800_000_000, 0)
	agents.crawlers.now = func() time.Time { return now }
	matched := 0
	for i := range 20_000 {
		text := fmt.Sprintf("Mozilla/5.0 (%d)", i)
		agents.classify(text)
		if _, ok := agents.memo.GetIfPresent(text); ok {
			matched += len(text)
		}
	}
	if matched < 60<<10 || matched > 64<<10 {
		t.Errorf("%d bytes matched against the crawler list at once, want 64 KiB", matched)
	}
	if got := agents.classify("Mozilla/5.0 (Linux) HeadlessChrome/130"); !got.bot {
		t.Error("when the budget is exhausted, a declared bot is classified as a browser")
	}
	if got := agents.classify(chrome); got.bot || got.browser != "Chrome" {
		t.Errorf("when the budget is exhausted, got %+v, want Chrome", got)
	}
	if _, ok := agents.memo.GetIfPresent(chrome); ok {
		t.Error("an uncertain result is cached")
	}
	now = now.Add(time.Second)
	agents.classify(chrome)
	if _, ok := agents.memo.GetIfPresent(chrome); !ok {
		t.Error("a second later, the crawler list is not used")
	}
}

func TestAgent_CacheIsBounded(t *testing.T) {
	agents := newAgents()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100_000 {
		agents.memo.Set(fmt.Sprintf("%s %d", chrome, i), agent{device: Desktop, browser: "Chrome", os: "Windows"})
	}
	agents.memo.CleanUp()
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d agents in %d bytes, reported as %d", agents.memo.EstimatedSize(), used, agents.memo.WeightedSize())
	if weight := agents.memo.WeightedSize(); weight > memoBytes || used > 2*memoBytes {
		t.Errorf("100,000 agents take %d bytes, reported as %d, want at most %d", used, weight, memoBytes)
	}
	runtime.KeepAlive(agents)
}

func BenchmarkAgentMiss(b *testing.B) {
	for _, bench := range []struct {
		name, text string
		afford     bool
	}{
		{"common", chrome, true},
		{"longest", "Mozilla/5.0 (" + strings.Repeat("a", 490), true},
		{"common in a flood", chrome, false},
		{"longest in a flood", "Mozilla/5.0 (" + strings.Repeat("a", 490), false},
		{"curl", "curl/8.10.1", false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			agents := newAgents()
			now := time.Unix(1_800_000_000, 0)
			agents.crawlers.now = func() time.Time {
				if bench.afford {
					now = now.Add(time.Second)
				}
				return now
			}
			if !bench.afford {
				for agents.crawlers.afford(time.Microsecond * 100) {
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				agents.classify(fmt.Sprintf("%s%d", bench.text, i))
			}
		})
	}
}
