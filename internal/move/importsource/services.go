package importsource

import (
	"cmp"
	"html"
	"net/url"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// sources are the formats of the files of each source. Items of APIs have the JSON format.
var sources = map[Source]formats{
	Bitly:     {json: complete(bitly)},
	Dub:       {json: complete(dub), csv: complete(dubTable)},
	Kutt:      {json: complete(kutt)},
	Linkforge: {json: complete(archived)},
	Rebrandly: {json: complete(rebrandly)},
	Shlink:    {json: complete(shlink)},
	ShortIO:   {json: complete(shortIO)},
	Sink:      {json: complete(sink)},
	YOURLS:    {json: complete(yourls), csv: complete(asTable(yourls))},
	CSV:       {csv: complete(asTable(own))},
	JSONLines: {json: complete(own)},
}

// complete returns a format with the names of its properties.
func complete(f format) *format {
	f.known = namesOf(f.properties)
	return &f
}

func asTable(f format) format {
	f.isTable = true
	return f
}

// bitly is API v4, https://dev.bitly.com/api-reference.
var bitly = format{
	list: []string{"links"}, status: 301,
	properties: slices.Concat([]property{
		to(func(m *mapper, v value) { // as in go.example.com/docs
			setID(m, v)
			host, code, _ := strings.Cut(m.row.SourceID, "/")
			setHost(m, value{v.name, host})
			m.row.Code = code
		}, "id"),
		to(setShortURL, "link"),
		urlOf("long_url"),
		to(setTitle, "title").as("title"), to(setTags, "tags").as("tags"), to(setArchived, "archived").as("archived"),
		to(setCreated, "created_at"), to(setEnd, "expiration_at").as("expiresAt"),
		to(setClicks, "total_clicks"), // of another request
		to(handled, "custom_bitlinks"),
	},
		each(lose(Unsupported), "deeplinks", "campaign_ids", "launchpad_ids"),
		each(ignore, "references", "client_id", "created_by")),
	expand: customBitlinks,
}

// customBitlinks returns a link for each custom back-half. Their clicks are unknown.
func customBitlinks(m *mapper) (rows []*Row) {
	v := m.of("custom_bitlinks")
	list, _ := v.is.([]any)
	for _, address := range list {
		text, _ := address.(string)
		host, code, ok := cutShortURL(text)
		if !ok || code == "" {
			m.lose(v, Invalid)
			continue
		}
		if host == m.row.Host && code == m.row.Code {
			continue
		}
		row := *m.row
		row.SourceID, row.SourceURL, row.Host, row.Code = host+"/"+code, withScheme(text), host, code
		row.Origin.Clicks = nil
		rows = append(rows, &row)
	}
	return rows
}

// dub is the API, https://dub.co/docs/api-reference. It always merges the query into the
// destination's.
var dub = format{
	list: []string{"links"}, status: 302, complete: mergeQuery,
	properties: slices.Concat([]property{
		to(setID, "id"), to(setHost, "domain"), to(setShortURL, "shortLink"),
		to(func(m *mapper, v value) {
			if setCode(m, v); m.row.Code == "_root" {
				m.skip(v)
			}
		}, "key"),
		urlOf("url"),
		to(setTitle, "title").as("title"), to(setNote, "comments").as("note"), to(setTags, "tags").as("tags"),
		to(func(m *mapper, v value) {
			id, _ := v.is.(string)
			if name := m.folders[id]; name != "" {
				setFolder(m, value{v.name, name})
				return
			}
			lose(Unsupported)(m, v)
		}, "folderId").as("folderId"),
		to(setExternalID, "externalId").as("externalId"), to(setMetadata, "tenantId").as("metadata"),
		to(setEnd, "expiresAt").as("expiresAt"), to(setEndedURL, "expiredUrl"),
		to(setPassword, "password").as(Gate),
		to(setSystem("iOS"), "ios"), to(setSystem("Android"), "android"), to(setCountries, "geo").as(Rules),
		to(setVariants, "testVariants"), to(handled, "testCompletedAt"),
		to(func(m *mapper, v value) {
			if m.flag(v) {
				m.setCard("title", "description", "image")
			}
		}, "proxy"),
		to(setArchived, "archived").as("archived"), to(setStatsPublic, "publicStats").as("statsPublic"),
		to(protect("disabledAt", Approximated), "disabledAt"),
		to(setClicks, "clicks"), to(setLastClicked, "lastClicked"), to(setCreated, "createdAt"),
	},
		each(handled, "description", "image"), // of the card; without one Dub does not show them
		each(lose(Unsupported), "video", "rewrite", "doIndex", "trackConversion", "leads", "sales", "saleAmount",
			"programId", "partnerId"),
		each(ignore, "testStartedAt", "qrCode", "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content",
			"userId", "workspaceId", "projectId", "tagId", "webhookIds", "conversions", "updatedAt")),
}

// dubTable is the export of the dashboard.
var dubTable = format{
	isTable: true, isFolded: true, status: 302, complete: mergeQuery,
	properties: slices.Concat([]property{
		to(setID, "linkid"),
		to(func(m *mapper, v value) {
			text, _ := v.is.(string)
			if host, code, ok := cutShortURL(text); ok && code == "" {
				m.row.Host = host
				m.skip(v)
				return
			}
			setAddress(m, v)
		}, "shortlink"),
		urlOf("destinationurl"),
		to(func(m *mapper, v value) { m.addTags(v, strings.Split(v.is.(string), ",")) }, "tags").as("tags"),
		to(setArchived, "archived").as("archived"), to(setClicks, "clicks"), to(setCreated, "createdat"),
	},
		each(lose(Unsupported), "leads", "conversions", "revenue"),
		each(ignore, "updatedat")),
}

func mergeQuery(m *mapper) { m.change.Query.To = &routing.Forwarding{Mode: routing.Replace} }

// setVariants maps a test that has not ended to one rule with shares. Its end is a loss. After a
// test, the URL is the winner.
func setVariants(m *mapper, v value) {
	end := m.of("testCompletedAt")
	at, hasEnd := instant(end.is)
	if hasEnd && !at.After(m.settings.Now) {
		return
	}
	list, _ := v.is.([]any)
	rule := &routing.Rule{Stickiness: routing.ByCookie}
	for _, variant := range list {
		properties, _ := variant.(map[string]any)
		url, hasURL := properties["url"].(string)
		share, hasShare := integer(properties["percentage"])
		if !hasURL || !hasShare {
			m.lose(v, Invalid)
			return
		}
		rule.Targets = append(rule.Targets, &routing.Target{URL: &url, Share: new(int(share))})
	}
	if len(rule.Targets) == 0 {
		lose(Invalid)(m, v)
		return
	}
	m.addRule(v, rule)
	lose(Unsupported)(m, end)
}

// kutt is API v2, https://docs.kutt.it.
var kutt = format{
	list: []string{"data"}, status: 302,
	properties: slices.Concat([]property{
		to(setID, "id"), to(setCode, "address"), to(setHost, "domain"), to(setShortURL, "link"),
		urlOf("target"),
		to(setNote, "description").as("note"), to(setEnd, "expire_in").as("expiresAt"),
		to(protect("password", NotExported), "password"), to(protect("banned", Approximated), "banned"),
		to(setClicks, "visit_count"), to(setCreated, "created_at"),
	}, each(ignore, "updated_at")),
}

// rebrandly is API v1, https://developers.rebrandly.com/docs/link-entity.
var rebrandly = format{
	list: []string{"links"}, status: 302,
	properties: slices.Concat([]property{
		to(setID, "id"),
		to(func(m *mapper, v value) {
			properties, _ := v.is.(map[string]any)
			setHost(m, value{v.name, properties["fullName"]})
		}, "domain"),
		to(setCode, "slashtag"), to(setShortURL, "shortUrl"),
		urlOf("destination"),
		to(setTitle, "title").as("title"), to(setNote, "description").as("note"), to(setTags, "tags").as("tags"),
		to(setQuery(routing.Add), "forwardParameters"),
		to(setState(Approximated), "status"),
		to(setClicks, "clicks"), to(setLastClicked, "lastClickAt"), to(setCreated, "createdAt"),
	},
		each(lose(Unsupported), "favourite", "scripts"),
		each(ignore, "updatedAt", "https", "isPublic", "integrated", "creator", "sessions", "lastClickDate", "domainId",
			"domainName")),
}

// shortIO is the API, https://developers.short.io/reference. Its list has no click totals.
var shortIO = format{
	list: []string{"links"}, status: 302,
	properties: slices.Concat([]property{
		to(setID, "idString"), to(setShortURL, "secureShortURL"), to(setCode, "path"),
		urlOf("originalURL"),
		to(setTitle, "title").as("title"), to(setTags, "tags").as("tags"), to(setArchived, "archived").as("archived"),
		to(setStatus, "redirectType").as("redirectStatus"),
		to(setEnd, "expiresAt").as("expiresAt"),
		to(setTimeToLive, "ttl").as("expiresAt"),
		to(setEndedURL, "expiredURL"), to(setLimit, "clicksLimit").as("maxClicks"),
		to(protect("password", NotExported), "hasPassword"), to(protect("password", NotExported), "password"),
		to(setSystem("iOS"), "iphoneURL"), to(setSystem("Android"), "androidURL"),
		to(setCountryList, "countries").as(Rules),
		to(setSplit, "splitURL"), to(handled, "splitPercent"), to(handled, "skipQS"),
		to(setUTM(func(u *routing.UTM) **string { return &u.Source }), "utmSource"),
		to(setUTM(func(u *routing.UTM) **string { return &u.Medium }), "utmMedium"),
		to(setUTM(func(u *routing.UTM) **string { return &u.Campaign }), "utmCampaign"),
		to(setUTM(func(u *routing.UTM) **string { return &u.Term }), "utmTerm"),
		to(setUTM(func(u *routing.UTM) **string { return &u.Content }), "utmContent"),
		to(setCreated, "createdAt"),
	},
		each(lose(Unsupported), "FolderId", "cloaking", "passwordContact", "integrationAdroll", "integrationFB",
			"integrationTT", "integrationGA", "integrationGTM"),
		each(ignore, "id", "shortURL", "DomainId", "OwnerId", "source", "User")),
	complete: func(m *mapper) {
		if v := m.of("path"); isAbsent(v.is) || m.row.Code == "" {
			m.skip(v)
		}
		if !m.flag(m.of("skipQS")) {
			m.change.Query.To = &routing.Forwarding{Mode: routing.Add}
		}
	},
}

// setTimeToLive maps an end that is a date. A number is a duration, whose begin is unknown.
func setTimeToLive(m *mapper, v value) {
	_, isNumber := integer(v.is)
	switch {
	case isUnset(v.is) || m.row.ExpiresAt.To != nil:
	case isNumber:
		m.row.Deleted = true
		m.report(v, Loss{Reason: Unsupported, Form: timeForm})
	default:
		setEnd(m, v)
	}
}

// setCountryList maps a list of countries with URLs.
func setCountryList(m *mapper, v value) {
	list, _ := v.is.([]any)
	urls := make(map[string]string, len(list))
	for _, entry := range list {
		properties, _ := entry.(map[string]any)
		country, _ := properties["country"].(string)
		url, ok := properties["originalURL"].(string)
		if !ok {
			m.lose(v, Invalid)
			continue
		}
		urls[country] = url
	}
	m.addCountries(v, urls)
}

// setSplit maps a second URL that a percentage of the visitors is redirected to.
func setSplit(m *mapper, v value) {
	url, isText := m.text(v)
	percent, ok := integer(m.of("splitPercent").is)
	if !isText || !ok || percent < 0 || percent > 100 {
		lose(Invalid)(m, v)
		return
	}
	m.addRule(v, &routing.Rule{Targets: []*routing.Target{
		{Share: new(100 - int(percent))}, {URL: &url, Share: new(int(percent))},
	}})
}

// sink is the export of its server.
var sink = format{
	list: []string{"links"}, isPaged: true, version: "1.0", status: 301,
	properties: slices.Concat([]property{
		to(setID, "id"), to(setCode, "slug"),
		urlOf("url"),
		to(setTitle, "title").as("title"), to(setNote, "comment").as("note"), to(setTags, "tags").as("tags"),
		to(setEnd, "expiration").as("expiresAt"), to(setCreated, "createdAt"),
		to(protect("password", NotExported), "password"),
		to(setSystem("iOS"), "apple"), to(setSystem("Android"), "google"), to(setCountries, "geo").as(Rules),
		to(setConfirm, "unsafe").as(Gate), to(setQuery(routing.Replace), "redirectWithQuery"),
	},
		each(handled, "description", "image"), each(lose(Unsupported), "cloaking"), each(ignore, "updatedAt")),
	complete: func(m *mapper) {
		m.row.Host = m.host()
		m.row.FoldsCase = true
		m.setCard("title", "description", "image")
	},
}

// host returns the host of the base URL, else of the label; empty if neither has one.
func (m *mapper) host() string {
	for _, text := range []string{m.settings.BaseURL, m.settings.Label} {
		if host, _, ok := cutShortURL(text); ok {
			return host
		}
	}
	return ""
}

// yourls is the table of links, or the stats of the API,
// https://yourls.org/docs/guide/advanced/api.
var yourls = format{
	list: []string{"links"}, isKeyed: true, status: 301,
	properties: []property{
		codeOf("keyword"), to(setYOURLSAddress, "shorturl"),
		urlOf("url"),
		to(func(m *mapper, v value) {
			text, ok := m.text(v)
			if decoded := html.UnescapeString(text); ok && decoded != text {
				m.lose(v, Approximated)
				v.is = decoded
			}
			setTitle(m, v)
		}, "title").as("title"),
		to(setCreated, "timestamp"),
		to(setClicks, "clicks"), to(ignore, "ip"),
	},
	complete: func(m *mapper) {
		m.row.Host = cmp.Or(m.row.Host, m.host())
		m.row.SourceID = m.row.Code
		if base := baseURL(m.settings); m.row.SourceURL == "" && base != "" && m.row.Code != "" {
			m.row.SourceURL = base + (&url.URL{Path: "/" + m.row.Code}).String()
		}
	},
}

// setYOURLSAddress maps the short URL, whose code is the path below the base URL.
func setYOURLSAddress(m *mapper, v value) {
	text, _ := v.is.(string)
	host, path, ok := cutShortURL(text)
	if !ok {
		m.lose(v, Invalid)
		return
	}
	_, base, _ := cutShortURL(m.settings.BaseURL)
	if base != "" {
		path = strings.TrimPrefix(path, base+"/")
	}
	m.row.SourceURL, m.row.Host, m.row.Code = withScheme(text), host, cmp.Or(m.row.Code, path)
}

// own is a file of one's own. Its limits, states and counts are usual properties.
var own = format{
	isFolded: true, isOwn: true,
	properties: withFields([]property{
		to(setID, "id", "linkid"),
		urlOf("url", "longurl", "destination", "destinationurl", "originalurl", "target"),
		codeOf("code", "shortcode", "keyword", "slug", "key", "path", "backhalf", "slashtag", "address", "alias"),
		to(setHost, "domain", "host"),
		to(setAddress, "shorturl", "shortlink", "bitlink", "tinyurl", "link"),
		to(setTitle, "title").as("title"), to(setTags, "tags").as("tags"),
		to(setNote, "note", "comment", "comments", "description").as("note"),
		to(setStatus, "redirectstatus", "redirecttype", "redirectcode", "statuscode",
			"httpstatus").as("redirectStatus"),
		to(setFolder, "folder").as("folderId"), to(setExternalID, "externalid").as("externalId"),
		to(setCreated, "createdat", "created", "timestamp", "datecreated"),
	}, "url", "metadata", "routing", "startsAt", "expiresAt", "maxClicks", "archived", "statsPublic"),
}

// baseURL returns the address of a self-hosted source without a slash at its end.
func baseURL(s *Settings) string { return strings.TrimRight(s.BaseURL, "/") }
