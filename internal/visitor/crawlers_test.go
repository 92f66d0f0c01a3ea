package visitor

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

// crawlerAgents are recorded user agents of preview crawlers.
var crawlerAgents = []string{
	"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
	"facebookexternalhit/1.1",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 " +
		"Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
	"Twitterbot/1.0",
	"LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
	"LinkedInBot/1.0 (compatible; Mozilla/5.0; Jakarta Commons-HttpClient/4.3 +http://www.linkedin.com)",
	"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
	"Slackbot 1.0 (+https://api.slack.com/robots)",
	"Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
	"TelegramBot (like TwitterBot)",
	"WhatsApp/2.24.20.89 A",
	"WhatsApp/2.12.17/i",
	"Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
	"Pinterest/0.2 (+https://www.pinterest.com/bot.html)",
	"Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)",
	"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/41.0.2272.96 Mobile Safari/537.36 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)",
	"Mozilla/5.0 (compatible; redditbot/1.0; +http://www.reddit.com/feedback)",
	"http.rb/5.1.1 (Mastodon/4.2.10; +https://mastodon.social/)",
	"Mastodon/4.3.0 (http.rb/5.2.0; +https://mastodon.social/)",
	"Mozilla/5.0 (compatible; Bluesky Cardyb/1.1; +mailto:support@bsky.app)",
	"Bluesky Cardyb/1.1",
	"Mozilla/5.0 (compatible; Embedly/0.2; +http://support.embed.ly/)",
	"Embedly +support@embed.ly",
	"Iframely/1.3.1 (+https://iframely.com/docs/about)",
	"Viber/20.9.0.8 CFNetwork/1410.0.3 Darwin/22.6.0",
	"facebookexternalhit/1.1;line-poker/1.0",
	"facebookexternalhit/1.1;kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984",
	"Snap URL Preview Service; bot; snapchat; https://developers.snap.com/robots",
	"Mozilla/5.0 (compatible; vkShare; +http://vk.com/dev/Share)",
}

// browserAgents are recorded user agents of 200 browsers, half of them in apps: Facebook, Messenger,
// Instagram, LINE, KakaoTalk, Snapchat, Pinterest, WhatsApp, X, LinkedIn and others.
//
//go:embed testdata/browsers.txt
var browserAgents string

func TestIsPreviewCrawler_MatchesRecordedAgents(t *testing.T) {
	t.Parallel()
	agents := newAgents()
	for _, agent := range crawlerAgents {
		if !IsPreviewCrawler(agent) {
			t.Errorf("%q is not a preview crawler", agent)
		}
		if !agents.classify(agent).bot {
			t.Errorf("%q is a preview crawler, but no bot", agent)
		}
	}
	for i := range previewCrawlers {
		c := &previewCrawlers[i]
		recorded := func(agent string) bool { return isOf(c, agent) }
		if c.source == "" || !slices.ContainsFunc(crawlerAgents, recorded) {
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

func TestIsPreviewCrawler_AllocatesNothing(t *testing.T) {
	agents := append(strings.Split(browserAgents, "\n")[:20], crawlerAgents...)
	if n := testing.AllocsPerRun(10, func() {
		for _, agent := range agents {
			IsPreviewCrawler(agent)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIsPreviewCrawler(b *testing.B) {
	for b.Loop() {
		IsPreviewCrawler(chrome)
	}
}
