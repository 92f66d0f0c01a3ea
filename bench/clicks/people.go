package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/linkforge/linkforge/internal/visitor"
)

const (
	chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/"
	mac    = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/"
	phone  = "Mozilla/5.0 (iPhone; CPU iPhone OS "
	droid  = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/"
)

// agents are User-Agent headers, and how many of a thousand clicks each has.
var agents = []struct {
	text   string
	weight int
}{
	{chrome + "130.0.0.0 Safari/537.36", 120}, {chrome + "129.0.0.0 Safari/537.36", 50},
	{chrome + "109.0.0.0 Safari/537.36", 10},
	{chrome + "130.0.0.0 Safari/537.36 Edg/130.0.2849.68", 60}, {chrome + "130.0.0.0 Safari/537.36 OPR/114.0.0.0", 12},
	{chrome + "130.0.0.0 Safari/537.36 Vivaldi/7.0.3495.11", 2},
	{chrome + "130.0.0.0 YaBrowser/24.10.1.669 Yowser/2.5 Safari/537.36", 5},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132.0", 35},
	{"Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", 2},
	{mac + "537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36", 55},
	{mac + "605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15", 45},
	{"Mozilla/5.0 (Macintosh; Intel Mac OS X 14.7; rv:132.0) Gecko/20100101 Firefox/132.0", 10},
	{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36", 12},
	{"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0", 12},
	{"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36", 8},
	{droid + "130.0.0.0 Mobile Safari/537.36", 150}, {droid + "128.0.0.0 Mobile Safari/537.36", 40},
	{droid + "130.0.0.0 Safari/537.36", 8},
	{droid + "130.0.6723.102 Mobile Safari/537.36 EdgA/130.0.2849.56", 4},
	{droid + "130.0.6723.102 Mobile Safari/537.36 OPR/76.2.4027.73374", 5},
	{"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 " +
		"Mobile Safari/537.36", 25},
	{"Mozilla/5.0 (Android 14; Mobile; rv:132.0) Gecko/132.0 Firefox/132.0", 6},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
		110},
	{phone + "16_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1", 25},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/130.0.6723.90 Mobile/15E148 " +
		"Safari/604.1", 15},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/341.1.690284331 Mobile/15E148 " +
		"Safari/604.1", 8},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21G93 Instagram 354.0.0.20.91 " +
		"(iPhone14,5)", 22},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21G93 " +
		"[FBAN/FBIOS;FBAV/488.0.0.51.103]", 18},
	{phone + "17_6_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.29.9500", 6},
	{"Mozilla/5.0 (iPad; CPU OS 17_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 " +
		"Safari/604.1", 10},
	{"Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 " +
		"WebAppManager", 2},
	{"Mozilla/5.0 (PlayStation 5 3.03/SmartTV) AppleWebKit/605.1.15 (KHTML, like Gecko)", 1},
	{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", 20},
	{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) " +
		"Chrome/116.0.1938.76 Safari/537.36", 10},
	{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot", 8},
	{"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", 15}, {"WhatsApp/2.24.20.89 A", 12},
	{"Twitterbot/1.0", 8},
	{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", 14},
	{"TelegramBot (like TwitterBot)", 5},
	{"curl/8.10.1", 3}, {"python-requests/2.32.3", 6},
	{"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", 6},
}

// The lists that clicks are made of, the most common first. Some of each are not known.
var (
	sites = []string{
		"google.com", "facebook.com", "t.co", "instagram.com", "linkedin.com", "reddit.com", "youtube.com", "bing.com",
		"duckduckgo.com",
		"news.ycombinator.com", "mail.google.com", "outlook.live.com", "pinterest.com", "tiktok.com", "web.whatsapp.com",
		"github.com", "medium.com",
		"google.de", "google.co.uk", "google.fr", "google.co.in", "google.com.br", "wikipedia.org", "quora.com",
		"stackoverflow.com", "twitter.com",
		"l.facebook.com", "lm.facebook.com", "m.facebook.com", "out.reddit.com", "old.reddit.com", "yandex.ru", "baidu.com",
		"ecosia.org",
		"search.brave.com", "yahoo.com", "mail.yahoo.com", "substack.com", "bsky.app", "mastodon.social", "threads.net",
		"discord.com", "slack.com",
		"teams.microsoft.com", "notion.so", "trello.com", "producthunt.com", "dev.to", "hackernoon.com", "heise.de",
		"spiegel.de", "lemonde.fr",
		"theguardian.com", "nytimes.com", "bbc.co.uk", "cnn.com", "elpais.com", "globo.com", "naver.com", "vk.com",
	}
	countries = []string{
		"US", "DE", "GB", "IN", "FR", "BR", "CA", "ES", "IT", "NL", "AU", "JP", "PL", "MX", "SE", "CH", "AT", "BE", "ID",
		"TR", "PT", "AR", "DK", "NO",
		"FI", "IE", "ZA", "NP", "KR", "NZ",
	}
	languages = []string{"en-US,en;q=0.9", "de-DE,de;q=0.9,en;q=0.8", "es-ES,es", "fr-FR,fr", "pt-BR,pt", "it-IT", "nl-NL",
		"pl", "ja", "hi-IN"}
	campaigns = []string{
		"utm_source=newsletter&utm_medium=email&utm_campaign=spring_sale",
		"utm_source=newsletter&utm_medium=email&utm_campaign=autumn%20sale",
		"utm_source=google&utm_medium=cpc&utm_campaign=brand&utm_term=short+links",
		"utm_source=facebook&utm_medium=paid_social&utm_campaign=launch&utm_content=video",
		"utm_source=partner&utm_medium=referral",
	}
)

// crowd is how many people follow links. One of them is an address that keeps its agent, country
// and language.
const crowd = 50_000

// person is one of the crowd, in places of the lists; of countries and languages, 0 is not known.
type person struct {
	address                  string
	agent, country, language uint8
	private                  bool
}

// world is who follows links and from where, as visit.Reader reads it.
type world struct {
	people                       []person
	agents, referrers, campaigns []visitor.Visit
	countryCodes, languageCodes  []string
}

// newWorld reads every agent, referrer, language and campaign once.
func newWorld(random *rand.Rand) *world {
	w := &world{referrers: make([]visitor.Visit, 1), campaigns: make([]visitor.Visit, 1),
		countryCodes: append([]string{""}, countries...), languageCodes: []string{""}}
	reader := visitor.NewReader(nil)
	read := func(header, value, query string) visitor.Visit {
		request := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{header: {value}}}
		return reader.Read(request, netip.Addr{}, "")
	}
	var byWeight []uint8
	for i, a := range agents {
		w.agents = append(w.agents, read("User-Agent", a.text, ""))
		for range a.weight {
			byWeight = append(byWeight, uint8(i))
		}
	}
	for _, site := range sites {
		w.referrers = append(w.referrers, visitor.Visit{Referrer: read("Referer", "https://www."+site+"/some/page?q=1", "").
			Referrer})
	}
	for _, language := range languages {
		w.languageCodes = append(w.languageCodes, read("Accept-Language", language, "").Language)
	}
	for _, campaign := range campaigns {
		w.campaigns = append(w.campaigns, read("User-Agent", "", campaign))
	}
	country, language := rand.NewZipf(random, 1.2, 2, uint64(len(countries))),
		rand.NewZipf(random, 1.5, 1, uint64(len(languages)))
	for i := range crowd {
		w.people = append(w.people, person{
			address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), agent: byWeight[random.IntN(len(byWeight))],
			// The first of either list is the most common, what is not known is the rarest.
			country:  uint8((country.Uint64() + 1) % uint64(len(w.countryCodes))),
			language: uint8((language.Uint64() + 1) % uint64(len(w.languageCodes))),
			private:  random.IntN(33) == 0,
		})
	}
	return w
}

// anyone draws a person: some come more often than others.
func (w *world) anyone(random *rand.Rand) *person {
	u := random.Float64()
	return &w.people[int(u*u*crowd)]
}
