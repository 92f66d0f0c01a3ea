package importsource

import "strings"

// usual are properties that say when, how often and whether a link redirects, by the names that
// databases and services have for them. A file of one's own has all of them; of an item of another
// source they are those that the table of its format lacks, so that no limit and no block is
// ignored because its name is that of another source. Names are folded and have no affixes.
var usual = []property{
	to(setStart, "startsat", "validsince", "start", "starts", "started", "begin", "begins", "validfrom", "validafter",
		"activefrom", "activesince", "availablefrom", "enabledfrom", "visiblefrom", "publishfrom", "publishat",
		"publishon", "publishdate", "publishtime", "publication", "effective", "effectivefrom", "notbefore",
		"activateat", "activateon", "activates", "activation", "enableat", "golive", "launch", "schedule", "scheduled",
		"scheduledfor").as(StartsAt),
	to(setEnd, "expiresat", "expires", "expiration", "validuntil", "expire", "expiry", "expirein", "expiresin",
		"expiryin", "expireafter", "expiresafter", "validto", "validtill", "validthrough", "validbefore", "validfor",
		"end", "ends", "until", "till", "deadline", "notafter", "activeuntil", "activeto", "activetill",
		"availableuntil", "availableto", "enableduntil", "visibleuntil", "publishuntil", "unpublish", "deactivate",
		"deactivates", "deactivation", "termination", "effectiveto", "effectiveuntil", "ttl", "timetolive",
		"lifetime").as(ExpiresAt),
	to(setEnded, "expired", "ended"),
	to(setLimit, "maxclicks", "maxvisits", "clickslimit", "clicklimit", "visitlimit", "visitslimit", "maxclick",
		"maxvisit", "maxhits", "hitlimit", "hitslimit", "maxviews", "viewlimit", "viewslimit", "maxuses", "maxusage",
		"maxusages", "uselimit", "usagelimit", "maxredirects", "redirectlimit", "maxaccess", "maxaccesses",
		"accesslimit", "maxcount", "maxclickcount", "maxvisitcount", "maximumclicks", "maximumvisits", "clicksmax",
		"visitsmax", "clickcap", "limit", "limitclicks", "allowedclicks", "expireafterclicks", "expiresafterclicks",
		"expireonclicks", "expirationclicks", "max", "maximum").as(MaxClicks),
	to(setRemaining, "remainingclicks", "clicksremaining", "clicksleft", "remainingvisits", "visitsremaining",
		"visitsleft", "remaininguses", "usesleft").as(MaxClicks),
	to(setArchived, "archived").as(Archived),
	to(protectSecret, "password", "passwd", "pwd", "pass", "passcode", "passphrase", "passhash", "pwdhash", "pin",
		"pincode", "accesscode", "unlockcode", "secretkey", "auth", "basicauth", "protected", "protection"),
	to(setState(Unsupported), "status", "state", "lifecycle", "visibility", "publishstatus", "publicationstatus",
		"moderationstatus", "moderationstate", "approvalstatus"),
	to(setActive, "enabled", "enable", "active", "activated", "activate", "published", "publish", "live", "online",
		"approved", "valid", "available", "public", "visible"),
	to(setBlocked, "disabled", "disable", "banned", "ban", "blocked", "block", "blacklisted", "blocklisted", "deleted",
		"delete", "deletion", "removed", "removal", "trashed", "trash", "intrash", "suspended", "suspension", "draft",
		"paused", "inactive", "deactivated", "unpublished", "private", "revoked", "locked", "frozen", "quarantined",
		"flagged", "spam", "malicious", "malware", "phishing", "unsafe", "abuse", "offline", "stopped", "closed",
		"canceled", "cancelled", "rejected", "exhausted", "consumed", "hidden"),
	to(setBlockedUntil, "banneduntil", "blockeduntil", "disableduntil", "suspendeduntil", "pauseduntil", "lockeduntil"),
	to(setBlocked, "onetime", "singleuse", "oneuse", "selfdestruct", "restricted", "loginrequired", "requirelogin",
		"requireslogin", "authrequired", "requireauth", "requiresauth", "membersonly", "allowedips", "allowedcountries",
		"allowedemails", "allowedusers", "allowlist", "whitelist", "ipallowlist", "ipwhitelist", "blockedips",
		"blockedcountries"),
}

// usualNames finds the usual properties by name.
var usualNames = func() map[string]*property {
	names := map[string]*property{}
	for i := range usual {
		for _, name := range usual[i].names {
			names[name] = &usual[i]
		}
	}
	return names
}()

// The affixes of names that do not change what they mean, as in is_link_disabled_at. Longer ones
// are before those that they end in. Who blocked a link and why says that it is blocked.
var (
	usualPrefixes = []string{"is", "has", "was", "link", "shorturl", "url", "date"}
	usualSuffixes = []string{"timestamp", "datetime", "status", "state", "date", "time", "flag", "utc", "ts", "at",
		"on"}
	blockSuffixes = []string{"byid", "by", "reason", "since", "from"}
)

// usualOf returns the usual property that a name means; nil for any other name. Each name that has
// the word password is about one.
func usualOf(name string) *property {
	folded := nameOf(name, true)
	for key := folded; key != ""; key = withoutAffix(key) {
		if p := usualNames[key]; p != nil {
			return p
		}
	}
	for _, suffix := range blockSuffixes {
		subject, ok := strings.CutSuffix(folded, suffix)
		if blocks := usualNames["blocked"]; ok && usualNames[subject] == blocks {
			return blocks
		}
	}
	if strings.Contains(folded, "password") || strings.Contains(folded, "passwd") {
		return usualNames["password"]
	}
	return nil
}

// withoutAffix returns a name without one affix; empty for a name that has none.
func withoutAffix(name string) string {
	for _, prefix := range usualPrefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	for _, suffix := range usualSuffixes {
		if rest, ok := strings.CutSuffix(name, suffix); ok {
			return rest
		}
	}
	return ""
}

// truths are the truth values that databases and spreadsheets write. MySQL writes a bit as a byte
// or as b'1', PostgreSQL a bool as t, and spreadsheets a bool in the language of their user.
var truths = wordsOf(map[bool]string{
	true:  "true t yes y 1 on wahr ja vrai oui verdadero sí si verdadeiro sim vero waar b'1' 0x01 \\x01 \x01",
	false: "false f no n 0 off falsch nein faux non falso não nao onwaar nee b'0' 0x00 \\x00 \\0 \x00",
})

// nulls are spellings of no value, in fields that are no texts.
var nulls = wordsOf(map[bool]string{
	true: `null nil none nan nat n/a na - -- – — undefined \n (null) [null] <null> <na> (none)`,
})

// openStates are the states in which a link redirects. Any other state closes it.
var openStates = wordsOf(map[bool]string{
	true: "active activated enabled published live online open public unlisted visible available approved valid ok " +
		"normal running up 200 aktiv actif activo ativo attivo actief",
})

// Spellings of no start, and of no end or limit.
var (
	noStart = wordsOf(map[bool]string{true: "now always immediately -infinity"})
	noEnd   = wordsOf(map[bool]string{true: "never unlimited infinite infinity forever permanent ∞"})
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
