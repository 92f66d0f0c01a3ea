package visitor

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

// crawlerAgents are recorded user agents of preview crawlers.
//
//go:embed testdata/crawlers.txt
var crawlerAgents string

// browserAgents are user agents of 200 browsers, recorded or in the format of recorded ones, half
// of them in apps: Facebook, Messenger, Instagram, LINE, KakaoTalk, Snapchat, Pinterest, WhatsApp,
// X, LinkedIn and others.
//
//go:embed testdata/browsers.txt
var browserAgents string

func TestIsPreviewCrawler_MatchesRecordedAgents(t *testing.T) {
	t.Parallel()
	agents := newAgents()
	recorded := strings.Split(strings.TrimSpace(crawlerAgents), "\n")
	for _, agent := range recorded {
		if !IsPreviewCrawler(agent) {
			t.Errorf("%q is not a preview crawler", agent)
		}
		if !agents.classify(agent).bot {
			t.Errorf("%q is a preview crawler, but no bot", agent)
		}
	}
	for i := range previewCrawlers {
		c := &previewCrawlers[i]
		if c.source == "" || !slices.ContainsFunc(recorded, func(agent string) bool { return isOf(c, agent) }) {
			t.Errorf("the row of %s has no source or no recorded agent", c.service)
		}
	}
}

func isOf(c *previewCrawler, agent string) bool {
	for _, product := range append(slices.Clone(c.products), c.appProducts...) {
		if strings.Contains(agent, product) {
			return true
		}
	}
	return false
}

func TestIsPreviewCrawler_MatchesNeitherBrowsersNorOtherBots(t *testing.T) {
	t.Parallel()
	browsers := strings.Split(strings.TrimSpace(browserAgents), "\n")
	if len(browsers) != 200 {
		t.Fatalf("%d browsers, want 200", len(browsers))
	}
	for _, agent := range append(browsers,
		"", "Mozilla/5.0", "curl/8.10.1", "Slack-ImgProxy (+https://api.slack.com/robots)",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 "+
			"Safari/605.1.15 (Applebot/0.1)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
		"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
		"MyRedditBot/1.0", "redditbot-clone/1.0", "x/Twitterbot", "Twitterbot2/1.0", "Snap URL Preview", "Snapchat/1",
		strings.Repeat("x", maxAgent)+" Twitterbot/1.0",
	) {
		if IsPreviewCrawler(agent) {
			t.Errorf("%q is a preview crawler", agent)
		}
	}
}
