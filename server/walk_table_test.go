package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// kind is a kind of value that each tenant has of its own. Values of another tenant are tried in
// its places.
type kind struct {
	// own is one of the tenant's own, instead of the first that it has. fresh makes a new one for each
	// call. With theirs there is none: only what belongs to others is ever given.
	own    func(e *estate) string
	fresh  func() string
	theirs bool
	// pool takes it from a link of the pool: each is used up by the first call that succeeds.
	pool func(pooled) string
	// of are the kinds whose values these are too; first says that one of each will do.
	of    []*kind
	first bool
	// wrap makes the argument of a value.
	wrap func(value string) string
}

// ownValue returns one of the tenant's own values, and whether there is any.
func (k *kind) ownValue(e *estate) (string, bool) {
	switch {
	case k.theirs:
		return "", false
	case k.fresh != nil:
		return k.fresh(), true
	case k.own != nil:
		return k.own(e), true
	}
	return k.wrapped(k.all(e)[0]), true
}

// all are the tenant's values.
func (k *kind) all(e *estate) (all []string) {
	if k.pool != nil {
		return []string{k.pool(e.pool[e.next])}
	}
	for _, one := range k.of {
		these := one.all(e)
		if k.first && len(these) > 0 {
			these = these[:1]
		}
		all = append(all, these...)
	}
	return append(all, e.ids[k]...)
}

func (k *kind) wrapped(value string) string {
	if k.wrap == nil {
		return value
	}
	return k.wrap(value)
}

var (
	workspaceIDs, linkIDs, invitationIDs, keyIDs, domainIDs, eventIDs, clickIDs = &kind{}, &kind{}, &kind{}, &kind{},
		&kind{}, &kind{}, &kind{}

	// userIDs has a member of both tenants as the own value, so that a leak of another tenant's
	// members would show.
	userIDs = &kind{own: func(e *estate) string { return e.bridge.id }}
	// sessionIDs has none of the caller's own: they would be logged out.
	sessionIDs = &kind{theirs: true}
	memberIDs  = &kind{}
	nodeKinds  = []*kind{linkIDs, workspaceIDs, userIDs, invitationIDs, keyIDs, domainIDs, sessionIDs, eventIDs,
		clickIDs,
		memberIDs, webhookIDs, taskIDs}
	nodeIDs   = &kind{of: nodeKinds}
	actorIDs  = &kind{of: []*kind{userIDs, keyIDs}, first: true}
	targetIDs = &kind{
		of: []*kind{linkIDs, invitationIDs, keyIDs, domainIDs, userIDs, workspaceIDs, webhookIDs}, first: true,
	}

	// itemNames are names of rules, targets and templates.
	itemNames    = &kind{fresh: func() string { return word("name") }}
	folderNames  = &kind{fresh: func() string { return word("folder") }}
	folderIDs    = &kind{}
	ownDomainIDs = &kind{} // of domains with codes of their own
	folderPlaces = &kind{theirs: true, wrap: cursor}
	// taskIDs are of imports. The first is a dry run, which applyImport can be called for.
	taskIDs        = &kind{}
	templateIDs    = &kind{}
	scheduledIDs   = &kind{}
	operationIDs   = &kind{}
	templatePlaces = &kind{theirs: true, wrap: cursor}
	tagPlaces      = &kind{theirs: true, wrap: cursor}
	webhookIDs     = &kind{}
	// deliveryIDs belong to one webhook each.
	deliveryIDs = &kind{theirs: true}
	// ruleIDs and ruleTargetIDs belong to one link each.
	ruleIDs, ruleTargetIDs = &kind{theirs: true}, &kind{theirs: true}

	slugs     = &kind{}
	newSlugs  = &kind{of: []*kind{slugs}, fresh: func() string { return word("slug") }}
	shortURLs = &kind{}
	// externalIDs are ids of links, newExternalIDs ids that a call gives a link.
	externalIDs    = &kind{}
	newExternalIDs = &kind{
		pool: func(p pooled) string { return p.externalID }, fresh: func() string { return word("external") },
	}
	linkCodes = &kind{}
	hosts     = &kind{fresh: func() string { return word("host") + ".example" }}
	emails    = &kind{fresh: func() string { return word("mail") + "@example.com" }}
	// oneEmail is an address where each try hashes a password.
	oneEmail = &kind{of: []*kind{emails}, first: true, fresh: func() string { return word("mail") + "@example.com" }}
	words    = &kind{theirs: true}
	tags     = &kind{theirs: true}

	urls = &kind{pool: func(p pooled) string { return p.url },
		fresh: func() string { return "https://example.com/" + word("new") }}
	codes     = &kind{pool: func(p pooled) string { return p.code }, fresh: func() string { return word("code") }}
	onceNames = &kind{pool: func(p pooled) string { return p.key }, fresh: func() string { return word("once") }}

	// titlePlaces and clickPlaces are links' places in the orders of titles and clicks, exportParts
	// where a part of an export begins.
	titlePlaces = &kind{theirs: true, wrap: cursor}
	clickPlaces = &kind{theirs: true, wrap: cursor}
	exportParts = &kind{theirs: true}
	// eventPlaces are places in the event log.
	eventPlaces = &kind{of: []*kind{eventIDs}, first: true, theirs: true}
)

// cursors stand for the places of things in the order of their ids. What state they are in plays no
// part.
func cursors(of *kind) *kind { return &kind{of: []*kind{of}, first: true, theirs: true, wrap: cursor} }

// filler is the value of a place.
type filler struct {
	// kind is the kind of a tenant's object, or nil.
	kind *kind
	// value is what else it is; others are tried too, where the arguments of a field are tried one by
	// one.
	value  func(w *walker) any
	others []any
	// always means that every call has it, unless it conflicts with another.
	always  bool
	instead string
}

func names(k *kind) filler { return filler{kind: k} }

// put is a value without an owner, with others that are tried too.
func put(value any, others ...any) filler {
	return filler{value: func(*walker) any { return value }, others: others}
}

// every is a list of all values of an enum.
func every(enum string) filler {
	return filler{value: func(w *walker) any { return w.schema.enum(enum) }}
}

// keyScopes returns the permissions that API keys can have.
func keyScopes() (scopes []string) {
	for _, r := range workspace.Rules {
		if r.Keys {
			scopes = append(scopes, string(r.Permission))
		}
	}
	return scopes
}

// everyLogged returns all types of events that the event log can have.
func everyLogged() filler { return put(audit.FeedActions()) }

func later(by time.Duration) filler {
	return filler{value: func(w *walker) any { return w.began.Add(by) }}
}

// small is the size of pages: objects that a resolver leaks are the newest, and so among the first.
var small = filler{value: func(*walker) any { return 2 }, always: true}

// conditions are one of each kind: they name no tenant's object.
var conditions = []any{
	map[string]any{"country": []string{"DE"}}, map[string]any{"device": []string{"mobile"}},
	map[string]any{"os": []string{"iOS"}}, map[string]any{"browser": []string{"Safari"}},
	map[string]any{"language": []string{"de"}}, map[string]any{"referrer": []string{"example.com"}},
	map[string]any{"query": map[string]any{"name": "a", "value": "b"}},
	map[string]any{"during": map[string]any{"from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"}},
	map[string]any{"weekly": map[string]any{
		"timezone": "UTC", "days": []string{"MONDAY"}, "from": "09:00", "to": "17:00",
	}},
	map[string]any{"network": []string{"192.0.2.0/24"}},
	map[string]any{"bot": false},
}

// pairs are metadata of links.
var pairs = []any{map[string]any{"key": "a", "value": "b"}}

// secret is a token that was never issued. A real token authorizes its bearer by design, so it is
// not part of this test.
var secret = put("unknown-secret")

// wrongPassword keeps the callers' accounts and passwords as they are.
var wrongPassword = put("a wrong password")

// fillers has the values of arguments and input fields, except for those of fillersByName. Arguments
// that are inputs are not listed: their fields are.
var fillers = map[string]filler{
	"Query.node.id":             names(nodeIDs),
	"Query.nodes.ids":           names(nodeIDs),
	"WorkspaceBy.id":            names(workspaceIDs),
	"WorkspaceBy.slug":          names(slugs),
	"LinkBy.id":                 names(linkIDs),
	"ExternalLinkBy.externalId": names(externalIDs),
	"CodeLinkBy.code":           names(linkCodes),

	"User.workspaces.deleted":        put(true),
	"User.workspaces.after":          names(cursors(workspaceIDs)),
	"User.sessions.after":            names(cursors(sessionIDs)),
	"Workspace.links.after":          names(cursors(linkIDs)),
	"Workspace.links.last":           {value: small.value, instead: "Workspace.links.first"},
	"Workspace.links.before":         names(cursors(linkIDs)),
	"Workspace.members.after":        names(cursors(userIDs)),
	"Workspace.invitations.after":    names(cursors(invitationIDs)),
	"Workspace.apiKeys.after":        names(cursors(keyIDs)),
	"Workspace.domains.after":        names(cursors(domainIDs)),
	"Workspace.events.after":         names(eventPlaces),
	"Workspace.events.types":         everyLogged(),
	"Link.versions.after":            put("1"),
	"Link.qrCode.source":             put(nil),
	"Workspace.auditLog.after":       names(cursors(eventIDs)),
	"EventFilter.types":              every("EventType"),
	"EventFilter.actorId":            names(actorIDs),
	"EventFilter.subjectId":          names(targetIDs),
	"EventFilter.from":               later(-time.Hour),
	"EventFilter.to":                 later(time.Hour),
	"LinkFilter.search":              names(words),
	"LinkFilter.tags":                names(tags),
	"LinkFilter.inFolder":            put(true),
	"LinkFilter.tagMatch":            put("ANY", "ALL"),
	"LinkFilter.status":              every("LinkStatus"),
	"LinkFilter.strategy":            every("CodeStrategy"),
	"LinkFilter.archived":            put(true, false),
	"TimeBounds.from":                later(-time.Hour),
	"TimeBounds.to":                  later(time.Hour),
	"LinkFilter.externalIds":         names(externalIDs),
	"LinkFilter.metadata":            put(map[string]any{"key": "a", "value": "b"}),
	"LinkFilter.createdById":         names(userIDs),
	"LinkFilter.host":                put("example.com"),
	"LinkFilter.withoutTags":         names(tags),
	"LinkFilter.destination":         every("DestinationState"),
	"LinkFilter.hasRouting":          put(true, false),
	"LinkFilter.hasScheduledChanges": put(true, false),
	"LinkFilter.origin":              put("CSV"),
	"LinkFilter.domainIds":           names(domainIDs),
	"LinkOrder.field":                put("CREATED_AT", "CLICKS", "TITLE", "UPDATED_AT", "LAST_CLICKED_AT"),
	"LinkOrder.direction":            put("ASC", "DESC"),
	"TimeRange.from":                 later(-24 * time.Hour),
	"TimeRange.to":                   later(time.Hour),
	"Workspace.stats.tag":            names(tags),
	"ExportClicksInput.format":       put("CSV", "JSON_LINES"),
	"ExportClicksInput.bom":          put(false, true),
	"Link.clicks.after":              names(cursors(clickIDs)),
	"Workspace.clicks.after":         names(cursors(clickIDs)),
	"Subscription.linkClicked.after": names(clickIDs),

	"Subscription.eventCommitted.types": everyLogged(),
	"Subscription.eventCommitted.after": names(eventIDs),
	"Stats.breakdown.by":                put("LINK", "REFERRER", "STATUS"),
	"ClickFilter.bots":                  put(true, false),
	"ClickFilter.referrer":              put("", "example.com"),
	"ClickFilter.country":               put("", "DE"),
	"ClickFilter.device":                put("", "desktop"),
	"ClickFilter.browser":               put("", "Chrome"),
	"ClickFilter.os":                    put("", "Windows"),
	"ClickFilter.language":              put("", "en"),
	"ClickFilter.utmSource":             put("", "mail"),
	"ClickFilter.utmMedium":             put("", "mail"),
	"ClickFilter.utmCampaign":           put("", "autumn"),
	"ClickFilter.utmTerm":               put("", "word"),
	"ClickFilter.utmContent":            put("", "button"),
	"ClickFilter.rule":                  put("", "rul_unknown"),
	"ClickFilter.target":                put("", "tgt_unknown"),
	"ClickFilter.qrSource":              put("", "flyer"),
	"ClickFilter.status":                put(302, 301),
	"Stats.counts.interval":             put("MONTH", "HOUR", "DAY", "WEEK"),
	"Stats.series.interval":             put("MONTH", "HOUR", "DAY", "WEEK"),

	"RegisterInput.password":              put("a pass phrase that is new"),
	"RegisterInput.name":                  put("New User"),
	"RegisterInput.invitationToken":       put("unknown"),
	"RefreshSessionInput.refreshToken":    secret,
	"LogoutInput.sessionId":               names(sessionIDs),
	"LogoutEverywhereInput.keepThis":      put(true),
	"RequestEmailVerificationInput.email": names(emails),
	"ExportMyDataInput.password":          {value: func(w *walker) any { return w.own.members["OWNER"].password }},
	"ExportMyDataInput.after":             names(exportParts),
	"ChangePasswordInput.currentPassword": wrongPassword,
	"CompleteLoginInput.challenge":        secret,
	"StartSsoInput.redirectUri":           put("https://app.example.com/sso"),
	"FinishSsoInput.transaction":          secret,
	"FinishSsoInput.code":                 secret,
	"FinishSsoInput.state":                secret,
	"FinishSsoInput.issuer":               put("https://login.example.com"),
	"ConfirmTotpInput.code":               put("000000"),
	"ProofInput.totp":                     put("000000"),
	"ProofInput.recoveryCode":             put("unknown"),
	"ProofInput.passkey":                  put("{}"),
	"UpdateMeInput.name":                  put("Renamed"),

	"CreateWorkspaceInput.name":                  put("Another"),
	"UpdateWorkspaceInput.id":                    names(workspaceIDs),
	"UpdateWorkspaceInput.name":                  put("Renamed"),
	"UpdateWorkspaceInput.defaultStrategy":       put("RANDOM"),
	"UpdateWorkspaceInput.defaultRedirectStatus": put(307),
	"DeleteWorkspaceInput.id":                    names(workspaceIDs),
	"RestoreWorkspaceInput.id":                   names(workspaceIDs),
	"InviteMemberInput.email":                    names(emails),
	"RevokeInvitationInput.id":                   names(invitationIDs),
	"CreateApiKeyInput.name":                     put("A key"),
	"CreateApiKeyInput.scopes":                   put(keyScopes()),
	"CreateApiKeyInput.destinationHosts":         put([]string{"example.com"}),
	"CreateApiKeyInput.origins":                  put([]string{"https://app.example.com"}),
	"CreateApiKeyInput.networks":                 put([]string{"192.0.2.0/24"}),
	"CreateApiKeyInput.requestsPerMinute":        put(60),
	"CreateApiKeyInput.linksPerDay":              put(nil),
	"RevokeApiKeyInput.id":                       names(keyIDs),
	"RotateApiKeyInput.id":                       names(keyIDs),
	"RotateApiKeyInput.oldSecretEndsAt":          later(time.Hour),
	"AddDomainInput.host":                        names(hosts),
	"AddDomainInput.codeSpace":                   put("SHARED"),
	"AddDomainInput.caseSensitive":               put(true),
	"VerifyDomainInput.id":                       names(domainIDs),
	"RemoveDomainInput.id":                       names(domainIDs),

	"ClaimLinksInput.claimTokens":      put([]string{"claim_UNKNOWN"}),
	"UpdateLinkInput.id":               names(linkIDs),
	"DeleteLinkInput.id":               names(linkIDs),
	"DeleteLinksInput.ids":             names(linkIDs),
	"RestoreLinkInput.id":              names(linkIDs),
	"RevertLinkInput.id":               names(linkIDs),
	"RevertLinkInput.version":          put(1),
	"RevertOperationInput.operationId": names(operationIDs),
	"CheckLinkInput.id":                names(linkIDs),
	"ReportLinkInput.reason":           put("OTHER"),
	"ReportLinkInput.details":          put("It is not what it says."),
	"ScheduleLinkChangeInput.at":       later(time.Hour),
	"LinkChangeInput.url":              put("https://example.com/scheduled"),
	"CancelLinkChangeInput.id":         names(scheduledIDs),

	"Workspace.webhooks.after":                names(cursors(webhookIDs)),
	"Webhook.deliveries.after":                names(cursors(deliveryIDs)),
	"Webhook.deliveries.status":               every("DeliveryStatus"),
	"CreateWebhookInput.name":                 put("A webhook"),
	"CreateWebhookInput.url":                  put("https://hooks.example.com/new"),
	"CreateWebhookInput.types":                put([]string{"WEBHOOK_DISABLED"}), // there are none
	"UpdateWebhookInput.id":                   names(webhookIDs),
	"UpdateWebhookInput.name":                 put("Another name"),
	"UpdateWebhookInput.url":                  put("https://hooks.example.com/other"),
	"UpdateWebhookInput.types":                put([]string{"WEBHOOK_DISABLED"}),
	"UpdateWebhookInput.status":               put("PAUSED"),
	"UpdateWebhookInput.skipBacklog":          put(false),
	"DeleteWebhookInput.id":                   names(webhookIDs),
	"RotateWebhookSecretInput.id":             names(webhookIDs),
	"RotateWebhookSecretInput.overlapSeconds": put(60),
	"TestWebhookInput.id":                     names(webhookIDs),
	"TestWebhookInput.type":                   put("LINK_CREATED"),
	"RedeliverWebhookInput.id":                names(webhookIDs),
	"RedeliverWebhookInput.deliveryIds":       names(deliveryIDs),
	"RedeliverWebhookInput.failed":            put(true),

	"Workspace.folders.after": names(folderPlaces),
	"CreateFolderInput.name":  names(folderNames),
	"UpdateFolderInput.id":    names(folderIDs),
	"UpdateFolderInput.name":  names(folderNames),
	"DeleteFolderInput.id":    names(folderIDs),
	// one of each kind
	"Workspace.tasks.first":                     {value: func(*walker) any { return 4 }, always: true},
	"Workspace.tasks.after":                     names(cursors(taskIDs)),
	"TaskFilter.kinds":                          every("TaskKind"),
	"TaskFilter.statuses":                       every("TaskStatus"),
	"CancelTaskInput.id":                        names(taskIDs),
	"ApplyImportInput.taskId":                   names(taskIDs),
	"ImportReport.rows.after":                   put(cursor(" NUMBER+ 0")),
	"ImportReport.rows.outcomes":                every("ImportOutcome"),
	"ImportReport.rows.lossesOnly":              put(false),
	"CheckParityInput.importId":                 names(taskIDs),
	"CheckParityInput.sample":                   put(1),
	"ParityReport.differences.after":            put(cursor(" NUMBER+ 0")),
	"ParityReport.differences.verdicts":         every("ParityVerdict"),
	"ExportWorkspaceInput.sections":             every("ArchiveSectionKind"),
	"CreateImportInput.source":                  put("CSV"),
	"CreateImportInput.label":                   put("a label"),
	"CreateImportInput.dryRun":                  put(true, false),
	"CreateImportInput.onConflict":              put("SKIP", "RENAME", "REPLACE"),
	"CreateImportInput.clickTotals":             put(true),
	"ImportApiInput.baseUrl":                    put("https://import.example"),
	"ImportApiInput.token":                      put("token"),
	"ImportApiInput.account":                    put("account"),
	"ImportHostInput.host":                      names(hosts),
	"ImportHostInput.domainId":                  names(domainIDs),
	"Workspace.utmTemplates.after":              names(templatePlaces),
	"Workspace.tags.after":                      names(tagPlaces),
	"Workspace.tags.prefix":                     names(tags),
	"ReplaceTagsInput.from":                     put([]string{"a tag"}),
	"ReplaceTagsInput.to":                       put("another tag"),
	"UpdateWorkspaceInput.primaryDomainId":      names(domainIDs),
	"RoutingDefaultsInput.bots":                 put("REDIRECT"),
	"UpdateWorkspaceInput.caseSensitiveCodes":   put(false),
	"UpdateWorkspaceInput.requireSecondFactor":  put(false),
	"UpdateWorkspaceInput.inspectable":          put(true),
	"QrStyleInput.size":                         put(256),
	"QrStyleInput.margin":                       put(6),
	"QrStyleInput.level":                        put("HIGH"),
	"QrStyleInput.foreground":                   put("#112233"),
	"QrStyleInput.background":                   put("#ffeedd"),
	"QrStyleInput.logo":                         put(nil),
	"RoutingDefaultsInput.forwardPath":          put(true),
	"UpdateDomainInput.id":                      names(domainIDs),
	"UpdateDomainInput.rootUrl":                 put("https://example.com/elsewhere"),
	"UpdateDomainInput.faviconUrl":              put("https://example.com/icon"),
	"UpdateDomainInput.indexable":               put(true),
	"UpdateDomainInput.appleAppSiteAssociation": put("{}"),
	"UpdateDomainInput.assetLinks":              put("[]"),
	"CreateUtmTemplateInput.name":               names(itemNames),
	"UpdateUtmTemplateInput.id":                 names(templateIDs),
	"UpdateUtmTemplateInput.name":               names(itemNames),
	"DeleteUtmTemplateInput.id":                 names(templateIDs),
	"LinkRoutingInput.tests":                    put([]any{}), // others would fail
	"LinkRoutingInput.forwardPath":              put(true),
	"LinkRoutingInput.pendingUrl":               put("https://example.com/elsewhere"),
	"LinkRoutingInput.endedUrl":                 put("https://example.com/elsewhere"),
	"LinkRoutingInput.bots":                     put("CONFIRM"),
	"LinkGateInput.password":                    put("a password of the walk"),
	"LinkGateInput.notice":                      put("A notice"),
	"LinkGateInput.confirm":                     put(true),
	"LinkCardInput.title":                       put("A title"),
	"LinkCardInput.description":                 put("A description"),
	"LinkCardInput.imageUrl":                    put("https://example.com/picture.png"),
	"LinkCardInput.imageAlt":                    put("A picture"),
	"LinkRoutingInput.qrSources":                put([]string{"flyer"}),
	"QueryForwardingInput.mode":                 put("ADD"),
	"QueryForwardingInput.only":                 put([]string{"a"}),
	"QueryForwardingInput.except":               put([]string{}),
	"RoutingRuleInput.when":                     put(conditions),
	"RoutingRuleInput.unless":                   put(conditions),
	"RoutingRuleInput.enabled":                  put(true),
	"RoutingRuleInput.ruleId":                   names(ruleIDs),
	"RoutingRuleInput.name":                     put(nil),
	"RoutingRuleInput.stickiness":               put("VISITOR"),
	"RoutingTargetInput.targetId":               names(ruleTargetIDs),
	"RoutingTargetInput.maxClicks":              put(5),
	"RoutingTargetInput.name":                   put(nil),
	"RoutingTargetInput.share":                  put(2),
	"RoutingTargetInput.url":                    put("https://example.com/elsewhere"),
	"UtmInput.source":                           put("a"),
	"UtmInput.medium":                           put("b"),
	"UtmInput.campaign":                         put("c"),
	"UtmInput.term":                             put("d"),
	"UtmInput.content":                          put("e"),
	"UtmInput.templateId":                       names(templateIDs),
	"VisitSampleInput.acceptLanguage":           put("de"),
	"VisitSampleInput.address":                  put("192.0.2.1"),
	"VisitSampleInput.at":                       later(0),
	"VisitSampleInput.country":                  put("DE"),
	"VisitSampleInput.gatePassed":               put(true),
	"VisitSampleInput.path":                     put("/a"),
	"VisitSampleInput.private":                  put(true),
	"VisitSampleInput.query":                    put("a=b"),
	"VisitSampleInput.referrer":                 put("https://example.com/"),
	"VisitSampleInput.targetId":                 names(ruleTargetIDs),
	"VisitSampleInput.userAgent":                put("curl/8"),
}

// fillersByName has the values of places that are not in fillers, by the last part of their keys.
var fillersByName = map[string]filler{
	"workspaceId":    names(workspaceIDs),
	"first":          small,
	"folderId":       names(folderIDs),
	"linkId":         names(linkIDs),
	"userId":         names(userIDs),
	"shortUrl":       names(shortURLs),
	"expiresAt":      later(48 * time.Hour),
	"startsAt":       later(time.Hour),
	"onError":        put("SKIP_FAILED"),
	"statsPublic":    put(true),
	"archived":       put(false),
	"at":             later(0),
	"customCode":     names(codes),
	"domainId":       names(ownDomainIDs),
	"email":          names(oneEmail),
	"endedUrl":       put("https://example.com/elsewhere"),
	"externalId":     names(newExternalIDs),
	"folderIds":      names(folderIDs),
	"idempotencyKey": names(onceNames),
	"maxClicks":      put(7),
	"metadata":       put(pairs),
	"newPassword":    put("a pass phrase that is new"),
	"notFoundUrl":    put("https://example.com/elsewhere"),
	"note":           put("A note"),
	"password":       wrongPassword,
	"redirectStatus": put(307),
	"role":           put("VIEWER"),
	"slug":           names(newSlugs),
	"strategy":       put("DETERMINISTIC"),
	"tags":           put([]string{"a tag"}),
	"timezone":       put("Europe/Berlin"),
	"title":          put("A title"),
	"token":          secret,
	"updatedAt":      later(-time.Hour),
	"url":            names(urls),
}

// fillerOf returns the value of a place, and whether there is one.
func fillerOf(key string) (f filler, ok bool) {
	if f, ok = fillers[key]; !ok {
		f, ok = fillersByName[key[strings.LastIndexByte(key, '.')+1:]]
	}
	return f, ok
}

// routingInputs are the inputs below LinkRoutingInput.
var routingInputs = []string{
	"LinkRoutingInput", "RoutingRuleInput", "RoutingTargetInput", "QueryForwardingInput", "UtmInput", "LinkCardInput",
	"LinkGateInput",
}

// proofs are the places of the proofs that replace a password.
var proofs = []string{"ProofInput.password", "ProofInput.totp", "ProofInput.recoveryCode", "ProofInput.passkey"}

// unrouted returns places, and all those of routings, which explainRedirect is called with.
func unrouted(places ...string) []string {
	for place := range fillers {
		input, _, _ := strings.Cut(place, ".")
		if slices.Contains(routingInputs, input) {
			places = append(places, place)
		}
	}
	return places
}

// variant is a way to call something: with all places filled, or only some, or some with other
// values.
type variant struct {
	only, without []string
	set           map[string]any
	// rare limits the variant to callers that try all.
	rare bool
}

// calls configures the calls of an operation. For an exception, the response about another tenant's
// object may differ from that about an unknown one. No exception permits a leak or a change.
type calls struct {
	variants []variant
	// taken is the only code that a response about another tenant's name may have instead of success.
	// Names that are unique in the instance are necessarily taken.
	taken string
	// public is the reason why the response may differ in any way.
	public string
	// refuses is the one unexpected code that is correct here.
	refuses string
	// hashes reports whether the call hashes a password, which takes time.
	hashes bool
	// alone reports whether a mutation is also called with own objects only, because only then its
	// response contains all fields.
	alone bool
}

// plainOperations are called with all their arguments. Adding a host that another tenant has verified needs no proof
// either.
var plainOperations = []string{
	"Mutation.acceptInvitation", "Mutation.addDomain", "Mutation.cancelLinkChange", "Mutation.cancelTask",
	"Mutation.checkLink", "Mutation.completeLogin", "Mutation.confirmTotp", "Mutation.createAnonymousLink",
	"Mutation.createWebhook", "Mutation.deleteFolder", "Mutation.deleteLink", "Mutation.deleteUtmTemplate",
	"Mutation.deleteWebhook", "Mutation.deleteWorkspace", "Mutation.finishSso", "Mutation.inviteMember",
	"Mutation.logout", "Mutation.logoutEverywhere", "Mutation.refreshSession", "Mutation.removeDomain",
	"Mutation.removeMember", "Mutation.removeTotp", "Mutation.renewRecoveryCodes", "Mutation.replaceTags",
	"Mutation.resetPassword", "Mutation.restoreLink", "Mutation.restoreWorkspace", "Mutation.revokeApiKey",
	"Mutation.revokeInvitation", "Mutation.rotateApiKey", "Mutation.rotateWebhookSecret", "Mutation.startSso",
	"Mutation.testWebhook", "Mutation.transferOwnership", "Mutation.updateDomain", "Mutation.updateMemberRole",
	"Mutation.updateWebhook", "Mutation.verifyDomain", "Mutation.verifyEmail", "Query.link", "Query.me",
	"Query.previewCode", "Query.rateLimit", "Query.resolvedAt", "Query.workspace",
}

// operations are the other queries and mutations.
var operations = map[string]calls{
	"Query.countryDatabase": {public: "it is a setting of the instance"},
	"Query.loginOptions":    {public: "they are settings of the instance"},
	"Query.node":            {variants: eachNode("Query.node.id")},
	"Query.nodes":           {variants: eachNode("Query.nodes.ids")},
	// Rules and targets of its own a caller has none that belong to any link.
	"Query.explainRedirect": {refuses: "INVALID_INPUT", variants: []variant{
		{}, {only: []string{
			"LinkBy.id", "LinkBy.shortUrl", "ExternalLinkBy.workspaceId", "ExternalLinkBy.externalId",
			"CodeLinkBy.workspaceId", "CodeLinkBy.code",
		}},
	}},
	"Query.simulateRouting": {refuses: "INVALID_INPUT", variants: []variant{
		{}, {without: slices.DeleteFunc(unrouted(), func(place string) bool {
			return place == "LinkRoutingInput.pendingUrl"
		})},
	}},
	"Query.platformStats": {public: "they are figures of the whole instance"},

	"Mutation.exportClicks": {variants: []variant{
		{without: []string{"ExportClicksInput.folderId"}}, {without: []string{"ExportClicksInput.linkId"}},
		{only: []string{"ExportClicksInput.workspaceId"}},
	}},

	"Subscription.linkClicked": {variants: []variant{
		{}, {without: []string{"Subscription.linkClicked.linkId"}},
	}},
	"Subscription.eventCommitted": {variants: []variant{
		{}, {without: []string{"Subscription.eventCommitted.linkId"}},
	}},

	"Mutation.revertLink":         {variants: []variant{{}, {without: []string{"RevertLinkInput.updatedAt"}}}},
	"Mutation.scheduleLinkChange": {variants: []variant{{without: unrouted()}}, refuses: "INVALID_INPUT"},
	"Mutation.revertOperation":    {alone: true},
	// Templates have values of their own. A name is taken by the call before.
	"Mutation.createUtmTemplate": {taken: "CONFLICT", variants: []variant{{without: []string{"UtmInput.templateId"}}}},
	"Mutation.updateUtmTemplate": {taken: "CONFLICT", variants: []variant{{without: []string{"UtmInput.templateId"}}}},
	"Mutation.createFolder":      {taken: "CONFLICT"},
	"Mutation.updateFolder":      {taken: "CONFLICT"},

	// A workspace has at most 20 unfinished tasks.
	"Mutation.createImport": {taken: "QUOTA_EXCEEDED", variants: []variant{
		{without: []string{"ImportApiInput.baseUrl", "ImportApiInput.token", "ImportApiInput.account"}},
		{set: map[string]any{"CreateImportInput.source": "KUTT"}},
	}},
	"Mutation.applyImport":     {taken: "QUOTA_EXCEEDED"},
	"Mutation.checkParity":     {taken: "QUOTA_EXCEEDED"},
	"Mutation.exportWorkspace": {taken: "QUOTA_EXCEEDED"},

	"Mutation.redeliverWebhook": {variants: []variant{
		{only: []string{"RedeliverWebhookInput.id", "RedeliverWebhookInput.failed"}},
		{only: []string{"RedeliverWebhookInput.id", "RedeliverWebhookInput.deliveryIds"}},
		{only: []string{"RedeliverWebhookInput.id", "TimeRange.from", "TimeRange.to"}},
	}},

	"Mutation.register":                 {taken: "EMAIL_TAKEN", hashes: true},
	"Mutation.login":                    {hashes: true},
	"Mutation.requestEmailVerification": {refuses: "INVALID_INPUT"}, // of every address but the caller's own
	"Mutation.requestPasswordReset":     {hashes: true},
	"Mutation.exportMyData":             {hashes: true, variants: []variant{{without: proofs}}},
	"Mutation.deleteMyAccount":          {hashes: true, variants: []variant{{without: proofs}}},
	"Mutation.changePassword":           {hashes: true, variants: []variant{{without: proofs}}},
	"Mutation.updateMe":                 {hashes: true}, // a new address needs the proof, which is wrong
	"Mutation.enrollTotp":               {hashes: true},

	"Mutation.createWorkspace": {taken: "SLUG_TAKEN"},
	"Mutation.updateWorkspace": {taken: "SLUG_TAKEN", variants: []variant{
		{without: []string{"UpdateWorkspaceInput.primaryDomainId"}},
		{only: []string{"UpdateWorkspaceInput.id", "UpdateWorkspaceInput.primaryDomainId"}},
	}},
	"Mutation.createApiKey": {variants: []variant{
		{without: []string{"CreateApiKeyInput.folderIds"}},
		{set: map[string]any{"CreateApiKeyInput.scopes": fenceScopes}},
	}},

	"Mutation.createLink": {variants: []variant{
		{without: unrouted("CreateLinkInput.customCode", "CreateLinkInput.domainId")},
		{without: unrouted("CreateLinkInput.idempotencyKey"),
			set: map[string]any{"CreateLinkInput.strategy": "CUSTOM"}},
	}},
	"Mutation.createLinks": {variants: []variant{
		{without: unrouted("NewLinkInput.customCode", "NewLinkInput.domainId")},
		{without: unrouted("CreateLinksInput.idempotencyKey"), set: map[string]any{"NewLinkInput.strategy": "CUSTOM"},
			rare: true},
	}},
	"Mutation.upsertLink": {variants: []variant{
		{without: unrouted("NewLinkInput.customCode"), set: map[string]any{"NewLinkInput.strategy": "RANDOM"}},
		{without: unrouted(), set: map[string]any{"NewLinkInput.strategy": "CUSTOM"}},
	}},
	"Mutation.upsertLinks": {variants: []variant{
		{without: unrouted("NewLinkInput.customCode"), set: map[string]any{"NewLinkInput.strategy": "RANDOM"}},
	}},
	"Mutation.claimLinks": {alone: true},
	"Mutation.updateLink": {variants: []variant{
		{without: unrouted("UpdateLinkInput.updatedAt")},
		{only: []string{"UpdateLinkInput.id", "UpdateLinkInput.updatedAt"}, rare: true},
	}},
	"Mutation.updateLinks": {variants: []variant{
		{without: unrouted("UpdateLinkInput.updatedAt")},
		{without: unrouted("UpdateLinkInput.updatedAt"),
			set:  map[string]any{"UpdateLinksInput.onError": "ALL_OR_NOTHING"},
			rare: true},
	}},
	"Mutation.deleteLinks": {variants: []variant{
		{}, {set: map[string]any{"DeleteLinksInput.onError": "ALL_OR_NOTHING"}, rare: true},
	}},
	"Mutation.reportLink": {public: "any client can report a short URL, and following it shows whether it exists"},
}

// eachNode is a variant for each type that implements Node: each caller fetches an object of their
// own tenant and one of another.
func eachNode(key string) (all []variant) {
	for _, k := range nodeKinds {
		all = append(all, variant{set: map[string]any{key: k}})
	}
	return all
}

// together are arguments of fields that mean something together only. Each argument is tried by
// itself, too.
var together = map[string][]variant{
	"Workspace.links": {
		{only: []string{"LinkOrder.field", "Workspace.links.after"}, set: map[string]any{"LinkOrder.field": "TITLE",
			"Workspace.links.after": titlePlaces}, rare: true},
		{only: []string{"LinkOrder.field", "Workspace.links.after"}, set: map[string]any{"LinkOrder.field": "CLICKS",
			"Workspace.links.after": clickPlaces}, rare: true},
		{only: []string{"LinkFilter.tags", "LinkFilter.tagMatch"}, set: map[string]any{"LinkFilter.tagMatch": "ALL"},
			rare: true},
	},
}

// generated lists fields whose values differ between successful calls, besides IDs and times.
var generated = []string{
	"Link.code", "Link.shortUrl", "CreateLinkPayload.shortUrl", "ApiKey.prefix", "Domain.recordValue", "Quota.used",
	"Quota.remaining", "Folder.linkCount",
	"RegisterPayload.token", "RegisterPayload.refreshToken", "InviteMemberPayload.token",
	"CreateAnonymousLinkPayload.claimToken", "Link.version", "Link.versions", "Link.asOf", "Link.qrCode",
	"CreateWebhookPayload.secret", "RotateApiKeyPayload.secret", "RotateWebhookSecretPayload.secret",
	"WebhookAttempt.durationMs",
	"WebhookAttempt.error", "CreateImportPayload.uploadUrl",
}

// onlyFirst lists fields that are null in a repeated call, which changes nothing.
var onlyFirst = []string{
	"CreateLinksPayload.operationId", "UpdateLinksPayload.operationId", "DeleteLinksPayload.operationId",
}

// priced lists mutations that are charged for the largest possible list of links: they select ids of links only.
var priced = []string{"Mutation.claimLinks", "Mutation.removeMember", "Mutation.revertOperation"}

// overview are queries that together show all texts of a tenant.
var overview = []string{"Query.node", "Query.workspace", "Workspace.tasks"}

// computed are fields that are computed from the input, or delayed.
var computed = []string{"CodePreview.codes", "Workspace.unmatchedRequests", "Workspace.events", "Webhook.deliveries",
	"Webhook.waiting", "RedeliverWebhookPayload.count", "Stats.from", "Stats.to",
	// The walk adds changes to the same link, and uses keys.
	"Link.scheduledChanges", "ApiKey.lastUsedAt"}

// named are all fields and places that the table names.
func named() []string {
	all := slices.Concat(slices.Collect(maps.Keys(fillers)), slices.Collect(maps.Keys(operations)),
		slices.Collect(maps.Keys(together)), plainOperations, generated, onlyFirst, priced,
		overview, computed)
	for _, variants := range together {
		all = append(all, inVariants(variants)...)
	}
	for _, c := range operations {
		all = append(all, inVariants(c.variants)...)
	}
	return all
}

func inVariants(variants []variant) (all []string) {
	for _, v := range variants {
		all = slices.Concat(all, v.only, v.without, slices.Collect(maps.Keys(v.set)))
	}
	return all
}
