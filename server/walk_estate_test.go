package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// estate is a tenant with objects of every kind, whose texts all contain the mark.
type estate struct {
	t *testing.T
	s *server
	// mark is a unique word. Every text that the tenant has stored contains it.
	mark string
	// texts are the texts that the tenant itself must see.
	texts []string
	// members are the users by role. The bridge is a member of both tenants, so its name is not a
	// secret of either.
	members map[string]user
	bridge  user
	// ids are IDs and names of the tenant's objects: the first of a kind is a plain one, the others
	// are in other states.
	ids map[*kind][]string
	// links are the links' ids by their states.
	links map[string]string
	// pool lists URLs of the tenant's links, and codes of links to them. Each entry, from next on, is used
	// for one successful creation of a link to the same URL.
	pool []pooled
	next int
	// secrets are all ids and codes in the tenant's rows.
	secrets map[string]bool
}

// poolSize is how many links of the other tenant can be tried to be made again.
var poolSize = suitetest.Size(60, 240)

// pooled is the destination of two links of a tenant: a DETERMINISTIC one, and a CUSTOM one with
// the code.
type pooled struct{ url, code, key, externalID string }

// user is a logged-in user.
type user struct {
	client
	id, email, password, agent string
}

// word returns a random word with an initial. Words with the same initial sort next to each other.
func word(initial string) string {
	var text strings.Builder
	text.WriteString(initial)
	for range 11 {
		text.WriteByte(byte('a' + rand.IntN(26)))
	}
	return text.String()
}

// text returns a text with the mark, and records that the tenant must be able to read it.
func (e *estate) text(label string) string {
	text := label + "-" + e.mark
	e.texts = append(e.texts, text)
	return text
}

// mutate runs a mutation that must succeed, and returns the payload.
func (e *estate) mutate(who user, operation string, in map[string]any, selection string) map[string]any {
	e.t.Helper()
	query := fmt.Sprintf("mutation ($in: %sInput!) { %s(input: $in) { %s errors { code message field } } }",
		strings.ToUpper(operation[:1])+operation[1:], operation, selection)
	body, err := json.Marshal(map[string]any{"query": query, "variables": map[string]any{"in": in}})
	if err != nil {
		e.t.Fatal(err)
	}
	a, err := who.post(body, "User-Agent", who.agent)
	var got struct{ Data map[string]map[string]any }
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &got)
	}
	payload := got.Data[operation]
	if problems, _ := payload["errors"].([]any); err != nil || payload == nil || len(problems) > 0 {
		e.t.Fatalf("%s %v: %s, %v", operation, in, a.body, err)
	}
	return payload
}

// textAt returns the text at a path of a response.
func textAt(value any, path ...string) string {
	for _, name := range path {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	text, _ := value.(string)
	return text
}

// newUser registers a user.
func (e *estate) newUser(name, email, agent string) user {
	e.t.Helper()
	who := user{client: client{server: e.s}, email: email, password: "pass phrase of " + name, agent: agent}
	got := e.mutate(who, "register", map[string]any{"email": email, "password": who.password, "name": name},
		"token user { id }")
	who.token, who.id = textAt(got, "token"), textAt(got, "user", "id")
	return who
}

// newMember registers a user whose texts all contain the mark.
func (e *estate) newMember(role string) user {
	e.t.Helper()
	role = strings.ToLower(role)
	return e.newUser(e.text("name-"+role), e.text("mail-"+role)+"@example.com", "agent-"+role+"-"+e.mark)
}

// newEstate creates a tenant with an owner, members in the other roles, and a member of another
// tenant.
func newEstate(t *testing.T, s *server, b backend, initial string, bridge user, pool int, roles ...string) *estate {
	t.Helper()
	e := &estate{
		t: t, s: s, mark: word(initial), bridge: bridge, members: map[string]user{}, ids: map[*kind][]string{},
		links:   map[string]string{},
		secrets: map[string]bool{},
	}
	e.createWorkspaces()
	e.addMembers(roles)
	e.createKeysAndDomains()
	e.createLinks()
	e.fillPool(pool)
	e.click("exhausted") // first, so that a click of the plain link follows
	e.click("plain")
	e.requestUnknownCode()
	e.setStates(b)
	return e
}

// createWorkspaces creates the workspace, which has had another slug, and a deleted workspace.
func (e *estate) createWorkspaces() {
	e.t.Helper()
	owner := e.newMember("OWNER")
	e.texts = append(e.texts, owner.agent)
	e.members["OWNER"] = owner
	create := func(name, slug string) string {
		return textAt(e.mutate(owner, "createWorkspace", map[string]any{"name": name, "slug": slug},
			"workspace { id }"),
			"workspace", "id")
	}
	e.ids[slugs] = []string{e.text("slug"), "old-" + e.mark, "gone-" + e.mark}
	e.ids[workspaceIDs] = []string{create(e.text("workspace"), e.ids[slugs][1]),
		create("gone "+e.mark, e.ids[slugs][2])}
	e.mutate(owner, "updateWorkspace", map[string]any{"id": e.workspaceID(), "slug": e.ids[slugs][0]}, "")
	e.mutate(owner, "createLink", map[string]any{
		"workspaceId": e.ids[workspaceIDs][1], "url": "https://example.com/" + e.mark, "strategy": "CUSTOM",
		"customCode": "gone-" + e.mark,
	}, "")
	e.mutate(owner, "deleteWorkspace", map[string]any{"id": e.ids[workspaceIDs][1]}, "")
}

func (e *estate) workspaceID() string { return e.ids[workspaceIDs][0] }

// addMembers invites an address, and adds other users as members by invitations.
func (e *estate) addMembers(roles []string) {
	e.t.Helper()
	owner := e.members["OWNER"]
	invite := func(email, role string) (token string) {
		got := e.mutate(owner, "inviteMember",
			map[string]any{"workspaceId": e.workspaceID(), "email": email, "role": role},
			"token invitation { id }")
		e.ids[invitationIDs] = append(e.ids[invitationIDs], textAt(got, "invitation", "id"))
		return textAt(got, "token")
	}
	invited := e.text("invited") + "@example.com"
	invite(invited, "ADMIN")
	e.ids[emails], e.ids[userIDs] = []string{owner.email, invited}, []string{owner.id}
	for _, role := range roles {
		who := e.newMember(role)
		e.members[role] = who
		e.mutate(who, "acceptInvitation", map[string]any{"token": invite(who.email, role)}, "")
		e.ids[emails], e.ids[userIDs] = append(e.ids[emails], who.email), append(e.ids[userIDs], who.id)
	}
	e.mutate(e.bridge, "acceptInvitation", map[string]any{"token": invite(e.bridge.email, "ADMIN")}, "")
}

// createKeysAndDomains creates API keys and domains.
func (e *estate) createKeysAndDomains() {
	e.t.Helper()
	owner := e.members["OWNER"]
	key, _ := e.key("LINKS_READ", "AUDIT_READ")
	ended, _ := e.key("LINKS_READ")
	e.mutate(owner, "revokeApiKey", map[string]any{"id": ended}, "")
	e.ids[keyIDs] = []string{key, ended}
	for _, label := range []string{"pending", "verified"} { // setStates verifies the second
		host := e.text(label) + ".example"
		got := e.mutate(e.bridge, "addDomain", map[string]any{"workspaceId": e.workspaceID(), "host": host},
			"domain { id }")
		e.ids[hosts], e.ids[domainIDs] = append(e.ids[hosts], host), append(e.ids[domainIDs],
			textAt(got, "domain", "id"))
	}
	got := e.mutate(e.bridge, "addDomain", map[string]any{
		"workspaceId": e.workspaceID(), "host": e.text("own") + ".example", "codeSpace": "OWN", "caseSensitive": false},
		"domain { id }")
	e.ids[ownDomainIDs] = []string{textAt(got, "domain", "id")}
}

// key creates an API key and uses it.
func (e *estate) key(scopes ...string) (keyID, secret string) {
	e.t.Helper()
	got := e.mutate(e.members["OWNER"], "createApiKey", map[string]any{
		"workspaceId": e.workspaceID(), "name": e.text("key"), "scopes": scopes}, "secret apiKey { id }")
	client{server: e.s, token: textAt(got, "secret")}.must(e.t, &struct{}{}, "{ platformStats { totalLinks } }", nil)
	return textAt(got, "apiKey", "id"), textAt(got, "secret")
}

// createCommon creates links, a rule, a folder, an operation and a scheduled change. It returns the link with a custom
// code.
func (e *estate) createCommon(creator user) (custom map[string]any) {
	e.t.Helper()
	owner := e.members["OWNER"]
	e.ids[externalIDs] = []string{e.text("external")}
	e.link(owner, "plain", map[string]any{
		"externalId": e.ids[externalIDs][0], "metadata": []any{map[string]any{"key": "a", "value": e.text("metadata")}},
	})
	custom = e.link(creator, "custom", map[string]any{"strategy": "CUSTOM", "customCode": e.text("code")})
	e.link(owner, "exhausted", map[string]any{"maxClicks": 1})
	e.link(owner, "deleted", nil)
	e.mutate(owner, "deleteLink", map[string]any{"id": e.links["deleted"]}, "")
	operated := e.mutate(owner, "createLinks", map[string]any{
		"workspaceId": e.workspaceID(),
		"links":       []any{map[string]any{"url": "https://example.com/" + e.text("operated")}},
	}, "operationId results { link { id } }")
	e.ids[operationIDs] = []string{textAt(operated, "operationId")}
	e.ids[linkIDs] = append(e.ids[linkIDs], textAt(operated["results"].([]any)[0], "link", "id"))
	e.createRules()
	name := e.text("folder")
	folder := e.mutate(owner, "createFolder", map[string]any{"workspaceId": e.workspaceID(), "name": name},
		"folder { id }")
	e.ids[folderNames], e.ids[folderIDs] = []string{name}, []string{textAt(folder, "folder", "id")}
	e.ids[folderPlaces] = []string{e.ids[folderIDs][0] + " NAME+ " + name}
	e.mutate(owner, "updateLink", map[string]any{"id": textAt(custom, "id"), "folderId": e.ids[folderIDs][0]},
		"link { id }")
	scheduled := e.mutate(owner, "scheduleLinkChange", map[string]any{
		"linkId": textAt(custom, "id"), "at": time.Now().Add(time.Hour),
		"change": map[string]any{"title": e.text("scheduled")},
	}, "scheduledChange { id }")
	e.ids[scheduledIDs] = []string{textAt(scheduled, "scheduledChange", "id")}
	e.ids[linkCodes], e.ids[shortURLs] = []string{textAt(custom, "code")}, []string{textAt(custom, "shortUrl")}
	e.ids[words], e.ids[tags] = []string{e.mark, "title-plain-" + e.mark}, []string{"tag-plain-" + e.mark}
	e.ids[tagPlaces] = []string{" TAG+ tag-plain-" + e.mark}
	return custom
}

// createLinks creates links in every state.
func (e *estate) createLinks() {
	e.t.Helper()
	owner := e.members["OWNER"]
	code := textAt(e.createCommon(e.bridge), "code")
	e.link(owner, "archived", nil)
	e.mutate(owner, "updateLink", map[string]any{"id": e.links["archived"], "archived": true}, "")
	e.link(owner, "scheduled", map[string]any{"startsAt": time.Now().Add(24 * time.Hour)})
	for _, label := range []string{"expired", "disabled", "purged"} { // setStates sets these states
		e.link(owner, label, nil)
	}
	// purged texts are not visible to any caller
	e.texts = slices.DeleteFunc(e.texts, func(text string) bool { return strings.Contains(text, "-purged-") })
	claimed := e.s.anonymous(e.t, "https://example.com/"+e.text("claimed"))
	e.mutate(owner, "claimLinks", map[string]any{"workspaceId": e.workspaceID(),
		"claimTokens": []string{claimed.ClaimToken}}, "")
	e.links["claimed"] = claimed.Link.ID
	e.ids[linkIDs] = append(e.ids[linkIDs], claimed.Link.ID)
	e.importLinks()
	name := e.text("template")
	template := e.mutate(owner, "createUtmTemplate", map[string]any{
		"workspaceId": e.workspaceID(), "name": name, "utm": map[string]any{"source": e.text("source")},
	}, "utmTemplate { id }")
	e.ids[itemNames] = []string{name}
	e.ids[templateIDs] = []string{textAt(template, "utmTemplate", "id")}
	e.ids[templatePlaces] = []string{e.ids[templateIDs][0] + " NAME+ " + name}
	e.createWebhook()
	e.ids[shortURLs] = append(e.ids[shortURLs], e.s.public+"/old-"+e.mark+"/"+code,
		e.s.public+"/gone-"+e.mark+"/gone-"+e.mark, "https://verified-"+e.mark+".example/"+code)
}

// importLinks imports a link, after an export and a dry run.
func (e *estate) importLinks() {
	e.t.Helper()
	c := e.members["OWNER"].client
	archive := e.mutate(e.members["OWNER"], "exportWorkspace", map[string]any{"workspaceId": e.workspaceID()},
		"task { id }")
	c.exportOf(e.t, textAt(archive, "task", "id"))
	taskID, uploadURL := c.createImport(e.t, map[string]any{
		"workspaceId": e.workspaceID(), "source": "CSV", "label": e.text("label"),
		"hosts": []any{map[string]any{"host": e.text("old") + ".example", "domainId": e.ids[domainIDs][0]}},
	})
	file := fmt.Sprintf("Short URL,Long URL,Title,%s\nhttps://old-%s.example/a,https://example.com/%s,%s,x\n",
		e.text("column"), e.mark, e.text("imported"), e.text("title-imported")+strings.Repeat("x", 200))
	if status := e.s.upload(e.t, uploadURL, []byte(file)); status != http.StatusCreated {
		e.t.Fatalf("the upload answers %d", status)
	}
	c.ended(e.t, taskID)
	it := c.applied(e.t, taskID)
	if got := outcomes(it); got != "SUCCEEDED 1 of 1: CREATED 1" {
		e.t.Fatalf("%s: %+v", got, it)
	}
	got := e.mutate(e.members["OWNER"], "checkParity", map[string]any{"workspaceId": e.workspaceID()}, "task { id }")
	c.ended(e.t, textAt(got, "task", "id"))
	e.ids[taskIDs] = []string{taskID, it.ID, textAt(got, "task", "id"), textAt(archive, "task", "id")}
}

// createRules creates a link with a rule.
func (e *estate) createRules() {
	e.t.Helper()
	rule := map[string]any{"name": e.text("rule"), "when": conditions, "targets": []any{
		map[string]any{"name": e.text("target"), "url": "https://example.com/" + e.text("to-target")},
	}}
	got := e.mutate(e.members["OWNER"], "createLink", map[string]any{
		"workspaceId": e.workspaceID(), "url": "https://example.com/" + e.text("to-routed"), "strategy": "RANDOM",
		"routing": map[string]any{
			"rules": []any{rule}, "utm": map[string]any{"source": "a"},
			"card": map[string]any{
				"title": e.text("card-title"), "description": e.text("card-description"),
				"imageAlt": e.text("card-alt"),
				"imageUrl": "https://example.com/" + e.text("card-image"),
			},
			"gate":  map[string]any{"password": "a password of the walk", "notice": e.text("notice"), "confirm": true},
			"tests": []any{map[string]any{"visit": map[string]any{"country": "DE"}, "status": 302}},
		},
	}, "link { id routing { rules { id: ruleId targets { id: targetId } } } }")
	made := got["link"].(map[string]any)
	created := made["routing"].(map[string]any)["rules"].([]any)[0].(map[string]any)
	e.ids[linkIDs] = append(e.ids[linkIDs], textAt(made, "id"))
	e.ids[ruleIDs] = []string{textAt(created, "id")}
	e.ids[ruleTargetIDs] = []string{textAt(created["targets"].([]any)[0], "id")}
}

// createWebhook creates a paused webhook with a delivery.
func (e *estate) createWebhook() {
	e.t.Helper()
	owner := e.members["OWNER"]
	got := e.mutate(owner, "createWebhook", map[string]any{
		"workspaceId": e.workspaceID(), "name": e.text("webhook"), "url": "https://hooks.example.com/" + e.text("hook"),
		"types": []string{"LINK_CREATED"},
	}, "webhook { id }")
	hook := textAt(got, "webhook", "id")
	e.ids[webhookIDs] = []string{hook}
	e.mutate(owner, "updateWebhook", map[string]any{"id": hook, "status": "PAUSED"}, "")
	span := map[string]any{"from": time.Now().Add(-time.Hour), "to": time.Now().Add(time.Hour)}
	polltest.Until(e.t, "the webhook has deliveries", func() bool {
		again := e.mutate(owner, "redeliverWebhook", map[string]any{"id": hook, "range": span}, "count")
		n, _ := again["count"].(float64)
		return n > 0
	})
	var page struct {
		Node struct {
			Deliveries struct {
				Edges []struct{ Node struct{ ID string } }
			}
		}
	}
	owner.must(e.t, &page, `query ($id: ID!) { node(id: $id) { ... on Webhook { deliveries(first: 1) {
		edges { node { id } } } } } }`, map[string]any{"id": hook})
	e.ids[deliveryIDs] = []string{page.Node.Deliveries.Edges[0].Node.ID}
}

// link creates a link with all optional values, except for the given ones.
func (e *estate) link(who user, label string, more map[string]any) map[string]any {
	e.t.Helper()
	in := map[string]any{
		"workspaceId": e.workspaceID(), "url": "https://example.com/" + e.text("to-"+label), "strategy": "COUNTER",
		"title": e.text("title-" + label),
		"note":  e.text("note-" + label), "tags": []string{e.text("tag-" + label)},
	}
	maps.Copy(in, more)
	link, _ := e.mutate(who, "createLink", in, "link { id code shortUrl }")["link"].(map[string]any)
	e.links[label] = textAt(link, "id")
	e.ids[linkIDs] = append(e.ids[linkIDs], textAt(link, "id"))
	return link
}

// fillPool creates the links of the pool.
func (e *estate) fillPool(n int) {
	e.t.Helper()
	owner := e.members["OWNER"]
	var links []map[string]any
	for i := range n {
		p := pooled{fmt.Sprintf("https://example.com/%s/%d", e.mark, i), fmt.Sprintf("%s-%d", e.mark, i),
			fmt.Sprintf("again-%s-%d", e.mark, i), fmt.Sprintf("external-%s-%d", e.mark, i)}
		e.pool = append(e.pool, p)
		links = append(links, map[string]any{
			"url": p.url, "strategy": "CUSTOM", "customCode": p.code, "externalId": p.externalID,
		})
		e.mutate(owner, "createLink", map[string]any{
			"workspaceId": e.workspaceID(), "url": p.url, "strategy": "DETERMINISTIC", "idempotencyKey": p.key}, "")
	}
	e.mutate(owner, "createLinks", map[string]any{"workspaceId": e.workspaceID(), "links": links},
		"results { created }")
}

// requestUnknownCode requests an unknown code.
func (e *estate) requestUnknownCode() {
	e.t.Helper()
	e.s.expect(e.t, http.StatusNotFound, http.MethodGet, "/"+e.ids[slugs][0]+"/misprint-"+e.mark)
	polltest.Until(e.t, "the unmatched request is listed", func() bool {
		var got struct {
			Workspace struct{ UnmatchedRequests []struct{ Code string } }
		}
		e.members["OWNER"].must(e.t, &got, `query ($w: ID!) { workspace(by: {id: $w}) { unmatchedRequests { code } } }`,
			map[string]any{"w": e.workspaceID()})
		return len(got.Workspace.UnmatchedRequests) == 1
	})
}

// click follows a link and waits until the click is counted.
func (e *estate) click(label string) {
	e.t.Helper()
	var got struct {
		Link struct {
			ShortURL, Code string
			Workspace      struct{ Slug string }
			ClickCount     int
		}
	}
	refresh := func() {
		e.members["OWNER"].must(e.t, &got,
			`query ($id: ID!) { link(by: {id: $id}) { shortUrl code workspace { slug } clickCount } }`,
			map[string]any{"id": e.links[label]})
	}
	refresh()
	e.ids[shortURLs] = append(e.ids[shortURLs], got.Link.ShortURL)
	e.s.expect(e.t, http.StatusFound, http.MethodGet, "/"+got.Link.Workspace.Slug+"/"+got.Link.Code)
	polltest.Until(e.t, "a click is counted", func() bool {
		refresh()
		return got.Link.ClickCount == 1
	})
}

// setStates sets states in the database that otherwise require time, DNS or the operator, and reads
// the IDs that no response contains.
func (e *estate) setStates(b backend) {
	e.t.Helper()
	d := must.Value(b.open())(e.t)
	defer d.Close()
	ctx, past := db.AsSystem(e.t.Context()), db.Instant(time.Now().Add(-time.Hour))
	verified := e.ids[domainIDs][1]
	for _, change := range []struct{ table, id, columns string }{
		{"links", e.links["expired"], "expires_at ended_at"}, {"links", e.links["disabled"], "disabled_at"},
		{"links", e.links["purged"], "deleted_at ended_at purged_at"}, {"domains", verified, "verified_at checked_at"},
	} {
		for column := range strings.FieldsSeq(change.columns) {
			must.Value(d.NewUpdate().Table(change.table).Set("? = ?", bun.Ident(column), past).
				Where("id = ?", change.id).Exec(ctx))(e.t)
		}
	}
	must.Value(d.NewInsert().Model(&webhook.Attempt{
		DeliveryID: e.ids[deliveryIDs][0], Number: 1, WorkspaceID: e.workspaceID(), SentAt: past, Status: new(500),
		Error: new(webhook.StatusError), DurationMs: 7,
	}).Exec(ctx))(e.t)
	for _, accountID := range e.ids[userIDs] {
		linked := &account.Identity{Issuer: "https://login.example", Subject: accountID, AccountID: accountID,
			CreatedAt: past, UsedAt: past}
		must.Value(d.NewInsert().Model(linked).On("CONFLICT DO NOTHING").Exec(ctx))(e.t)
	}
	e.mutate(e.members["OWNER"], "updateWorkspace", map[string]any{"id": e.workspaceID(), "primaryDomainId": verified},
		"")
	read := func(table, column string, owners []string) (ids []string) {
		err := d.NewSelect().Table(table).Column("id").Where("? IN (?)", bun.Ident(column), bun.In(owners)).Order("id").
			Scan(ctx, &ids)
		if err != nil || len(ids) == 0 {
			e.t.Fatalf("%s: %v, %v", table, ids, err)
		}
		return ids
	}
	e.ids[sessionIDs] = read("sessions", "account_id", e.ids[userIDs])
	e.ids[eventIDs] = read("audit_events", "workspace_id", e.ids[workspaceIDs])[:2]
	e.readClicks(d, "workspace_id", e.ids[workspaceIDs])
	for _, accountID := range e.ids[userIDs] {
		e.ids[memberIDs] = append(e.ids[memberIDs], id.Pair(id.Member, accountID, e.workspaceID()))
	}
	e.ids[exportParts] = []string{"links " + e.links["plain"], "changes " + e.ids[eventIDs][0]}
}

// readClicks reads the ids of clicks, and sets places in the orders of links.
func (e *estate) readClicks(d *db.DB, column string, owners []string) {
	e.t.Helper()
	var clicks []click.Click
	must.NoError(e.t, d.NewSelect().Table("clicks").Column("id", "clicked_at").
		Where("? IN (?)", bun.Ident(column), bun.In(owners)).Order("clicked_at").
		Scan(db.AsSystem(e.t.Context()), &clicks))
	for _, c := range clicks {
		e.ids[clickIDs] = append(e.ids[clickIDs], c.PublicID())
	}
	e.ids[titlePlaces] = []string{e.links["plain"] + " TITLE+ title-plain-" + e.mark}
	e.ids[clickPlaces] = []string{e.links["plain"] + " CLICKS 1"}
}

// anID matches an ID of any type within other text.
var anID = regexp.MustCompile(
	`\b(usr|ses|ws|inv|key|dom|evt|fld|lnk|clk|log|rep|mem|rul|tgt|utm|opn|whk|dlv|sch|tsk)_` +
		`[0-7][0-9a-hjkmnp-tv-z]{25}` +
		`([0-7][0-9a-hjkmnp-tv-z]{25})?\b`)

// unknownLike returns a text like one of the other tenant's that identifies no object: with another word
// instead of the mark, and with other IDs of the same instant, which have the same position in any order.
func (c *caller) unknownLike(text string) string {
	c.t.Helper()
	mark := c.foreign.mark
	other := strings.ReplaceAll(text, mark, word(mark[:1]))
	other = anID.ReplaceAllStringFunc(other, func(one string) string {
		return one[:len(one)-16] + id.New(id.Log)[4+10:]
	})
	if i := strings.LastIndexByte(text, '/'); other == text && i > 0 { // a short URL with a generated code
		other = text[:i+1] + word("x")
	}
	if other == text {
		c.t.Fatalf("%q contains neither a mark nor an ID to replace", text)
	}
	return other
}

// exposed returns a text of the tenant that a response contains, or nothing.
func (e *estate) exposed(answer string) string {
	if at := strings.Index(answer, e.mark); at >= 0 {
		return answer[max(0, at-60):min(len(answer), at+60)]
	}
	for word := range strings.FieldsFuncSeq(answer, func(c rune) bool { return !isIDCharacter(c) }) {
		if e.secrets[word] {
			return word
		}
	}
	return ""
}

// isIDCharacter reports whether IDs and codes may contain the character.
func isIDCharacter(c rune) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// cursor returns an opaque cursor for a position.
func cursor(place string) string { return base64.RawURLEncoding.EncodeToString([]byte(place)) }
