package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// agentList has a User-Agent header a line, after its share of clicks in thousandths.
//
//go:embed agents.txt
var agentList string

// Other properties of clicks, the most frequent first.
var (
	sites = strings.Fields(`google.com facebook.com t.co instagram.com linkedin.com reddit.com youtube.com bing.com
		duckduckgo.com news.ycombinator.com mail.google.com outlook.live.com pinterest.com tiktok.com web.whatsapp.com
		github.com medium.com google.de google.co.uk google.fr google.co.in google.com.br wikipedia.org quora.com
		stackoverflow.com twitter.com l.facebook.com lm.facebook.com m.facebook.com out.reddit.com old.reddit.com
		yandex.ru baidu.com ecosia.org search.brave.com yahoo.com mail.yahoo.com substack.com bsky.app
		mastodon.social threads.net
		discord.com slack.com teams.microsoft.com notion.so trello.com producthunt.com dev.to hackernoon.com heise.de
		spiegel.de lemonde.fr theguardian.com nytimes.com bbc.co.uk cnn.com elpais.com globo.com naver.com vk.com`)
	countries = strings.Fields("US DE GB IN FR BR CA ES IT NL AU JP PL MX SE CH AT BE ID TR PT AR DK NO FI IE ZA NP " +
		"KR NZ")
	languages = strings.Fields("en-US,en;q=0.9 de-DE,de;q=0.9,en;q=0.8 es-ES,es fr-FR,fr pt-BR,pt it-IT nl-NL pl ja " +
		"hi-IN")
	campaigns = strings.Fields(`utm_source=newsletter&utm_medium=email&utm_campaign=spring_sale
		utm_source=newsletter&utm_medium=email&utm_campaign=autumn%20sale
		utm_source=google&utm_medium=cpc&utm_campaign=brand&utm_term=short+links
		utm_source=facebook&utm_medium=paid_social&utm_campaign=launch&utm_content=video
		utm_source=partner&utm_medium=referral`)
)

// person is a visitor: an address with an agent, a country and a language.
type person struct {
	address, agent string
	visit          visitor.Visit
	private        bool // sent Do Not Track
}

// stream generates clicks in the order of time.
type stream struct {
	begin, end     time.Time
	total, sent    int
	links          []string // IDs
	random         *rand.Rand
	ranks, sources *rand.Zipf
	people         []person
	referrers      []string
	campaigns      []visitor.Visit

	day  int64 // since 1970
	key  visitor.Key
	seen map[int64]bool // visitors of the day
	// visits is the number of first clicks of a visitor on a link and day, sentBy that of clicks by
	// dimension and value.
	visits int64
	sentBy map[click.Dimension]map[string]int64
}

func newStream(total int, end time.Time) *stream {
	random := rand.New(rand.NewPCG(seed, 0))
	s := &stream{begin: click.MonthOf(end).Start().AddDate(0, -*months, 0), end: end, total: total, random: random,
		ranks:   rand.NewZipf(random, rig.Skew, 1, uint64(*linkCount-1)),
		sources: rand.NewZipf(random, 1.3, 1, uint64(len(sites)-1)), sentBy: map[click.Dimension]map[string]int64{}}
	for k := range *linkCount { // popular links are of any age
		s.links = append(s.links, id.Join(id.Link, int64(random.Uint64()>>1), int64(k)))
	}
	for _, d := range click.StoredDimensions {
		s.sentBy[d.Name] = map[string]int64{}
	}
	reader := visitor.NewReader(nil)
	read := func(header, value, query string) visitor.Visit {
		request := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{header: {value}}}
		got := reader.Read(request, netip.Addr{})
		return got.Stored(query, "")
	}
	for _, site := range sites {
		s.referrers = append(s.referrers, read("Referer", "https://www."+site+"/some/page?q=1", "").Referrer)
	}
	for _, campaign := range campaigns {
		s.campaigns = append(s.campaigns, read("User-Agent", "", campaign))
	}
	var agents []string // as often as their weight
	visits := map[string]visitor.Visit{}
	for line := range strings.Lines(agentList) {
		weight, agent, _ := strings.Cut(strings.TrimSpace(line), " ")
		for range rig.Must(strconv.Atoi(weight)) {
			agents = append(agents, agent)
		}
		visits[agent] = read("User-Agent", agent, "")
	}
	country := rand.NewZipf(random, 1.2, 2, uint64(len(countries)))
	language := rand.NewZipf(random, 1.5, 1, uint64(len(languages)))
	for i := range crowd {
		p := person{address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255),
			agent:   agents[random.IntN(len(agents))],
			private: random.IntN(33) == 0}
		p.visit = visits[p.agent]
		if c := int(country.Uint64()); c < len(countries) { // else it is not known
			p.visit.Country = countries[c]
		}
		if l := int(language.Uint64()); l < len(languages) {
			p.visit.Language = read("Accept-Language", languages[l], "").Language
		}
		if p.private {
			p.visit = visitor.Visit{Bot: p.visit.Bot}
		}
		s.people = append(s.people, p)
	}
	return s
}

// crowd is the number of people.
const crowd = 50_000

// next generates the next click. It returns false after the last one.
func (s *stream) next(c *click.Click) bool {
	if s.sent == s.total {
		return false
	}
	part := (float64(s.sent) + s.random.Float64()) / float64(s.total)
	at := s.begin.Add(time.Duration(part * float64(s.end.Sub(s.begin)))).Truncate(time.Microsecond)
	s.sent++
	if day := click.DayOf(at); day != s.day {
		s.day, s.seen = day, map[int64]bool{}
		s.key = sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(day)))
	}
	u := s.random.Float64()
	p, link := &s.people[int(u*u*crowd)], int(s.ranks.Uint64()) // some people click more often than others
	*c = click.Click{LinkID: s.links[link], ClickedAt: at, Status: http.StatusFound,
		LatencyMs: 0.08 * math.Exp(0.6*s.random.NormFloat64()), Visit: p.visit}
	if link%20 == 7 {
		c.Status = http.StatusMovedPermanently
	}
	if !p.private && s.random.IntN(10) < 6 { // others come directly
		c.Referrer = s.referrers[s.sources.Uint64()]
	}
	if !p.private && s.random.IntN(20) == 0 {
		v := s.campaigns[s.random.IntN(len(campaigns))]
		c.Source, c.Medium, c.Campaign, c.Term, c.Content = v.Source, v.Medium, v.Campaign, v.Term, v.Content
	}
	if !p.private {
		c.Visitor = s.key.Visitor(c.LinkID, p.address, p.agent)
		if !c.Bot && !s.seen[c.Visitor] {
			s.seen[c.Visitor] = true
			s.visits++
		}
	}
	for _, d := range click.VisitDimensions {
		s.sentBy[d.Name][*d.Text(c)]++
	}
	s.sentBy[click.Status][strconv.Itoa(c.Status)]++
	s.sentBy[click.ByLink][c.LinkID]++
	return true
}
