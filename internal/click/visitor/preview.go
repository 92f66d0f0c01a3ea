package visitor

import "strings"

// previewCrawler is a service that fetches pages to show previews of them.
type previewCrawler struct {
	service string
	// products are the product tokens of its agent, in the spelling of robots.txt.
	products []string
	// appProducts are the product tokens that the app of the service may also use, in its agent as
	// a browser. They count in agents that do not name Mozilla, as all browsers do.
	appProducts []string
	// source is where the agent is documented, or else recorded.
	source string
}

// previewCrawlers has neither search engines nor AI crawlers. The Messages app of Apple names the
// products of Facebook and X.
var previewCrawlers = [...]previewCrawler{
	{"Facebook, Instagram, Messenger", []string{"facebookexternalhit"}, nil,
		"https://developers.facebook.com/docs/sharing/webmasters/web-crawlers/"},
	{"X", []string{"Twitterbot"}, nil,
		"https://developer.x.com/en/docs/x-for-websites/cards/guides/getting-started"},
	{"LinkedIn", []string{"LinkedInBot"}, nil, "https://opengraphplus.com/consumers/linkedin/crawling"},
	{"Slack", []string{"Slackbot-LinkExpanding", "Slackbot"}, nil, "https://api.slack.com/robots"},
	{"Discord", []string{"Discordbot"}, nil, recorded},
	{"Telegram", []string{"TelegramBot"}, nil, recorded},
	{"WhatsApp", nil, []string{"WhatsApp"}, recorded},
	{"Teams, Skype", []string{"SkypeUriPreview"}, nil, recorded},
	{"Pinterest", []string{"Pinterestbot"}, []string{"Pinterest"},
		"https://help.pinterest.com/business/article/pinterest-crawler"},
	{"Reddit", []string{"redditbot"}, nil, recorded},
	{"Mastodon", []string{"Mastodon"}, nil,
		"https://github.com/mastodon/mastodon/blob/main/lib/mastodon/version.rb"},
	{"Bluesky", []string{"Bluesky Cardyb"}, nil, recorded},
	{"Embedly", []string{"Embedly"}, nil, "http://support.embed.ly/"},
	{"Iframely", []string{"Iframely"}, nil, "https://iframely.com/docs/about"},
	{"Viber", nil, []string{"Viber"}, "http://bot-guard.ru/user-agent/916"},
	{"LINE", []string{"line-poker"}, nil, recorded},
	{"KakaoTalk", []string{"kakaotalk-scrap"}, nil, "https://devtalk.kakao.com/t/scrap/33984"},
	{"Snapchat", []string{"Snap URL Preview Service"}, nil, "https://developers.snap.com/robots"},
	{"VK", []string{"vkShare"}, nil, "http://vk.com/dev/Share"},
}

// recorded is the source for services that do not document their agents: the test has them.
const recorded = "logs of servers"

// PreviewCrawlers returns the names of the preview crawlers in robots.txt.
func PreviewCrawlers() []string {
	var names []string
	for _, c := range previewCrawlers {
		names = append(append(names, c.products...), c.appProducts...)
	}
	return names
}

// IsPreviewCrawler reports whether a user agent is that of a preview crawler: one of its products
// equals that of an entry of the table, in upper or lower case.
func IsPreviewCrawler(agent string) bool {
	agent = agent[:min(len(agent), maxAgent)]
	isBrowser := strings.Contains(agent, "Mozilla/")
	for agent != "" {
		if isPreviewProduct(agent, isBrowser) {
			return true
		}
		next := strings.IndexAny(agent, " ;,(")
		if next < 0 {
			return false
		}
		agent = agent[next+1:]
	}
	return false
}

// isPreviewProduct reports whether a text begins with a product of a preview crawler.
func isPreviewProduct(text string, isBrowser bool) bool {
	if c := text[0] | 0x20; c < 'a' || c > 'z' {
		return false
	}
	for i := range previewCrawlers {
		c := &previewCrawlers[i]
		if hasProduct(text, c.products) || !isBrowser && hasProduct(text, c.appProducts) {
			return true
		}
	}
	return false
}

// hasProduct reports whether a text begins with the whole name of one of the products.
func hasProduct(text string, products []string) bool {
	for _, p := range products {
		isCandidate := len(text) >= len(p) && text[0]|0x20 == p[0]|0x20 // spares most calls of EqualFold
		if isCandidate && strings.EqualFold(text[:len(p)], p) &&
			(len(text) == len(p) || strings.IndexByte(" ;,()/", text[len(p)]) >= 0) {
			return true
		}
	}
	return false
}
